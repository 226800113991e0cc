// Adjoints of the terms of a tile: from the gradient of its scores to that of the tables. The
// counterpart of terms-inl.h, term by term; scatter_rows (row_sums-inl.h) is the adjoint of add_rows.
#pragma once

#include "locant/attention/row_sums-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Sums along the diagonals: out[t] = sum of x[i][j] with 63 - i + j = t, t in [0, 128). Rows of x are
// read shifted against each other; the kLanes numbers before and after every row must be zero.
inline void diagonal_sums(const float* x, int64_t rows, float* out) {
  for (int64_t t = 0; t < 2 * kTile; t += kLanes) store(out + t, zero());
  for (int64_t i0 = 0; i0 < rows; i0 += kLanes) {
    const int64_t n = at_most(kLanes, rows - i0);
    Vec sum[kTileVecs + 1];
    for (int64_t c = 0; c <= kTileVecs; ++c) sum[c] = zero();
    // Lane l of sum[c] is diagonal c kLanes + l - (kLanes - 1) of the band: column minus row.
    for (int64_t r = 0; r < n; ++r) {
      const float* row = x + (i0 + r) * kTileRow + r - (kLanes - 1);
#pragma GCC unroll 17
      for (int64_t c = 0; c <= kTileVecs; ++c) sum[c] = sum[c] + load(row + c * kLanes);
    }
    float* to = out + kTile - 1 - i0 - (kLanes - 1);
    for (int64_t c = 0; c <= kTileVecs; ++c) {
      store(to + c * kLanes, load(to + c * kLanes) + sum[c]);
    }
  }
}

// Gradient of the numbers per distance of one query tile: [n + 2] by entry; sides: sums of gradient
// times steps beyond the map.
struct NumberGradient {
  float* entries = nullptr;
  double* sides = nullptr;  // [2]
  float* window = nullptr;  // [2 kTile + kLanes]
};

inline void number_adjoint(const NumberTerm& term, const Tile& tile, const float* ds,
                           const NumberGradient& gradient) {
  const Map& map = term.map;
  const int64_t last = map.first + map.n - 1;
  if (!tile.consecutive) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
        const float x = ds[i * kTileRow + j];
        gradient.entries[map.entry(d)] += x;
        if (d < map.first) gradient.sides[0] += static_cast<double>(x) * (map.first - d);
        if (d > last) gradient.sides[1] += static_cast<double>(x) * (d - last);
      }
    }
    return;
  }
  float* sums = gradient.window;
  diagonal_sums(ds, tile.rows, sums);
  const int64_t from = tile.distance - (kTile - 1);
  const Side side = side_of(map, tile);
  if (side == Side::kInside) {
    // 127 of them: the last of the window is no diagonal.
    float* to = gradient.entries + map.entry(from);
    int64_t t = 0;
    for (; t < 2 * kTile - kLanes; t += kLanes) store(to + t, load(to + t) + load(sums + t));
    for (; t < 2 * kTile - 1; ++t) to[t] += sums[t];
    return;
  }
  // Distances up to `before` steps into the window come before the map, from `after` on behind it.
  const int64_t before = at_most(at_least(map.first - from, 0), 2 * kTile - 1);
  const int64_t after = at_most(at_least(last + 1 - from, 0), 2 * kTile - 1);
  double total[2] = {0, 0};
  for (int64_t t = 0; t < before; ++t) {
    total[0] += sums[t];
    if (term.left) gradient.sides[0] += static_cast<double>(sums[t]) * (map.first - from - t);
  }
  for (int64_t t = before; t < after; ++t) gradient.entries[map.entry(from + t)] += sums[t];
  for (int64_t t = after; t < 2 * kTile - 1; ++t) {
    total[1] += sums[t];
    if (term.right) gradient.sides[1] += static_cast<double>(sums[t]) * (from + t - last);
  }
  gradient.entries[0] += static_cast<float>(total[0]);
  gradient.entries[map.n + 1] += static_cast<float>(total[1]);
}

// Adjoint of add_key_rows: x[i][j] to out[column of the distance][j].
inline void scatter_key_rows(const RowsTerm& term, const Tile& tile, const float* x, float* out) {
  const Map& map = term.map;
  const Side side = tile.consecutive ? side_of(map, tile) : Side::kAcross;
  if (side == Side::kBefore || side == Side::kAfter) {
    float* to = out + term.column[side == Side::kBefore ? 0 : map.n + 1] * kTile;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      Vec sum = zero();
      for (int64_t i = 0; i < tile.rows; ++i) sum = sum + load(x + i * kTileRow + c);
      store(to + c, load(to + c) + sum);
    }
    return;
  }
  if (!tile.consecutive) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
        out[column_at(term, d) * kTile + j] += x[i * kTileRow + j];
      }
    }
    return;
  }
  const TileColumns columns(term, tile, 0, term.used);
  for (int64_t c = 0; c < kTile; c += kLanes) {
    add_diagonals<true>(tile.rows, [&](int64_t i) { return load(x + i * kTileRow + c); },
                        columns.of(tile.distance + c), out + c);
  }
}

// Adjoint of a row for every pair: rows_gradient[column of the distance] += x[i][j] y[i] (or y[j]).
inline void add_gradient_per_pair(const RowsTerm& term, const Tile& tile, const float* x, const float* y,
                                  int64_t y_row, bool by_key, float* rows_gradient) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
      float* to = rows_gradient + column_at(term, d) * term.width;
      const float* from = y + (by_key ? j : i) * y_row;
      const Vec factor = set(x[i * kTileRow + j]);
      for (int64_t c = 0; c < term.width; c += kLanes) {
        store(to + c, fma(factor, load(from + c), load(to + c)));
      }
    }
  }
}

// rows_gradient[column] += window^T y, for the computed columns.
inline void add_window_gradient(const RowsTerm& term, const Window& window, int64_t rows, const float* y,
                                int64_t y_row, float* rows_gradient) {
  const int64_t last = at_most(window.last, term.used);
  float* out = rows_gradient + window.first * term.width;
  product(last - window.first, term.width / kLanes, rows, Left{window.data, window.step, window.row},
          Right{y, y_row}, Start{out, term.width, nullptr}, StoreTo{out, term.width});
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
