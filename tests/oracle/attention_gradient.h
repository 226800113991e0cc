#pragma once

// The oracle: the gradient of sum(out * out_gradient) for the dense attention of attention.h,
// written out by the chain rule, with the size of the numbers each element was summed from (magnitude).
// Tables: number_term_backward, query_row_term_backward, key_row_term_backward.

#include "tests/oracle/attention.h"

namespace locant::oracle {

// Gradients, or the magnitudes behind them; shapes as in Attention.
struct AttentionGradient {
  Matrix q, k, v;
  Matrix scaled, unscaled;                         // [Lq][Lk]
  std::vector<double> scaled_keys, unscaled_keys;  // [Lk]
  Matrix value_table;                              // empty where there is none
};

struct GradientAndMagnitude {
  AttentionGradient gradient;
  AttentionGradient magnitude;
};

inline GradientAndMagnitude attention_gradient(const Attention& a, const Matrix& out_gradient) {
  const AttentionResult r = attention(a);
  const int lq = a.q.rows;
  const int lk = a.k.rows;
  const double none = -std::numeric_limits<double>::infinity();

  GradientAndMagnitude both;
  for (AttentionGradient* g : {&both.gradient, &both.magnitude}) {
    g->q = Matrix(lq, a.q.cols);
    g->k = Matrix(lk, a.k.cols);
    g->v = Matrix(lk, a.v.cols);
    g->scaled = g->unscaled = Matrix(lq, lk);
    g->scaled_keys.assign(static_cast<std::size_t>(lk), 0.0);
    g->unscaled_keys.assign(static_cast<std::size_t>(lk), 0.0);
    g->value_table = Matrix(a.value_table.rows, a.value_table.cols);
  }
  AttentionGradient& g = both.gradient;
  AttentionGradient& m = both.magnitude;

  for (int i = 0; i < lq; ++i) {
    if (r.lse[static_cast<std::size_t>(i)] == none) continue;  // zeros, and zero gradients
    std::vector<double> dp(static_cast<std::size_t>(lk), 0.0);  // d / d weight
    std::vector<double> dp_size(static_cast<std::size_t>(lk), 0.0);
    double mean = 0;
    double mean_size = 0;
    double row_size = 0;  // share of the scores' own rounding: 1 + largest |score| + mean |score|
    for (int j = 0; j < lk; ++j) {
      if (r.logits(i, j) == none) continue;
      const std::size_t key = static_cast<std::size_t>(j);
      for (int c = 0; c < a.v.cols; ++c) {
        double value = a.v(j, c);
        double size = std::fabs(value);
        if (!a.value_table.empty() && a.value_index(i, j) >= 0) {
          value += a.value_table(a.value_index(i, j), c);
          size += std::fabs(a.value_table(a.value_index(i, j), c));
        }
        dp[key] += out_gradient(i, c) * value;
        dp_size[key] += std::fabs(out_gradient(i, c)) * size;
      }
      mean += r.weights(i, j) * dp[key];
      mean_size += r.weights(i, j) * dp_size[key];
      row_size = std::max(row_size, 1 + 2 * r.score_size(i, j));
    }
    for (int j = 0; j < lk; ++j) {
      if (r.logits(i, j) == none) continue;
      const std::size_t key = static_cast<std::size_t>(j);
      const double p = r.weights(i, j);
      const double ds = p * (dp[key] - mean);
      const double ds_size = p * (dp_size[key] + mean_size) * row_size;
      g.unscaled(i, j) = ds;
      m.unscaled(i, j) = ds_size;
      g.unscaled_keys[key] += ds;
      m.unscaled_keys[key] += ds_size;

      double slope = a.scale;  // of the softcap and the scale
      if (a.softcap > 0) slope *= 1 - r.tanh(i, j) * r.tanh(i, j);
      g.scaled(i, j) = ds * slope;
      // 1 - tanh^2 may cancel: its rounding counts as that of 1.
      m.scaled(i, j) = ds_size * std::fabs(a.scale);
      g.scaled_keys[key] += g.scaled(i, j);
      m.scaled_keys[key] += m.scaled(i, j);
      for (int c = 0; c < a.q.cols; ++c) {
        g.q(i, c) += g.scaled(i, j) * a.k(j, c);
        m.q(i, c) += m.scaled(i, j) * std::fabs(a.k(j, c));
        g.k(j, c) += g.scaled(i, j) * a.q(i, c);
        m.k(j, c) += m.scaled(i, j) * std::fabs(a.q(i, c));
      }
      for (int c = 0; c < a.v.cols; ++c) {
        const double dv = p * out_gradient(i, c);
        const double dv_size = std::fabs(dv) * row_size;
        g.v(j, c) += dv;
        m.v(j, c) += dv_size;
        if (!a.value_table.empty() && a.value_index(i, j) >= 0) {
          g.value_table(a.value_index(i, j), c) += dv;
          m.value_table(a.value_index(i, j), c) += dv_size;
        }
      }
    }
  }
  return both;
}

// Adjoints of number_term, query_row_term and key_row_term: `term` is the gradient of the [Lq][Lk]
// term; what it means for the table, and for q or k, is added. For magnitudes, pass the magnitudes
// and absolute values of q, k and the table (see absolute()).
inline void number_term_backward(const Matrix& term, const IndexMatrix& index,
                                 std::vector<double>& table) {
  for (int i = 0; i < term.rows; ++i) {
    for (int j = 0; j < term.cols; ++j) {
      if (index(i, j) >= 0) table.at(static_cast<std::size_t>(index(i, j))) += term(i, j);
    }
  }
}
inline void query_row_term_backward(const Matrix& term, const IndexMatrix& index, const Matrix& q,
                                    const Matrix& table, Matrix& q_gradient,
                                    Matrix& table_gradient) {
  for (int i = 0; i < term.rows; ++i) {
    for (int j = 0; j < term.cols; ++j) {
      if (index(i, j) < 0) continue;
      for (int c = 0; c < q.cols; ++c) {
        q_gradient(i, c) += term(i, j) * table(index(i, j), c);
        table_gradient(index(i, j), c) += term(i, j) * q(i, c);
      }
    }
  }
}
inline void key_row_term_backward(const Matrix& term, const IndexMatrix& index, const Matrix& k,
                                  const Matrix& table, Matrix& k_gradient,
                                  Matrix& table_gradient) {
  for (int i = 0; i < term.rows; ++i) {
    for (int j = 0; j < term.cols; ++j) {
      if (index(i, j) < 0) continue;
      for (int c = 0; c < k.cols; ++c) {
        k_gradient(j, c) += term(i, j) * table(index(i, j), c);
        table_gradient(index(i, j), c) += term(i, j) * k(j, c);
      }
    }
  }
}

inline Matrix absolute(Matrix x) {
  for (double& value : x.values) value = std::fabs(value);
  return x;
}

}  // namespace locant::oracle
