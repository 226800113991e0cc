// The terms of a tile: what they add to its scores, as start values of the product. Decisions are made
// once a tile: far from the map a term is one number or one number a row; where positions are
// consecutive it is a window over distances; only otherwise an index per pair.
#pragma once

#include "locant/attention/diagonals-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Columns of a rows term for the 64 queries of a tile: [kTile][row], column c at [c - first]; or by
// column, [column][kTile]. What lies beside the computed columns is read for masked pairs only.
struct Window {
  float* data = nullptr;
  int64_t row = 0, step = 1;    // from query to query, from column to column
  int64_t first = 0, last = 0;  // computed columns [first, last), whole vectors
  bool once = false;            // sums only: no query meets a column of the map twice
  bool by_column() const { return step != 1; }
  float* at(int64_t i, int64_t column) const { return data + i * row + (column - first) * step; }
};

inline void open_window(const RowsTerm& term, int64_t from, int64_t to, Window& window) {
  const Range range = term.steady ? columns_of(term, from, to) : Range{0, term.used};
  window.first = range.first / kLanes * kLanes;
  window.last = window.first + vecs_of(range.last - window.first) * kLanes;
}

// Where a tile lies against a map.
enum class Side { kBefore, kInside, kAfter, kAcross };
inline Side side_of(const Map& map, const Tile& tile) {
  const int64_t from = tile.distance - (kTile - 1), to = tile.distance + kTile - 1;
  if (to < map.first) return Side::kBefore;
  if (from >= map.first + map.n) return Side::kAfter;
  if (from >= map.first && to < map.first + map.n) return Side::kInside;
  return Side::kAcross;
}

// Collects what is added to a tile: at most one source can be used as it is, more are summed up.
struct Sources {
  static constexpr int kMost = 6;
  Start one[kMost];
  int count = 0;
  float* buffer;        // [kTile][kTileRow]
  bool filled = false;  // buffer holds something

  void add(const Start& source) { one[count++] = source; }
  void put(int64_t i, int64_t c, Vec x) {
    float* at = buffer + i * kTileRow + c;
    store(at, filled ? load(at) + x : x);
  }
  Start sum(int64_t rows) {
    if (!filled && count == 0) return {};
    if (!filled && count == 1) return one[0];
    if (count == 0) return {buffer, kTileRow, nullptr};
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        Vec x = filled ? load(buffer + i * kTileRow + c) : zero();
        for (int n = 0; n < count; ++n) {
          const Start& s = one[n];
          x = x + (s.data ? load(s.data + i * s.row + c) : set(s.number[i]));
        }
        store(buffer + i * kTileRow + c, x);
      }
    }
    return {buffer, kTileRow, nullptr};
  }
};

// Sums of a tile's numbers before and after a map, row by row and by lane: [2][kTile][kLanes].
struct SideSums {
  float* data = nullptr;
  float* at(int side, int64_t i) const { return data + (side * kTile + i) * kLanes; }
};

// Scratch of the terms for one query tile.
struct TermState {
  Window query, value;  // q . rows; sums of probabilities by row (and backward: dO . rows)
  SideSums value_sides;
  float* distance_window = nullptr;  // [2 kTile + kLanes]
  float* column_numbers = nullptr;   // [2][kTile]: far sources of a tile
};

// ---- number per distance

inline float number_at(const NumberTerm& term, int64_t h, int64_t d) {
  const int64_t head = term.head(h);
  float x = term.values[head * (term.map.n + 2) + term.map.entry(d)];
  if (term.left && d < term.map.first) x += term.left[head] * static_cast<float>(term.map.first - d);
  const int64_t last = term.map.first + term.map.n - 1;
  if (term.right && d > last) x += term.right[head] * static_cast<float>(d - last);
  return x;
}

// Numbers of distances tile.distance - 63 + t, t in [0, 127).
inline const float* number_window(const NumberTerm& term, int64_t h, const Tile& tile, float* window) {
  const Map& map = term.map;
  const int64_t from = tile.distance - (kTile - 1);
  const float* values = term.values + term.head(h) * (map.n + 2);
  const Side side = side_of(map, tile);
  if (side == Side::kInside) return values + map.entry(from);
  const float* slope = side == Side::kBefore ? term.left : side == Side::kAfter ? term.right : nullptr;
  if (side == Side::kAcross) {
    for (int64_t t = 0; t < 2 * kTile; ++t) window[t] = number_at(term, h, from + t);
  } else if (!slope) {
    const Vec x = set(values[map.entry(from)]);
    for (int64_t t = 0; t < 2 * kTile; t += kLanes) store(window + t, x);
  } else {
    // Steps beyond the map fall (before) or grow (after) by one a distance.
    const bool before = side == Side::kBefore;
    const int64_t last = map.first + map.n - 1;
    const Vec steps = set(static_cast<float>(before ? map.first - from : from - last));
    const Vec sign = set(before ? -1.0f : 1.0f);
    for (int64_t t = 0; t < 2 * kTile; t += kLanes) {
      const Vec step = fma(sign, to_float(iadd(iota(), iset(static_cast<int32_t>(t)))), steps);
      store(window + t, fma(set(slope[term.head(h)]), step, set(values[map.entry(from)])));
    }
  }
  return window;
}

