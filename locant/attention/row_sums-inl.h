// Sums of a tile's numbers by rows of a table: probabilities by value row, and backward the gradients of
// the scores by query row. A query tile sums in a window of columns, which is multiplied at its end.
#pragma once

#include "locant/attention/terms-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// at[lane] += numbers[0 .. n), by lane.
inline void add_by_lane(const float* numbers, int64_t n, float* at) {
  Vec sum = load(at);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) sum = sum + load(numbers + j);
  if (j < n) sum = sum + load_first(numbers + j, static_cast<int>(n - j));
  store(at, sum);
}

// Adds row by row the numbers x of a tile to window columns of their distances, and to `sides` what
// lies beyond the map: value rows (x: probabilities), query rows backward (x: gradient of the scores).
inline void scatter_rows(const RowsTerm& term, const Tile& tile, const float* x, const Window& window,
                         const SideSums& sides) {
  const Map& map = term.map;
  if (!tile.consecutive) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
        *window.at(i, column_at(term, d)) += x[i * kTileRow + j];
      }
    }
    return;
  }
  const Side side = side_of(map, tile);
  if (window.by_column() && (side == Side::kInside || side == Side::kAcross)) {
    const TileColumns columns(term, tile, window.first, window.last);
    for (int64_t i0 = 0; i0 < tile.rows; i0 += kLanes) {
      // Transposed, so that lanes are queries.
      const int64_t rows = at_most(kLanes, tile.rows - i0);
      float by_key[kTile * kLanes];
      for (int64_t c = 0; c < kTile; c += kLanes) {
        Vec block[kLanes];
        for (int64_t l = 0; l < kLanes; ++l) {
          block[l] = l < rows ? load(x + (i0 + l) * kTileRow + c) : zero();
        }
        transpose(block);
        for (int64_t n = 0; n < kLanes; ++n) store(by_key + (c + n) * kLanes, block[n]);
      }
      add_diagonals<false>(tile.keys, [&](int64_t j) { return load(by_key + j * kLanes); },
                           columns.of(tile.distance - i0), window.at(i0, 0));
    }
    return;
  }
  for (int64_t i = 0; i < tile.rows; ++i) {
    // Distance of column j is first + j; the map begins at column a and ends before column b.
    const float* row = x + i * kTileRow;
    const int64_t first = tile.distance - i;
    const int64_t a = at_most(at_least(map.first - first, 0), tile.keys);
    const int64_t b = at_most(at_least(map.first + map.n - first, 0), tile.keys);
    if (a > 0) add_by_lane(row, a, sides.at(0, i));
    if (b < tile.keys) add_by_lane(row + b, tile.keys - b, sides.at(1, i));
    if (b <= a) continue;
    const int64_t e = map.entry(first + a);
    if (term.affine) {
      // Beside the window only masked pairs lie.
      const int64_t column = e + term.affine_offset;
      const int64_t last = at_most(b - a, window.last - column);
      float* to = window.at(i, column);
      int64_t j = at_least(0, window.first - column);
      for (; j + kLanes <= last; j += kLanes) {
        const Vec sum = window.once ? zero() : load(to + j);
        store(to + j, sum + load(row + a + j));
      }
      const int n = static_cast<int>(last - j);
      if (n > 0) {
        const Vec sum = window.once ? zero() : load_first(to + j, n);
        store_first(to + j, sum + load_first(row + a + j, n), n);
      }
    } else {
      for (int64_t j = 0; j < b - a; ++j) *window.at(i, term.column[e + j]) += row[a + j];
    }
  }
}

inline void clear_sides(const SideSums& sides) { clear(sides.data, 2 * kTile * kLanes); }

// The end of a query tile: the sides go to their columns, which the window must hold.
inline void add_sides(const RowsTerm& term, int64_t rows, const SideSums& sides, const Window& window) {
  const int32_t columns[2] = {term.column[0], term.column[term.map.n + 1]};
  for (int side = 0; side < 2; ++side) {
    // A side that no distance of this window reaches has nothing to add.
    if (columns[side] < window.first || columns[side] >= window.last) continue;
    for (int64_t r = 0; r < rows; r += kLanes) {
      Vec sums[kLanes];
      for (int64_t l = 0; l < kLanes; ++l) sums[l] = load(sides.at(side, r + l));
      float total[kLanes];
      store(total, rows_sum(sums));
      for (int64_t l = 0; l < at_most(kLanes, rows - r); ++l) {
        *window.at(r + l, columns[side]) += total[l];
      }
    }
  }
}

// out[i] += sum of x_ij rows(distance), for tables too large for windows.
inline void add_row_per_pair(const RowsTerm& term, const Tile& tile, int64_t h, const float* x,
                             float* out, int64_t out_row) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
      const float* row = term.rows_of(h) + column_at(term, d) * term.width;
      const Vec p = set(x[i * kTileRow + j]);
      for (int64_t c = 0; c < term.width; c += kLanes) {
        store(out + i * out_row + c, fma(p, load(row + c), load(out + i * out_row + c)));
      }
    }
  }
}

// consecutive: all positions are, and the window serves one pass over the keys. Then no query meets a distance
// twice; and where columns follow distances (steady), it meets all of the window but the first and last
// ones, which others of the tile reach and it does not: the rest need not be cleared.
inline void clear_window(const RowsTerm& term, int64_t from, int64_t to, int64_t rows, Window& window,
                         const SideSums& sides, bool consecutive) {
  clear_sides(sides);
  open_window(term, from, to, window);
  const int64_t columns = window.last - window.first;
  if (window.by_column()) return clear(window.data, columns * kTile);
  window.once = consecutive && term.affine && term.steady;
  const int64_t ends = window.once ? 2 * kTile : columns;
  for (int64_t i = 0; i < rows; ++i) {
    float* row = window.data + i * window.row;
    clear(row, at_most(ends, columns));
    if (columns > ends) clear(row + at_least(ends, columns - ends), at_most(ends, columns - ends));
  }
}

// out[rows][width] += window . rows of the table.
inline void add_window_rows(const RowsTerm& term, int64_t h, int64_t rows, const Window& window,
                            float* out, int64_t out_row) {
  const int64_t last = at_most(window.last, term.used);
  product(rows, term.width / kLanes, last - window.first, Left{window.data, window.row, window.step},
          Right{term.rows_of(h) + window.first * term.width, term.width},
          Start{out, out_row, nullptr}, StoreTo{out, out_row});
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
