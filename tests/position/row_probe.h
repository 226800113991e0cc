#pragma once

// Beside scheme_probe.h: attention over every term by the dense oracle, and calls over any
// positions.

#include "tests/golden/toy.h"
#include "tests/oracle/random.h"
#include "tests/position/scheme_probe.h"

namespace locant::probe {

inline oracle::IndexMatrix index_of(const IndexMap& map, const oracle::Positions& queries,
                                    const oracle::Positions& keys) {
  oracle::IndexMatrix index(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < index.rows; ++i) {
    for (int j = 0; j < index.cols; ++j) {
      index(i, j) = map(keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
    }
  }
  return index;
}

inline oracle::Matrix table_of(const Table<double>& table, int64_t head) {
  oracle::Matrix rows(static_cast<int>(table.rows), static_cast<int>(table.width));
  for (int r = 0; r < rows.rows; ++r) {
    for (int c = 0; c < rows.cols; ++c) rows(r, c) = table.row(head, r)[c];
  }
  return rows;
}

// What the row and number terms add to the scores of one head, [queries][keys].
struct Added {
  oracle::Matrix scaled, unscaled;
};
inline Added added(const Terms<double>& terms, const oracle::Matrix& q, const oracle::Matrix& k,
                   const oracle::Positions& queries, const oracle::Positions& keys,
                   int64_t head = 0) {
  const oracle::Matrix zeros(q.rows, k.rows);
  Added result{zeros, zeros};
  if (const auto& t = terms.query_rows) {
    auto& target = t->scaled ? result.scaled : result.unscaled;
    target = oracle::sum(target, oracle::query_row_term(q, table_of(t->rows, head),
                                                        index_of(t->index, queries, keys)));
  }
  if (const auto& t = terms.key_rows) {
    auto& target = t->scaled ? result.scaled : result.unscaled;
    target = oracle::sum(target, oracle::key_row_term(k, table_of(t->rows, head),
                                                      index_of(t->index, queries, keys)));
  }
  if (const auto& t = terms.number) {
    auto& target = t->scaled ? result.scaled : result.unscaled;
    for (int i = 0; i < q.rows; ++i) {
      for (int j = 0; j < k.rows; ++j) {
        target(i, j) +=
            number_at(*t, head, keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
      }
    }
  }
  if (terms.content_bias) {
    for (int i = 0; i < q.rows; ++i) {
      for (int j = 0; j < k.rows; ++j) {
        for (int c = 0; c < k.cols; ++c) {
          result.scaled(i, j) += terms.content_bias->row(head, 0)[c] * k(j, c);
        }
      }
    }
  }
  return result;
}

inline oracle::AttentionResult attend_rows(const Terms<double>& terms, oracle::Attention a,
                                           int64_t head = 0) {
  const auto queries = oracle::default_query_positions(a);
  const auto keys = oracle::default_key_positions(a);
  const Added sums = added(terms, a.q, a.k, queries, keys, head);
  a.scaled = sums.scaled;
  a.unscaled = sums.unscaled;
  a.scale *= terms.scale_factor;
  if (terms.value_rows) {
    a.value_table = table_of(terms.value_rows->rows, head);
    a.value_index = index_of(terms.value_rows->index, queries, keys);
  }
  return oracle::attention(a);
}

inline oracle::Attention toy(bool causal = false) {
  oracle::Attention a;
  a.q = oracle::matrix(golden::kToyQ);
  a.k = oracle::matrix(golden::kToyK);
  a.v = oracle::matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  a.causal = causal;
  return a;
}

// A call over these positions, as attention would describe it.
inline Call call_over(const oracle::Positions& queries, const oracle::Positions& keys, bool causal,
                      const Sizes& sizes) {
  Call call;
  call.sizes = sizes;
  call.causal = causal;
  const auto [q_low, q_high] = std::minmax_element(queries.begin(), queries.end());
  const auto [k_low, k_high] = std::minmax_element(keys.begin(), keys.end());
  call.first_distance = *k_low - *q_high;
  call.last_distance = *k_high - *q_low;
  if (causal) call.last_distance = std::min<int64_t>(call.last_distance, 0);
  call.length = std::max(*q_high, *k_high) + 1;
  return call;
}

// Questions 1 and 2 for a scheme that only acts on scores and values.
inline void expect_no_embedding(const Scheme& scheme, const Sizes& sizes) {
  EXPECT_FALSE(scheme.embeds());
  const int64_t positions[] = {0, 3};
  std::vector<double> rows(static_cast<size_t>(2 * sizes.width), 0.5);
  const Store store(scheme, sizes);
  scheme.embed(positions, 2, sizes, store.views(), rows.data());
  for (double x : rows) EXPECT_EQ(x, 0.5);
  EXPECT_EQ(scheme.table_length(), -1);
}
inline void expect_no_turn(const Scheme& scheme, const Call& call) {
  EXPECT_FALSE(scheme.turn(call).has_value());
}

// Random parameters for gradient checks and comparisons with the oracle.
inline Store random_store(const Scheme& scheme, const Sizes& sizes, uint64_t seed = 7) {
  oracle::Rng rng(seed);
  return Store(scheme, sizes, [&](const ParameterSpec&) { return rng.uniform(-1, 1); });
}

// Entries that the mask keeps, with the tolerance of a sum of `terms` products in double.
inline void expect_equal_where_kept(const oracle::Matrix& got, const oracle::Matrix& want,
                                    const oracle::Positions& queries, const oracle::Positions& keys,
                                    bool causal, int terms) {
  ASSERT_EQ(got.rows, want.rows);
  ASSERT_EQ(got.cols, want.cols);
  double largest = 1;
  for (double x : want.values) largest = std::max(largest, std::fabs(x));
  const double allowed = 4 * (1 + terms) * 0x1p-52 * largest * std::sqrt(terms);
  int kept = 0;
  for (int i = 0; i < want.rows; ++i) {
    for (int j = 0; j < want.cols; ++j) {
      if (causal && keys[static_cast<size_t>(j)] > queries[static_cast<size_t>(i)]) continue;
      EXPECT_NEAR(got(i, j), want(i, j), allowed) << "query " << i << ", key " << j;
      ++kept;
    }
  }
  EXPECT_GT(kept, 0);
}

}  // namespace locant::probe