inline void add_number(const Plan& plan, const Tile& tile, int64_t h, const TermState& state,
                       Sources& sources) {
  const NumberTerm& term = plan.number;
  if (tile.consecutive) {
    sources.add({number_window(term, h, tile, state.distance_window) + kTile - 1, -1, nullptr});
    return;
  }
  const Map& map = term.map;
  const int64_t head = term.head(h);
  if (plan.wide) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        float x[kLanes];
        for (int n = 0; n < kLanes; ++n) {
          const int64_t d = static_cast<int64_t>(tile.k_position[c + n]) - tile.q_position[i];
          x[n] = tile.k_position[c + n] < 0 ? 0 : number_at(term, h, d);
        }
        sources.put(i, c, load(x));
      }
    }
    sources.filled = true;
    return;
  }
  const float* values = term.values + head * (map.n + 2);
  const IVec before = iset(static_cast<int32_t>(map.first - 1));
  const IVec last = iset(static_cast<int32_t>(map.first + map.n - 1));
  const IVec top = iset(static_cast<int32_t>(map.top));
  for (int64_t i = 0; i < tile.rows; ++i) {
    const IVec q = iset(tile.q_position[i]);
    for (int64_t c = 0; c < kTile; c += kLanes) {
      const IVec d = isub(iload(tile.k_position + c), q);
      Vec x = gather(values, isub(imin(imax(d, before), top), before));
      if (term.left) {
        const Vec steps = to_float(isub(iadd(before, iset(1)), d));
        x = fma(set(term.left[head]), max(steps, zero()), x);
      }
      if (term.right) x = fma(set(term.right[head]), max(to_float(isub(d, last)), zero()), x);
      sources.put(i, c, x);
    }
  }
  sources.filled = true;
}

// ---- query rows

// q [rows][D] times the panel of head h, for the columns that the distances [from, to] reach.
inline void open_rows(const RowsTerm& term, int64_t h, int64_t from, int64_t to, const Left& q,
                      int64_t rows, Window& window) {
  if (term.by_pair) return;
  open_window(term, from, to, window);
  product(rows, (window.last - window.first) / kLanes, term.channels, q,
          Right{term.panel_of(h) + window.first, term.columns}, Start{},
          StoreTo{window.data, window.row});
}

inline float dot(const float* x, const float* y, int64_t n) {
  Vec sum = zero();
  for (int64_t c = 0; c + kLanes <= n; c += kLanes) sum = fma(load(x + c), load(y + c), sum);
  float total = hsum(sum);
  for (int64_t c = n / kLanes * kLanes; c < n; ++c) total += x[c] * y[c];
  return total;
}

inline int32_t column_at(const RowsTerm& term, int64_t d) { return term.column[term.map.entry(d)]; }

// Start values (i, j) = window[i][column of the distance]; q: where there is no window.
inline void add_rows(const Plan& plan, const RowsTerm& term, const Tile& tile, int64_t h,
                     const Window& window, const Left& q, float* numbers, Sources& sources) {
  if (term.by_pair || !tile.consecutive) {
    const float* rows = term.rows_of(h);
    const float factor = term.factor / term.row_factor;
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        float x[kLanes];
        for (int n = 0; n < kLanes; ++n) {
          const int32_t position = tile.k_position[c + n];
          const int64_t d = static_cast<int64_t>(position) - tile.q_position[i];
          x[n] = 0;
          if (position < 0) continue;
          const int32_t column = column_at(term, d);
          x[n] = term.by_pair ? factor * dot(q.data + i * q.row, rows + column * term.width, term.channels)
                              : *window.at(i, column);
        }
        sources.put(i, c, load(x));
      }
    }
    sources.filled = true;
    (void)plan;
    return;
  }
  const Map& map = term.map;
  const Side side = side_of(map, tile);
  if (side == Side::kBefore || side == Side::kAfter) {
    const int32_t column = term.column[side == Side::kBefore ? 0 : map.n + 1];
    for (int64_t i = 0; i < tile.rows; ++i) numbers[i] = *window.at(i, column);
    sources.add({nullptr, 0, numbers});
    return;
  }
  if (side == Side::kInside && term.affine) {
    const int64_t column = map.entry(tile.distance) + term.affine_offset;
    sources.add({window.at(0, column), window.row - 1, nullptr});
    return;
  }
  if (term.low) {
    for (int64_t i = 0; i < tile.rows; ++i) {
      const float* row = window.at(i, 0);
      for (int64_t c = 0; c < kTile; c += kLanes) {
        const int64_t from = tile.distance + c - i - map.first + kLanes;
        const int64_t w = at_most(at_least(from, 0), map.n + kLanes);
        __builtin_prefetch(row + term.low[at_most(w + kTile, map.n + kLanes)], 0, 2);  // of the next key tile
        sources.put(i, c, pick(row + term.low[w], term.lanes + w * kLanes));
      }
    }
  } else {
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        float x[kLanes];
        for (int n = 0; n < kLanes; ++n) {
          x[n] = *window.at(i, column_at(term, tile.distance + c + n - i));
        }
        sources.put(i, c, load(x));
      }
    }
  }
  sources.filled = true;
}

