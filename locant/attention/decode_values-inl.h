// Decode, values: probabilities times rows that are read once, and probabilities summed by rows of
// the value table.
#pragma once

#include "locant/attention/decode_scores-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Rows of values, n of them.
template <class T>
struct ValueStep {
  const T* data;
  int64_t row, n;
};

// out[R][C vectors] += p[R][n] v[n][C vectors]; with `rest`, one vector of which only so many count.
template <int R, int C, class T>
inline void add_values_block(const ValueStep<T>& v, int64_t column, int rest, const float* p,
                             int64_t p_row, float* out, int64_t out_row) {
  Vec sum[R][C];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sum[r][c] = load(out + r * out_row + column + c * kLanes);
  }
  const T* row = v.data + column;
  for (int64_t n = 0; n < v.n; ++n, row += v.row) {
    Vec x[C];
    if (C == 1 && rest) {
      x[0] = load_wide_first(row, rest);
    } else {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) x[c] = load_streamed(row + c * kLanes);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vec weight = set(p[r * p_row + n]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sum[r][c] = fma(weight, x[c], sum[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) store(out + r * out_row + column + c * kLanes, sum[r][c]);
  }
}

// Accumulators that fit the registers beside one row of values.
constexpr int64_t kMostSums = kLanes == 16 ? 16 : 8;

// R rows; columns in blocks as wide as the registers allow, so that a row of values is read to its end
// before the next where it is no wider.
template <int R, class T>
inline void add_values_rows(const ValueStep<T>& v, int64_t Dv, const float* p, int64_t p_row, float* out,
                            int64_t out_row) {
  constexpr int kWide = kMostSums / R < 8 ? static_cast<int>(kMostSums / R) : 8;
  const int64_t vecs = Dv / kLanes;
  const int rest = static_cast<int>(Dv - vecs * kLanes);
  int64_t c = 0;
  for (; c + kWide <= vecs; c += kWide) {
    add_values_block<R, kWide>(v, c * kLanes, 0, p, p_row, out, out_row);
  }
  if constexpr (kWide > 4) {
    for (; c + 4 <= vecs; c += 4) add_values_block<R, 4>(v, c * kLanes, 0, p, p_row, out, out_row);
  }
  if constexpr (kWide > 2) {
    for (; c + 2 <= vecs; c += 2) add_values_block<R, 2>(v, c * kLanes, 0, p, p_row, out, out_row);
  }
  for (; c < vecs; ++c) add_values_block<R, 1>(v, c * kLanes, 0, p, p_row, out, out_row);
  if (rest) add_values_block<R, 1>(v, c * kLanes, rest, p, p_row, out, out_row);
}

template <int n>
struct Count {
  static constexpr int value = n;
};

// out[rows][out_row] += p[rows][p_row] v.
template <class T>
inline void add_values(const ValueStep<T>& v, int64_t Dv, int64_t rows, const float* p, int64_t p_row,
                       float* out, int64_t out_row) {
  int64_t r = 0;
  const auto with = [&](auto count) {
    constexpr int R = decltype(count)::value;
    for (; r + R <= rows; r += R) {
      add_values_rows<R>(v, Dv, p + r * p_row, p_row, out + r * out_row, out_row);
    }
  };
  if (Dv <= kMostSums / 4 * kLanes) with(Count<4>{});
  with(Count<2>{});
  with(Count<1>{});
}

// ---- value rows

// Probabilities of one row, summed by rows of the value table while a split is read.
struct RowSums {
  float* columns;       // [columns], row first + n of the table
  int64_t first;
  float* sides;         // [2][kLanes]: before and after the map
};

inline void add_to_row_sums(const DecodeMap& map, const BlockPlaces& places, int64_t n,
                            int64_t q_position, const float* p, const RowSums& sums) {
  if (!places.position) {
    const int64_t d = places.first - q_position;
    if (d + n <= map.first || d - map.first >= map.n) {
      float* side = sums.sides + (d + n <= map.first ? 0 : kLanes);
      Vec sum = load(side);
      for (int64_t c = 0; c < n; c += kLanes) sum = sum + load(p + c);
      store(side, sum);
      return;
    }
    const int64_t e = d - map.first;
    if (map.step == 1 && e >= 0 && e + n <= map.n) {
      float* to = sums.columns + map.rows[e] - sums.first;
      for (int64_t c = 0; c < n; c += kLanes) store(to + c, load(to + c) + load(p + c));
      return;
    }
  }
  for (int64_t c = 0; c < n; ++c) {
    const int64_t d = places.at(c) - q_position;
    if (d < map.first) {
      sums.sides[0] += p[c];
    } else if (d - map.first >= map.n) {
      sums.sides[kLanes] += p[c];
    } else if (map.rows[d - map.first] >= 0) {
      sums.columns[map.rows[d - map.first] - sums.first] += p[c];
    }
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
