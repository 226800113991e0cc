// What a product multiplies: single floats or, with the bf16 dot product, pairs of bf16 numbers that
// stand in the place of one float. Here are the ways to make pairs of rows of floats, and lengths in
// units. Scores, probabilities, their gradients and all sums are floats until they enter a product.
#pragma once

#include "locant/attention/product-inl.h"
#include "locant/attention/tile-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Numbers of a unit, and how many units n numbers are.
constexpr int64_t kUnit = kPairs ? 2 : 1;
inline int64_t units(int64_t n) { return (n + kUnit - 1) / kUnit; }
// Rows of pairs along their columns are whole vectors; the same in floats.
inline int64_t unit_row(int64_t width) {
  return (width + kUnit * kLanes - 1) / (kUnit * kLanes) * kLanes;
}

// exp2 of scores: where probabilities are rounded to bf16 anyway, less exact and faster.
inline Vec probability_of(Vec score) {
  if constexpr (kPairs) return exp2_rough(score);
  return exp2(score);
}

// Products with pairs: outputs and gradients, and scores, whose factor comes last because it cannot
// be folded into bf16 numbers.
struct PairProduct {
  static constexpr bool kStartLast = false;
  Vec multiply(Vec a, Vec b, Vec c) const { return fma_pairs(a, b, c); }
};
struct PairScores {
  static constexpr bool kStartLast = true;
  float factor;
  Vec multiply(Vec a, Vec b, Vec c) const { return fma_pairs(a, b, c); }
};
// The same with floats.
struct FloatScores : FloatProduct {
  explicit FloatScores(float) {}
};

template <bool kOfPairs>
struct ProductsOf {
  using Sums = FloatProduct;
  using Scores = FloatScores;
};
template <>
struct ProductsOf<true> {
  using Sums = PairProduct;
  using Scores = PairScores;
};
using Sums = ProductsOf<kPairs>::Sums;
using Scores = ProductsOf<kPairs>::Scores;

inline Range units_of(const Range& numbers) {
  return {numbers.first / kUnit, units(numbers.last)};
}

// Pairs along the columns: out[r][c] = (in[r][2c], in[r][2c + 1]). Rows of `in` are whole vectors.
inline void pair_columns(const float* in, int64_t in_row, int64_t rows, int64_t width, float* out,
                         int64_t out_row) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = in + r * in_row;
    float* to = out + r * out_row;
    int64_t c = 0;
#pragma GCC unroll 2
    for (; c + 2 * kLanes <= width; c += 2 * kLanes) {
      store(to + c / 2, join_pairs(load(row + c), load(row + c + kLanes)));
    }
    if (c < width) store(to + c / 2, join_pairs(load(row + c), zero()));
  }
}

// Pairs along the rows: out[r][c] = (in[2r][c], in[2r + 1][c]); a missing row is zero.
inline void pair_rows(const float* in, int64_t in_row, int64_t rows, int64_t width, float* out,
                      int64_t out_row) {
  for (int64_t r = 0; r < rows; r += 2) {
    const float* row = in + r * in_row;
    const bool last = r + 1 == rows;
    float* to = out + r / 2 * out_row;
#pragma GCC unroll 4
    for (int64_t c = 0; c < width; c += kLanes) {
      store(to + c, zip_pairs(load(row + c), last ? zero() : load(row + in_row + c)));
    }
  }
}

// The same from a block of a tile in registers, of even size.
template <int R, int C>
inline __attribute__((always_inline)) void store_row_pairs(const Vec (&x)[R][C], float* out) {
#pragma GCC unroll 8
  for (int r = 0; r < R; r += 2) {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) store(out + r / 2 * kTile + c * kLanes, zip_pairs(x[r][c], x[r + 1][c]));
  }
}
template <int R, int C>
inline __attribute__((always_inline)) void store_column_pairs(const Vec (&x)[R][C], float* out) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < C; c += 2) {
      store(out + r * units(kTile) + c / 2 * kLanes, join_pairs(x[r][c], x[r][c + 1]));
    }
  }
}

// A tile as the left operand of products over its columns, or its rows: itself, or its pairs.
inline Left tile_rows(const float* x, const float* pairs) {
  if constexpr (kPairs) return {pairs, units(kTile), 1};
  return {x, kTileRow, 1};
}
inline Left tile_columns(const float* x, const float* pairs) {
  if constexpr (kPairs) return {pairs, 1, kTile};
  return {x, 1, kTileRow};
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
