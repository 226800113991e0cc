// Decode, scores: products of query rows with keys that are read once, and what terms add to them.
// Everything works on one row of scores of a block of keys.
#pragma once

#include "locant/simd/wide-inl.h"

#include "locant/attention/decode_plan.h"
#include "locant/attention/product-inl.h"
#include "locant/attention/softmax-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// A row of keys (or of a table) `n` further on is n * row numbers away.
template <class T>
struct KeyStep {
  const T* data;
  int64_t row;
};

// What a vector of a row is: floats, or with the bf16 dot product pairs of bf16 numbers as they stand,
// which queries then have too.
template <class T>
struct RowVec {
  static constexpr bool kOfPairs = kPairs && sizeof(T) == 2;
  static constexpr int64_t kNumbers = kOfPairs ? 2 * kLanes : kLanes;
  static Vec whole(const T* p) {
    if constexpr (kOfPairs) {
      return load_streamed(reinterpret_cast<const float*>(p));
    } else {
      return load_streamed(p);
    }
  }
  static Vec first(const T* p, int64_t n) {
    if constexpr (kOfPairs) {
      return load_first(reinterpret_cast<const float*>(p), static_cast<int>(n / 2));  // D is even
    } else {
      return load_wide_first(p, static_cast<int>(n));
    }
  }
  static Vec multiply(Vec x, Vec q, Vec sum) {
    if constexpr (kOfPairs) {
      return fma_pairs(x, q, sum);
    } else {
      return fma(x, q, sum);
    }
  }
};

// R queries times kLanes keys into out[R][kLanes]. A key is read to its end before the next: memory is
// read in the order of addresses, all queries share the read, and nothing else pays here. Sums of four
// keys are joined in registers, because stores of the size of a page stall the loads that follow. C:
// vectors of a row where that is known when compiling; 0: any D.
template <int R, int C, class T>
inline void products_block(const T* k, int64_t k_row, const float* q, int64_t q_row, int64_t D,
                           float factor, float* out, int64_t out_row) {
  using Row = RowVec<T>;
  const int64_t whole = D / Row::kNumbers, rest = D - whole * Row::kNumbers;
  Vec groups[R][kLanes / 4];
#pragma GCC unroll 4
  for (int g = 0; g < kLanes / 4; ++g) {
    Vec sum[R][4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n, k += k_row) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r][n] = zero();
      if constexpr (C > 0) {
#pragma GCC unroll 16
        for (int c = 0; c < C; ++c) {
          const Vec x = Row::whole(k + c * Row::kNumbers);
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) sum[r][n] = Row::multiply(x, load(q + r * q_row + c * kLanes), sum[r][n]);
        }
      } else {
        for (int64_t c = 0; c < whole; ++c) {
          const Vec x = Row::whole(k + c * Row::kNumbers);
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) sum[r][n] = Row::multiply(x, load(q + r * q_row + c * kLanes), sum[r][n]);
        }
        if (rest) {
          const Vec x = Row::first(k + whole * Row::kNumbers, rest);
#pragma GCC unroll 4
          for (int r = 0; r < R; ++r) {
            sum[r][n] = Row::multiply(x, load(q + r * q_row + whole * kLanes), sum[r][n]);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) groups[r][g] = group_sums(sum[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) store(out + r * out_row, join_groups(groups[r]) * set(factor));
}

// The queries of a unit: rows of floats or of pairs, `row` floats apart, and what their products lack.
struct QueryRowsOf {
  const float* data;
  int64_t row, count;
  float factor;
};

template <int C, class T>
inline void products_by(const T* k, int64_t k_row, const QueryRowsOf& q, int64_t D, float* out,
                        int64_t out_row) {
  int64_t r = 0;
  const auto at = [&](int64_t n) { return q.data + n * q.row; };
  if constexpr (kLanes == 16) {  // sums of four keys and four queries fit the registers
    for (; r + 4 <= q.count; r += 4) {
      products_block<4, C>(k, k_row, at(r), q.row, D, q.factor, out + r * out_row, out_row);
    }
  }
  for (; r + 2 <= q.count; r += 2) {
    products_block<2, C>(k, k_row, at(r), q.row, D, q.factor, out + r * out_row, out_row);
  }
  if (r < q.count) products_block<1, C>(k, k_row, at(r), q.row, D, q.factor, out + r * out_row, out_row);
}

// The head sizes of most models have code of their own.
template <class T>
inline void products_of(const T* k, int64_t k_row, const QueryRowsOf& q, int64_t D, float* out,
                        int64_t out_row) {
  constexpr int64_t kUsual = kLanes >= 8 ? 64 : 0;
  constexpr int kVecs = static_cast<int>(kUsual / RowVec<T>::kNumbers);
  if (kUsual && D == kUsual) {
    products_by<kVecs>(k, k_row, q, D, out, out_row);
  } else if (kUsual && D == 2 * kUsual) {
    products_by<2 * kVecs>(k, k_row, q, D, out, out_row);
  } else {
    products_by<0>(k, k_row, q, D, out, out_row);
  }
}

// ---- numbers by distance

// What one row adds by distance: a table (of numbers, or of q . rows) under a map.
struct Source {
  const DecodeMap* map;
  const float* table;  // by row of the map
  float factor;
  float before, after;  // beyond the map
  float left, right;    // and a step further from left_from and right_from
  int64_t left_from, right_from;
};

inline float source_at(const Source& s, int64_t d) {
  const DecodeMap& map = *s.map;
  if (d < map.first) return s.before + s.left * static_cast<float>(s.left_from - d);
  if (d - map.first >= map.n) return s.after + s.right * static_cast<float>(d - s.right_from);
  const int32_t row = map.rows[d - map.first];
  return row < 0 ? 0.0f : s.table[row] * s.factor;
}

inline Vec steps_from(int64_t first, float sign) {
  return fma(set(sign), to_float(iota()), set(static_cast<float>(first)));
}

// Distances d .. d + kLanes - 1.
inline Vec source_vector(const Source& s, int64_t d) {
  const DecodeMap& map = *s.map;
  if (d + kLanes <= map.first) {
    if (s.left == 0) return set(s.before);
    return fma(set(s.left), steps_from(s.left_from - d, -1), set(s.before));
  }
  const int64_t e = d - map.first;
  if (e >= map.n) {
    if (s.right == 0) return set(s.after);
    return fma(set(s.right), steps_from(d - s.right_from, 1), set(s.after));
  }
  if (e >= 0 && e + kLanes <= map.n) {
    if (map.step == 1) return load(s.table + map.rows[e]) * set(s.factor);
    const IVec rows = iload(map.rows + e);
    const Mask none = less(to_float(rows), zero());
    return select(none, zero(), gather(s.table, imax(rows, iset(0))) * set(s.factor));
  }
  float x[kLanes];
  for (int n = 0; n < kLanes; ++n) x[n] = source_at(s, d + n);
  return load(x);
}

// Where the keys of a block stand: at `first` + n, or at the positions given.
struct BlockPlaces {
  int64_t first = 0;
  const int32_t* position = nullptr;  // null: consecutive
  LOCANT_PLAN_INLINE int64_t at(int64_t n) const { return position ? position[n] : first + n; }
};

inline void add_source(const Source& s, const BlockPlaces& places, int64_t n, int64_t q_position,
                       float* scores) {
  if (!places.position) {
    const int64_t d = places.first - q_position;
    if (d + n <= s.map->first && s.before == 0 && s.left == 0) return;
    if (d - s.map->first >= s.map->n && s.after == 0 && s.right == 0) return;
    for (int64_t c = 0; c < n; c += kLanes) {
      store(scores + c, load(scores + c) + source_vector(s, d + c));
    }
    return;
  }
  for (int64_t c = 0; c < n; ++c) scores[c] += source_at(s, places.position[c] - q_position);
}

inline float table_at(const float* table, int32_t row, float factor) {
  return row < 0 ? 0.0f : table[row] * factor;
}

inline Source number_source(const DecodePlan& plan, int64_t h) {
  const DecodeNumbers& t = plan.number;
  const float* table = t.table + h * t.head;
  return {&t.map,
          table,
          t.factor,
          table_at(table, t.map.before, t.factor),
          table_at(table, t.map.after, t.factor),
          t.left ? t.left[h * t.side_head] * t.factor : 0.0f,
          t.right ? t.right[h * t.side_head] * t.factor : 0.0f,
          t.left_from,
          t.right_from};
}

// ---- query rows

// n rows of a table, `row` numbers apart (negative: backwards), times one query: out[n].
inline void multiply_rows(const float* rows, int64_t row, int64_t n, const float* q, int64_t D,
                          float factor, float* out) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) {
    products_of(rows + c * row, row, QueryRowsOf{q, 0, 1, factor}, D, out + c, 0);
  }
  for (; c < n; ++c) out[c] = dot(rows + c * row, q, D) * factor;
}

