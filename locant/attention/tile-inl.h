// A tile: 64 queries x 64 keys, and which of its pairs the mask keeps.
#pragma once

#include "locant/attention/plan.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Vectors in a tile row.
constexpr int64_t kTileVecs = kTile / kLanes;

inline int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t vecs_of(int64_t n) { return (n + kLanes - 1) / kLanes; }

// Maxima of kLanes rows given as vectors.
inline Vec rows_max(Vec (&row)[kLanes]) {
  transpose(row);
  Vec m = row[0];
#pragma GCC unroll 16
  for (int n = 1; n < kLanes; ++n) m = max(m, row[n]);
  return m;
}
inline Vec rows_sum(Vec (&row)[kLanes]) {
  transpose(row);
#pragma GCC unroll 8
  for (int step = 1; step < kLanes; step *= 2) {
#pragma GCC unroll 16
    for (int n = 0; n < kLanes; n += 2 * step) row[n] = row[n] + row[n + step];
  }
  return row[0];
}

struct Range {
  int64_t first, last;  // [first, last)
  bool empty() const { return first >= last; }
  int64_t count() const { return last > first ? last - first : 0; }
};

struct Tile {
  int64_t i0, j0;             // first query and first key
  int64_t rows, keys;         // 1 .. kTile of them
  const int32_t* q_position;  // [rows]
  const int32_t* k_position;  // [kTile]
  int64_t distance;           // key position - query position of the first pair
  bool consecutive;           // ... and of pair (i, j) it is distance + j - i
  bool partial;               // some pairs are masked, or keys are missing
};

// The tile of query tile qt and key tile kt; false when the mask keeps none of its pairs.
inline bool find_tile(const Plan& plan, int64_t b, int64_t qt, int64_t kt, Tile& tile) {
  const TileSpan& q = plan.q_places.spans(b)[qt];
  const TileSpan& k = plan.k_places.spans(b)[kt];
  if (k.min > q.max + plan.right || k.max < q.min - plan.left) return false;
  tile.i0 = qt * kTile;
  tile.j0 = kt * kTile;
  tile.rows = at_most(kTile, plan.queries(b) - tile.i0);
  tile.keys = at_most(kTile, plan.keys(b) - tile.j0);
  tile.q_position = plan.q_places.positions(b) + tile.i0;
  tile.k_position = plan.k_places.positions(b) + tile.j0;
  tile.distance = static_cast<int64_t>(tile.k_position[0]) - tile.q_position[0];
  tile.consecutive = q.consecutive && k.consecutive;
  tile.partial = tile.keys < kTile || k.max > q.min + plan.right || k.min < q.max - plan.left;
  return true;
}

// Keys that any of the rows [r, r + n) may see; the exact mask is keep_mask's.
inline Range seen_keys(const Plan& plan, const Tile& tile, int64_t r, int64_t n) {
  if (!tile.partial || !tile.consecutive) return {0, tile.keys};
  return {at_least(0, r - tile.distance - plan.left),
          at_most(tile.keys, r + n - tile.distance + plan.right)};
}

// Rows that may see any of the keys [c, c + n).
inline Range seeing_rows(const Plan& plan, const Tile& tile, int64_t c, int64_t n) {
  if (!tile.partial || !tile.consecutive) return {0, tile.rows};
  return {at_least(0, c + tile.distance - plan.right),
          at_most(tile.rows, c + n + tile.distance + plan.left)};
}

// The positions a row keeps, as a band for in_band.
struct Band {
  IVec low, width;
};
inline Band band_of(const Plan& plan, int32_t position) {
  const int64_t low = at_least(0, position - plan.left);
  const int64_t high = at_most(INT32_MAX, position + plan.right);
  return {iset(static_cast<int32_t>(low)), iset(static_cast<int32_t>(high - low))};
}
inline Mask keep_mask(const Tile& tile, const Band& band, int64_t column) {
  return in_band(iload(tile.k_position + column), band.low, band.width);
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
