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

// Columns `columns` of rows [r, r + n) of a tile as the left operand of a product over columns. Pairs
// are made in `pairs`; the numbers beside the columns that they may hold are multiplied by nothing.
inline Left tile_rows(const float* x, int64_t r, int64_t n, const Range& columns, float* pairs) {
  if constexpr (kPairs) {
    float* to = pairs + r * units(kTile);
    const int64_t first = columns.first / (2 * kLanes) * (2 * kLanes);
    const int64_t width = (columns.last - first + kLanes - 1) / kLanes * kLanes;
    pair_columns(x + r * kTileRow + first, kTileRow, n, width, to + first / 2, units(kTile));
    return {to + columns.first / 2, units(kTile), 1};
  }
  return {x + r * kTileRow + columns.first, kTileRow, 1};
}

// Columns [c, ...) of a tile as the left operand of a product over rows: [unit of rows][column].
inline Left tile_columns(const float* x, int64_t rows, float* pairs) {
  if constexpr (kPairs) {
    pair_rows(x, kTileRow, rows, kTile, pairs, kTile);
    return {pairs, 1, kTile};
  }
  return {x, 1, kTileRow};
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
