// A call as the dense oracle sees it: one head at a time, every term written out over (i, j).
#pragma once

#include <string>
#include <vector>

#include "tests/attention/call.h"
#include "tests/oracle/attention.h"
#include "tests/oracle/rope.h"

namespace locant::test {

// Row of an index map, said again: its rows run from `first` on, one constant on each side.
inline int row_at(const IndexMap& map, int64_t distance) {
  const int64_t n = distance - map.first;
  if (n < 0) return map.before;
  if (n >= static_cast<int64_t>(map.rows.size())) return map.after;
  return map.rows[static_cast<size_t>(n)];
}

inline oracle::IndexMatrix index_matrix(const IndexMap& map, const oracle::Positions& queries,
                                        const oracle::Positions& keys) {
  oracle::IndexMatrix index(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < index.rows; ++i) {
    for (int j = 0; j < index.cols; ++j)
      index(i, j) = row_at(map, keys[size_t(j)] - queries[size_t(i)]);
  }
  return index;
}

inline oracle::Matrix table_matrix(const Table<double>& table, int head) {
  oracle::Matrix m(static_cast<int>(table.rows), static_cast<int>(table.width));
  const size_t begin = table.heads == 1 ? 0 : size_t(head) * m.values.size();
  m.values.assign(table.data.begin() + long(begin),
                  table.data.begin() + long(begin + m.values.size()));
  return m;
}

inline oracle::Matrix head_matrix(const View<const double, 4>& view, int b, int h) {
  oracle::Matrix m(static_cast<int>(view.shape[2]), static_cast<int>(view.shape[3]));
  for (int r = 0; r < m.rows; ++r) {
    for (int c = 0; c < m.cols; ++c) m(r, c) = view(b, h, r, c);
  }
  return m;
}

// side: +1 queries, -1 keys.
inline oracle::Matrix turn(const Rotation& r, oracle::Matrix x, const oracle::Positions& positions,
                           int side) {
  const bool interleaved = r.layout == Rotation::Layout::kInterleaved;
  x = oracle::rope(x, positions, r.frequency,
                   interleaved ? oracle::RopeLayout::kInterleaved : oracle::RopeLayout::kHalfSplit,
                   r.magnitude);
  for (int n = 0; n < x.rows && !r.log_growth.empty(); ++n) {
    for (int c = 0; c < r.width; ++c) {
      const size_t t = size_t(interleaved ? c / 2 : c % int(r.width / 2));
      const double growth = r.log_growth[t] * side;
      x(n, c) *=
          std::exp(double(positions[size_t(n)]) * growth) / std::exp(double(r.center) * growth);
    }
  }
  return x;
}

inline oracle::Attention dense_call(const Call<double>& call, int b, int h) {
  const oracle::Shape& s = call.shape;
  oracle::Attention a;
  if (!s.query_positions.empty()) {
    a.query_positions = s.query_positions[size_t(b)];
    a.key_positions = s.key_positions[size_t(b)];
  } else {
    a.query_positions = oracle::consecutive(s.q, s.q > s.k ? 0 : s.k - s.q);
    a.key_positions = oracle::consecutive(s.k);
  }
  const int hk = h * s.hk / s.h;
  a.q = head_matrix(call.q_view(), b, h);
  a.k = head_matrix(call.k_view(), b, hk);
  a.v = head_matrix(call.v_view(), b, hk);
  const Terms<double>& t = call.terms;
  if (t.rotation) {
    a.q = turn(*t.rotation, a.q, a.query_positions, +1);
    a.k = turn(*t.rotation, a.k, a.key_positions, -1);
  }
  a.scale = (s.scale > 0 ? s.scale : 1 / std::sqrt(double(s.d))) * t.scale_factor;
  a.softcap = s.softcap;
  a.causal = s.causal;
  a.window_left = s.window_left;
  a.window_right = s.window_right;
  a.scaled = a.unscaled = oracle::Matrix(s.q, s.k);
  if (t.number) {
    oracle::Matrix& side = t.number->scaled ? a.scaled : a.unscaled;
    side = oracle::sum(side, oracle::number_term(table_matrix(t.number->table, h).values,
                                                 index_matrix(t.number->index, a.query_positions,
                                                              a.key_positions)));
    const size_t head = t.number->table.heads == 1 ? 0 : size_t(h);
    const int64_t last = t.number->index.first + int64_t(t.number->index.rows.size()) - 1;
    for (int i = 0; i < s.q; ++i) {
      for (int j = 0; j < s.k; ++j) {
        const int64_t d = a.key_positions[size_t(j)] - a.query_positions[size_t(i)];
        if (!t.number->left.empty())
          side(i, j) +=
              t.number->left[head] * double(std::max<int64_t>(0, t.number->index.first - d));
        if (!t.number->right.empty())
          side(i, j) += t.number->right[head] * double(std::max<int64_t>(0, d - last));
      }
    }
  }
  if (t.query_rows) {
    oracle::Matrix& side = t.query_rows->scaled ? a.scaled : a.unscaled;
    side = oracle::sum(side,
                       oracle::query_row_term(
                           a.q, table_matrix(t.query_rows->rows, h),
                           index_matrix(t.query_rows->index, a.query_positions, a.key_positions)));
  }
  if (t.key_rows) {
    oracle::Matrix& side = t.key_rows->scaled ? a.scaled : a.unscaled;
    side = oracle::sum(side, oracle::key_row_term(a.k, table_matrix(t.key_rows->rows, h),
                                                  index_matrix(t.key_rows->index, a.query_positions,
                                                               a.key_positions)));
  }
  if (t.content_bias) {
    const oracle::Matrix u = table_matrix(*t.content_bias, h);
    for (int j = 0; j < s.k; ++j) a.scaled_keys.push_back(oracle::dot_rows(u, 0, a.k, j));
  }
  if (t.value_rows) {
    a.value_table = table_matrix(t.value_rows->rows, h);
    a.value_index = index_matrix(t.value_rows->index, a.query_positions, a.key_positions);
  }
  if (call.key_batches) {
    const View<const double, 3> numbers = call.inputs().number_per_key;
    for (int j = 0; j < s.k; ++j) {
      a.unscaled_keys.push_back(
          numbers(call.key_batches == 1 ? 0 : b, call.key_heads == 1 ? 0 : h, j));
    }
  }
  const attention::Dropout dropout = call.run_options().dropout;
  if (dropout.rate > 0) {
    a.kept = oracle::Matrix(s.q, s.k);
    for (int i = 0; i < s.q; ++i) {
      for (int j = 0; j < s.k; ++j) {
        const int64_t qt = call.q_tokens.empty() ? i : call.q_tokens[size_t(i)];
        const int64_t kt = call.k_tokens.empty() ? j : call.k_tokens[size_t(j)];
        const bool kept = attention::dropout_keeps(dropout, b, h, qt, kt);
        a.kept(i, j) = kept ? 1 / (1 - dropout.rate) : 0;
      }
    }
  }
  return a;
}

}  // namespace locant::test