inline const float* query_row(const DecodePlan& plan, int64_t b, int64_t hk, int64_t r) {
  return plan.q_plain + ((b * plan.Hk + hk) * plan.rows + r) * plan.width;
}

// Rows of the table for the distances [from, to]: [first, last).
inline Range rows_of_distances(const DecodeMap& map, int64_t from, int64_t to) {
  const int64_t low = at_least(from, map.first), high = at_most(to, map.first + map.n - 1);
  if (low > high) return {0, 0};
  const int32_t a = map.rows[low - map.first], b = map.rows[high - map.first];
  return a < b ? Range{a, b + 1} : Range{b, a + 1};
}

// ---- key rows

// Adds k . row(distance), key by key. `side` < 0: wherever it is; used where a block is not wholly on
// one side of the map.
template <class T>
inline void add_key_rows(const DecodeRows& term, int64_t h, const KeyStep<T>* steps,
                         const BlockPlaces& places, int64_t n, int64_t q_position, float* scores) {
  const float* table = term.table + h * term.head;
  const int64_t whole = term.width / kLanes * kLanes;
  const int rest = static_cast<int>(term.width - whole);
  for (int64_t c = 0; c < n; c += kLanes) {
    const KeyStep<T>& step = steps[c / kStep];
    Vec groups[kLanes / 4];
    for (int g = 0; g < kLanes / 4; ++g) {
      Vec sums[4];
      for (int t = 0; t < 4; ++t) {
        const int l = 4 * g + t;
        sums[t] = zero();
        const int32_t row = term.map.row(places.at(c + l) - q_position);
        if (row < 0) continue;
        const T* key = step.data + (c % kStep + l) * step.row;
        const float* other = table + row * term.width;
        Vec sum = zero();
        for (int64_t e = 0; e < whole; e += kLanes) sum = fma(load_wide(key + e), load(other + e), sum);
        if (rest) {
          sum = fma(load_wide_first(key + whole, rest), load_first(other + whole, rest), sum);
        }
        sums[t] = sum;
      }
      groups[g] = group_sums(sums);
    }
    store(scores + c, fma(join_groups(groups), set(term.factor), load(scores + c)));
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
