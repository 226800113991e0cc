// Dropout on a tile of probabilities: the vector form of dropout_keeps (dropout.h), bit for bit. A
// pass of its own over a tile in the first-level cache, so that calls without it have no trace of it.
#pragma once

#include "locant/attention/tile-inl.h"
#include "locant/base/keyed_hash.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Draws the keys of the rows of a query tile: [2][kTile].
inline void draw_row_keys(const Plan& plan, int64_t b, int64_t h, int64_t qt, int32_t* keys) {
  const int64_t i0 = qt * kTile;
  plan.dropout.draw(plan.dropout, b, h, i0, at_most(kTile, plan.queries(b) - i0), keys);
}

// Whether the pairs of a row with these keys and the tokens of a vector are kept.
inline Mask kept(const DropoutTerm& term, IVec tokens, int32_t first, int32_t second) {
  const auto word = [](uint32_t x) { return iset(static_cast<int32_t>(x)); };
  IVec x = imul(ixor(tokens, iset(first)), word(KeyedHash::kMultiplier0));
  x = ixor(ixor(x, ishr<KeyedHash::kShift0>(x)), iset(second));
  x = imul(x, word(KeyedHash::kMultiplier1));
  x = imul(ixor(x, ishr<KeyedHash::kShift1>(x)), word(KeyedHash::kMultiplier2));
  return in_band(x, word(term.threshold), word(~term.threshold));
}

// Zeroes what is dropped of rows [r0, r0 + n), column vectors of `vecs`; `side`: sums of what is left
// are added there too, [kTile][kLanes].
inline void drop(const Plan& plan, const Tile& tile, int64_t b, int64_t r0, int64_t n, const Range& vecs,
                 const int32_t* keys, float* p, float* side) {
  const int32_t* tokens = plan.dropout_tokens(b) + tile.j0;
  for (int64_t r = r0; r < r0 + n; ++r) {
    float* row = p + r * kTileRow;
    const int32_t first = keys[r], second = keys[kTile + r];
    Vec sum = zero();
#pragma GCC unroll 4
    for (int64_t c = vecs.first; c < vecs.last; ++c) {
      const Mask keep = kept(plan.dropout, iload(tokens + c * kLanes), first, second);
      const Vec x = select(keep, load(row + c * kLanes), zero());
      store(row + c * kLanes, x);
      sum = sum + x;
    }
    if (side) store(side + r * kLanes, load(side + r * kLanes) + sum);
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
