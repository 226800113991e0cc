#pragma once

// The oracle: Transformer-XL (Dai 2019), XLNet and the conformer, by their own shifts.
// Score = [(q_i + u) . k_j + (q_i + v) . (W_R R_{i - j})] / sqrt(d): all four terms are scaled.

#include <algorithm>

#include "tests/oracle/sinusoidal.h"

namespace locant::oracle {

// Transformer-XL: zero column left, re-read as (cols + 1) x rows, drop the first row.
inline Matrix rel_shift(const Matrix& x) {
  std::vector<double> padded;
  for (int r = 0; r < x.rows; ++r) {
    padded.push_back(0.0);
    for (int c = 0; c < x.cols; ++c) padded.push_back(x(r, c));
  }
  // (cols + 1) rows of x.rows numbers; dropping the first row drops x.rows numbers.
  Matrix result(x.rows, x.cols);
  for (std::size_t n = 0; n < result.values.size(); ++n) {
    result.values[n] = padded[n + static_cast<std::size_t>(x.rows)];
  }
  return result;
}

// XLNet: columns are the distances L_k ... -L_q + 1. Re-read as cols x rows, drop the first row,
// re-read as rows x (cols - 1), keep the first L_k columns.
inline Matrix xlnet_shift(const Matrix& x, int key_count) {
  Matrix result(x.rows, key_count);
  for (int r = 0; r < x.rows; ++r) {
    for (int c = 0; c < key_count; ++c) {
      result(r, c) = x.values[static_cast<std::size_t>(x.rows + r * (x.cols - 1) + c)];
    }
  }
  return result;
}

// Conformer: columns are the distances T - 1 ... -(T - 1); the shift of Transformer-XL over the
// 2T - 1 columns, then the first T columns.
inline Matrix conformer_shift(const Matrix& x) {
  const Matrix shifted = rel_shift(x);
  Matrix result(x.rows, (x.cols + 1) / 2);
  for (int r = 0; r < result.rows; ++r) {
    for (int c = 0; c < result.cols; ++c) result(r, c) = shifted(r, c);
  }
  return result;
}

// first, first - 1, ..., last.
inline Positions descending(std::int64_t first, std::int64_t last) {
  Positions result;
  for (std::int64_t p = first; p >= last; --p) result.push_back(p);
  return result;
}

// Transformer-XL clamps from above only; negative: no clamp.
inline Positions clamp_distances(Positions distances, std::int64_t clamp_length) {
  for (std::int64_t& x : distances) {
    if (clamp_length >= 0) x = std::min(x, clamp_length);
  }
  return distances;
}

// One row added to each row of q.
inline Matrix plus_row(const Matrix& q, const std::vector<double>& row) {
  Matrix result = q;
  for (int r = 0; r < q.rows; ++r) {
    for (int c = 0; c < q.cols; ++c) result(r, c) += row.at(static_cast<std::size_t>(c));
  }
  return result;
}

// (q_i + v) . (W_R R_{i - j}) from i and j, any positions. W_R is [d][model width].
// clamp_length < 0: none; otherwise distances are cut to [-clamp_length, clamp_length] when
// `both_sides` (XLNet) and from above only when not.
inline Matrix xl_position_term(const Matrix& q, const std::vector<double>& v, const Matrix& w_r,
                               const Positions& queries, const Positions& keys,
                               std::int64_t clamp_length, bool both_sides,
                               SinusoidalLayout layout, double base = 10000.0) {
  const Matrix q_v = plus_row(q, v);
  Matrix result(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int a = 0; a < result.rows; ++a) {
    for (int b = 0; b < result.cols; ++b) {
      std::int64_t x = queries[static_cast<std::size_t>(a)] - keys[static_cast<std::size_t>(b)];
      if (clamp_length >= 0) {
        x = std::min(x, clamp_length);
        if (both_sides) x = std::max(x, -clamp_length);
      }
      const Matrix r = sinusoidal({x}, w_r.cols, base, layout);
      for (int c = 0; c < q.cols; ++c) result(a, b) += q_v(a, c) * dot_rows(w_r, c, r, 0);
    }
  }
  return result;
}

// The same by the released code: L_q queries are the last of L_k keys; entries with j > i are
// left-overs.
inline Matrix xl_position_by_shift(const Matrix& q, const std::vector<double>& v,
                                   const Matrix& w_r, int key_count, std::int64_t clamp_length,
                                   double base = 10000.0) {
  const Matrix r = sinusoidal(clamp_distances(descending(key_count - 1, 0), clamp_length),
                              w_r.cols, base, SinusoidalLayout::kConcatenated);
  const Matrix projected = times_transposed(r, w_r);  // [distances][d]
  return rel_shift(times_transposed(plus_row(q, v), projected));
}

// XLNet (bidirectional): L_k ... -L_q + 1, clamped on both sides.
inline Matrix xlnet_position_by_shift(const Matrix& q, const std::vector<double>& v,
                                      const Matrix& w_r, int key_count,
                                      std::int64_t clamp_length, double base = 10000.0) {
  Positions distances = descending(key_count, -q.rows + 1);
  for (std::int64_t& x : distances) {
    if (clamp_length >= 0) x = std::max(std::min(x, clamp_length), -clamp_length);
  }
  const Matrix r = sinusoidal(distances, w_r.cols, base, SinusoidalLayout::kConcatenated);
  return xlnet_shift(times_transposed(plus_row(q, v), times_transposed(r, w_r)), key_count);
}

// Conformer (wav2vec2): T - 1 ... -(T - 1), sines and cosines alternating.
inline Matrix conformer_position_by_shift(const Matrix& q, const std::vector<double>& v,
                                          const Matrix& w_r, double base = 10000.0) {
  const Matrix r = sinusoidal(descending(q.rows - 1, -(q.rows - 1)), w_r.cols, base,
                              SinusoidalLayout::kAlternating);
  return conformer_shift(times_transposed(plus_row(q, v), times_transposed(r, w_r)));
}

// u . k_j, one number per key.
inline std::vector<double> xl_key_numbers(const Matrix& k, const std::vector<double>& u) {
  std::vector<double> result;
  for (int j = 0; j < k.rows; ++j) {
    double number = 0;
    for (int c = 0; c < k.cols; ++c) number += u.at(static_cast<std::size_t>(c)) * k(j, c);
    result.push_back(number);
  }
  return result;
}

}  // namespace locant::oracle
