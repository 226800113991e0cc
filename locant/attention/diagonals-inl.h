// A tile of scores along its diagonals. Rows of keys by distance are multiplied with lanes of keys, so
// that a diagonal of the tile stands in one row of products: the lanes of a row of scores come from
// as many rows. A shift by the lane's number, one select for every power of two, brings them together.
#pragma once

#include "locant/attention/keys-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// From vectors x[n], pushed with falling n: y[n][l] = x[n + l][l].
struct Skew {
  Mask bit[kLanes / 2 + 1];  // [step / 2]: lanes whose number has this bit
  Vec kept[kLanes];          // [step - 1 + n]: the last `step` vectors of each stage

  Skew() {
    for (int step = 1; step < kLanes; step *= 2) {
      float has[kLanes];
      for (int l = 0; l < kLanes; ++l) has[l] = static_cast<float>(l & step);
      bit[step / 2] = less(zero(), load(has));
    }
    for (int n = 0; n < kLanes; ++n) kept[n] = zero();
  }
  // n: how many were pushed before, modulo kLanes.
  inline __attribute__((always_inline)) Vec push(int n, Vec x) {
#pragma GCC unroll 4
    for (int step = 1; step < kLanes; step *= 2) {
      Vec& slot = kept[step - 1 + n % step];
      const Vec before = slot;
      slot = x;
      x = select(bit[step / 2], before, x);
    }
    return x;
  }
};

// Columns of a rows term for the distances around a tile, *of(d) for those that pairs of the tile have
// and kLanes more on either side, and those of the next key tile.
struct TileColumns {
  static constexpr int64_t kCount = 3 * kTile + 2 * kLanes;
  int32_t at[kCount];
  int64_t first;  // distance of at[0]

  // Columns beyond [low, high) become the nearest in it: only pairs that count for nothing have them.
  TileColumns(const RowsTerm& term, const Tile& tile, int64_t low, int64_t high)
      : first(tile.distance - kTile - kLanes + 1) {
    const Map& map = term.map;
    const IVec least = iset(static_cast<int32_t>(low)), most = iset(static_cast<int32_t>(high - 1));
    for (int64_t t = 0; t < kCount; t += kLanes) {
      const int64_t entry = first + t - map.first + 1;
      IVec column;
      if (entry >= 0 && entry + kLanes <= map.n + 2) {
        column = iload(term.column + entry);
      } else if (entry + kLanes <= 1 || entry > map.n) {
        column = iset(term.column[entry <= 0 ? 0 : map.n + 1]);
      } else {
        for (int64_t l = 0; l < kLanes; ++l) at[t + l] = term.column[map.entry(first + t + l)];
        column = iload(at + t);
      }
      istore(at + t, imin(imax(column, least), most));
    }
  }
  const int32_t* of(int64_t distance) const { return at + (distance - first); }
};

// take(i, c, x) for every vector of a tile, lane l of x being numbers[column of the distance][c + l].
// numbers: [columns][kTile]; those of the next key tile, `after` numbers on, are asked for.
template <class Take>
inline __attribute__((always_inline)) void each_diagonal(const Tile& tile, const TileColumns& columns,
                                                         const float* numbers, int64_t after, const Take& take) {
  for (int64_t c = 0; c < kTile; c += kLanes) {
    Skew skew;
    const int32_t* column = columns.of(tile.distance + c + kLanes);
    const float* from = numbers + c;
    const float* next = from + after;
    // The first round only fills the stages.
    for (int64_t i = -kLanes; i < tile.rows; i += kLanes, column -= kLanes) {
#pragma GCC unroll 16
      for (int n = 0; n < kLanes; ++n) {
        __builtin_prefetch(next + column[kTile - n] * kTile, 0, 2);  // into the second-level cache
        const Vec x = skew.push(n, load(from + column[-n] * kTile));
        if (i >= 0) take(i + n, c, x);
      }
    }
  }
}

// The adjoint: sums[column[n]], with kDown sums[column[-n]], gets lane l of x(n + l) in its lane l, x being
// zero outside of [0, rows). sums: [columns][kTile]. Neighbours of one column are added up before.
template <bool kDown, class Row>
inline __attribute__((always_inline)) void add_diagonals(int64_t rows, const Row& x, const int32_t* column,
                                                         float* sums) {
  Skew skew;
  const auto column_of = [&](int64_t n) { return kDown ? column[-n] : column[n]; };
  int64_t n0 = (rows + kLanes - 1) / kLanes * kLanes - 1;
  int32_t open = column_of(n0);
  Vec sum = zero();
  const auto close = [&] {
    float* to = sums + open * kTile;
    store(to, load(to) + sum);
  };
  for (; n0 >= -1; n0 -= kLanes) {
#pragma GCC unroll 16
    for (int m = 0; m < kLanes; ++m) {
      const int64_t n = n0 - m;
      const Vec y = skew.push(m, n >= 0 && n < rows ? x(n) : zero());
      const int32_t next = column_of(n);
      if (next != open) {
        close();
        sum = zero();
        open = next;
      }
      sum = sum + y;
    }
  }
  close();
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