// ---- key rows

inline void add_key_rows(const Plan& plan, const Tile& tile, const KeyStore& keys, int64_t kt, int64_t h,
                         const KeyRows& k, Sources& sources) {
  const RowsTerm& term = plan.key_rows;
  const int64_t slot = keys.slot(kt);
  const float* numbers = term.by_pair ? nullptr : keys.row_numbers + slot * kTile * term.columns;
  const Map& map = term.map;
  if (term.by_pair || !tile.consecutive) {
    const float* rows = term.rows_of(h);
    const float factor = term.factor / term.row_factor;
    for (int64_t i = 0; i < tile.rows; ++i) {
      for (int64_t c = 0; c < kTile; c += kLanes) {
        float x[kLanes];
        for (int n = 0; n < kLanes; ++n) {
          const int64_t j = c + n;
          x[n] = 0;
          if (j >= tile.keys) continue;
          const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
          const int32_t column = column_at(term, d);
          x[n] = term.by_pair ? factor * dot(k.data + j * k.row, rows + column * term.width, plan.D)
                              : numbers[column * kTile + j];
        }
        sources.put(i, c, load(x));
      }
    }
    sources.filled = true;
    return;
  }
  const Side side = side_of(map, tile);
  if (side == Side::kBefore || side == Side::kAfter) {
    const int64_t column = term.column[side == Side::kBefore ? 0 : map.n + 1];
    sources.add({numbers + column * kTile, 0, nullptr});
    return;
  }
  const TileColumns columns(term, tile, 0, term.used);
  each_diagonal(tile, columns, numbers, kTile * term.columns,
                [&](int64_t i, int64_t c, Vec x) { sources.put(i, c, x); });
  sources.filled = true;
}

// ---- hook

inline ScoreTile score_tile(const Tile& tile, int64_t b, int64_t h) {
  return {b, h, tile.i0, tile.j0, tile.rows, tile.keys, tile.q_position, tile.k_position, kTileRow};
}

// The first to fill the buffer.
inline void add_hook(const Plan& plan, const Tile& tile, int64_t b, int64_t h, Sources& sources) {
  float* scores = sources.buffer;
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t c = 0; c < kTile; c += kLanes) store(scores + i * kTileRow + c, zero());
  }
  plan.hook->add(score_tile(tile, b, h), scores);
  const Vec log2e = set(1.4426950408889634f), least = set(kLeast);
  for (int64_t i = 0; i < tile.rows; ++i) {
    for (int64_t c = 0; c < kTile; c += kLanes) {
      float* at = scores + i * kTileRow + c;
      store(at, raise(least, load(at) * log2e));
    }
  }
  sources.filled = true;
}

// ---- all of them

// What stands before the product and, with a softcap, inside it or after it.
inline Start start_values(const Plan& plan, const Tile& tile, int64_t b, int64_t h, int64_t kt,
                          bool inside, const KeyStore& keys, const KeyRows& k, const Left& q,
                          const TermState& state, float* buffer) {
  Sources sources;
  sources.buffer = buffer;
  const auto now = [&](bool term_inside) { return plan.cap == 0 || term_inside == inside; };
  if (plan.hook && now(false)) add_hook(plan, tile, b, h, sources);
  if (plan.query_rows.on && now(plan.query_rows.inside)) {
    add_rows(plan, plan.query_rows, tile, h, state.query, q, state.column_numbers, sources);
  }
  if (plan.key_rows.on && now(plan.key_rows.inside)) {
    add_key_rows(plan, tile, keys, kt, h, k, sources);
  }
  if (plan.number.on && now(plan.number.inside)) add_number(plan, tile, h, state, sources);
  if (plan.key_numbers && now(false)) {
    sources.add({plan.key_numbers_of(b, h) + tile.j0, 0, nullptr});
  }
  return sources.sum(tile.rows);
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
