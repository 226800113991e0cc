#pragma once

// The oracle: dense attention of one head in double. Order of operations:
//   (q . k + scaled terms) * scale -> softcap -> + unscaled terms -> mask -> softmax ->
//   dropout -> p . v + value rows
// A fully masked row gives zeros.

#include <algorithm>
#include <limits>

#include "tests/oracle/matrix.h"

namespace locant::oracle {

struct Attention {
  Matrix q;  // [Lq][d]
  Matrix k;  // [Lk][d]
  Matrix v;  // [Lk][dv]
  double scale = 1;
  double softcap = 0;  // 0: none

  // Optional; empty means none.
  Matrix scaled;                      // [Lq][Lk], added inside the scale
  Matrix unscaled;                    // [Lq][Lk], added after the softcap
  std::vector<double> scaled_keys;    // [Lk], one number per key, inside the scale
  std::vector<double> unscaled_keys;  // [Lk], after the softcap; -infinity masks the key, whatever
                                      // k and v hold
  Matrix value_table;                 // rows added to the values ...
  IndexMatrix value_index;            // ... by (query, key); -1: none
  Matrix kept;  // [Lq][Lk], what dropout multiplies a probability by; empty: none

  // Mask: by position, never by place in the array.
  Positions query_positions;  // empty: Lk - Lq ... Lk - 1, from 0 when Lq > Lk
  Positions key_positions;    // empty: 0, 1, ...
  bool causal = false;        // keep j <= i
  std::int64_t window_left = -1;   // keep j >= i - left; negative: no limit
  std::int64_t window_right = -1;  // keep j <= i + right
  std::vector<int> key_allowed;    // [Lk], 0 = a key nobody sees; empty: all
  Matrix allowed;                  // [Lq][Lk], 0 = masked; empty: all (documents in one row, ...)
};

struct AttentionResult {
  Matrix logits;   // before the softmax, -infinity where masked
  Matrix weights;
  Matrix out;      // [Lq][dv]
  std::vector<double> lse;  // log of the sum of exponentials; -infinity for a masked row
  // First-order size of what rounding can do to an element of out, per unit of relative error in
  // the sums: sum_j p_j |v_j| (1 + m_j + sum_k p_k m_k), with m_j the absolute sum behind logit j.
  Matrix magnitude;
  Matrix score_size;  // m_j of the line above, [Lq][Lk]
  Matrix tanh;        // of the softcap, [Lq][Lk]; zeros without one
};

inline Positions default_key_positions(const Attention& a) {
  return a.key_positions.empty() ? consecutive(a.k.rows) : a.key_positions;
}
inline Positions default_query_positions(const Attention& a) {
  return a.query_positions.empty()
             ? consecutive(a.q.rows, std::max(0, a.k.rows - a.q.rows))
             : a.query_positions;
}

inline AttentionResult attention(const Attention& a) {
  const int lq = a.q.rows;
  const int lk = a.k.rows;
  const int dv = a.v.cols;
  const Positions qp = default_query_positions(a);
  const Positions kp = default_key_positions(a);
  const double none = -std::numeric_limits<double>::infinity();

  AttentionResult r;
  r.logits = Matrix(lq, lk);
  r.weights = Matrix(lq, lk);
  r.out = Matrix(lq, dv);
  r.magnitude = Matrix(lq, dv);
  r.score_size = Matrix(lq, lk);
  r.tanh = Matrix(lq, lk);
  r.lse.assign(static_cast<std::size_t>(lq), none);

  for (int i = 0; i < lq; ++i) {
    double top = none;
    for (int j = 0; j < lk; ++j) {
      const std::size_t key = static_cast<std::size_t>(j);
      double score = dot_rows(a.q, i, a.k, j);
      double absolute = 0;
      for (int c = 0; c < a.q.cols; ++c) absolute += std::fabs(a.q(i, c) * a.k(j, c));
      if (!a.scaled.empty()) {
        score += a.scaled(i, j);
        absolute += std::fabs(a.scaled(i, j));
      }
      if (!a.scaled_keys.empty()) {
        score += a.scaled_keys.at(key);
        absolute += std::fabs(a.scaled_keys[key]);
      }
      score *= a.scale;
      absolute *= std::fabs(a.scale);
      if (a.softcap > 0) {
        r.tanh(i, j) = std::tanh(score / a.softcap);
        score = a.softcap * r.tanh(i, j);
      }
      if (!a.unscaled.empty()) {
        score += a.unscaled(i, j);
        absolute += std::fabs(a.unscaled(i, j));
      }
      if (!a.unscaled_keys.empty()) {
        score += a.unscaled_keys.at(key);
        absolute += std::fabs(a.unscaled_keys[key]);
      }
      const std::int64_t distance = kp.at(key) - qp.at(static_cast<std::size_t>(i));
      bool keep = true;
      if (a.causal && distance > 0) keep = false;
      if (a.window_left >= 0 && distance < -a.window_left) keep = false;
      if (a.window_right >= 0 && distance > a.window_right) keep = false;
      if (!a.key_allowed.empty() && a.key_allowed.at(key) == 0) keep = false;
      if (!a.allowed.empty() && a.allowed(i, j) == 0) keep = false;
      if (!a.unscaled_keys.empty() && a.unscaled_keys[key] == none) keep = false;
      r.logits(i, j) = keep ? score : none;
      r.score_size(i, j) = keep ? absolute : 0;
      top = std::max(top, r.logits(i, j));
    }
    if (top == none) continue;  // nothing to see: zeros
    double total = 0;
    for (int j = 0; j < lk; ++j) total += std::exp(r.logits(i, j) - top);
    r.lse[static_cast<std::size_t>(i)] = top + std::log(total);
    double mean_size = 0;
    for (int j = 0; j < lk; ++j) {
      r.weights(i, j) = std::exp(r.logits(i, j) - top) / total;
      mean_size += r.weights(i, j) * r.score_size(i, j);
    }
    for (int j = 0; j < lk; ++j) {
      if (r.logits(i, j) == none) continue;
      const double p = r.weights(i, j) * (a.kept.empty() ? 1 : a.kept(i, j));
      for (int c = 0; c < dv; ++c) {
        double value = a.v(j, c);
        double absolute = std::fabs(value);
        if (!a.value_table.empty() && a.value_index(i, j) >= 0) {
          const double row = a.value_table(a.value_index(i, j), c);
          value += row;
          absolute += std::fabs(row);
        }
        r.out(i, c) += p * value;
        r.magnitude(i, c) += p * absolute * (1 + r.score_size(i, j) + mean_size);
      }
    }
  }
  return r;
}

}  // namespace locant::oracle
