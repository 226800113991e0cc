#pragma once

// The oracle: DeBERTa's disentangled attention, v1 (clipped) and v2/v3 (log buckets).
// x = i - j (query minus key), S rows a side, row = clamp(rel(x) + S, 0, 2 S - 1).
// Scores = [q k + c2p + p2c] / sqrt(d (1 + number of position terms)).

#include <algorithm>

#include "tests/oracle/exact.h"
#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class DebertaRule {
  kExact,
  kTransformers,  // ratio of two float32 logarithms
  kMicrosoft,     // float32 logarithm divided by a double rounded to float32
  kFloat64,
};

// sign(x) (ceil( ln(|x|/mid) / ln((M - 1)/mid) (mid - 1) ) + mid), x itself up to mid.
inline std::int64_t deberta_log_bucket(std::int64_t x, int buckets, int max_position,
                                       DebertaRule rule) {
  const int mid = buckets / 2;
  const std::int64_t size = x < 0 ? -x : x;
  if (size <= mid) return x;
  const double whole_ratio = static_cast<double>(max_position - 1) / mid;
  std::int64_t log_part = 0;
  if (rule == DebertaRule::kExact) {
    // Smallest t with (|x|/mid)^(mid - 1) <= ((M - 1)/mid)^t, starting from a guess below it.
    int t = static_cast<int>(std::log(static_cast<double>(size) / mid) / std::log(whole_ratio) *
                             (mid - 1)) - 1;
    if (t < 0) t = 0;
    while (compare_powers(static_cast<int>(size), mid - 1, max_position - 1, t, mid) > 0) ++t;
    log_part = t;
  } else if (rule == DebertaRule::kFloat64) {
    log_part = static_cast<std::int64_t>(std::ceil(
        std::log(static_cast<double>(size) / mid) / std::log(whole_ratio) * (mid - 1)));
  } else {
    const float top = std::log(static_cast<float>(size) / static_cast<float>(mid));
    const float bottom = rule == DebertaRule::kTransformers
                             ? std::log(static_cast<float>(whole_ratio))
                             : static_cast<float>(std::log(whole_ratio));
    const float ratio = top / bottom;
    const float product = ratio * static_cast<float>(mid - 1);
    log_part = static_cast<std::int64_t>(std::ceil(product));
  }
  return (x < 0 ? -1 : 1) * (log_part + mid);
}

struct DebertaIndex {
  int span = 0;             // S: rows a side
  bool log_buckets = false; // v2/v3
  int max_position = 0;     // M, only for log buckets
  bool clamp_first = false; // Microsoft: x is cut to +-(M - 1) before the buckets
  DebertaRule rule = DebertaRule::kExact;
};

inline int deberta_row(std::int64_t x, const DebertaIndex& how) {
  std::int64_t rel = x;
  if (how.log_buckets) {
    if (how.clamp_first) {
      rel = std::max<std::int64_t>(-(how.max_position - 1),
                                   std::min<std::int64_t>(rel, how.max_position - 1));
    }
    rel = deberta_log_bucket(rel, how.span, how.max_position, how.rule);
  }
  return static_cast<int>(
      std::max<std::int64_t>(0, std::min<std::int64_t>(rel + how.span, 2 * how.span - 1)));
}

// delta(i, j). With `swapped`: delta(j, i), which the paper prints for p2c and no code uses.
inline IndexMatrix deberta_index(const Positions& queries, const Positions& keys,
                                 const DebertaIndex& how, bool swapped = false) {
  IndexMatrix index(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int a = 0; a < index.rows; ++a) {
    for (int b = 0; b < index.cols; ++b) {
      const std::int64_t x =
          queries[static_cast<std::size_t>(a)] - keys[static_cast<std::size_t>(b)];
      index(a, b) = deberta_row(swapped ? -x : x, how);
    }
  }
  return index;
}

// q_i . Kr[delta(i, j)]
inline Matrix deberta_c2p(const Matrix& q, const Matrix& kr, const Positions& queries,
                          const Positions& keys, const DebertaIndex& how) {
  return query_row_term(q, kr, deberta_index(queries, keys, how));
}

// k_j . Qr[delta(i, j)] as released; paper = true: k_j . Qr[delta(j, i)].
inline Matrix deberta_p2c(const Matrix& k, const Matrix& qr, const Positions& queries,
                          const Positions& keys, const DebertaIndex& how, bool paper = false) {
  return key_row_term(k, qr, deberta_index(queries, keys, how, paper));
}

inline double deberta_scale(int width, int position_terms) {
  return 1.0 / std::sqrt(static_cast<double>(width) * (1 + position_terms));
}

}  // namespace locant::oracle
