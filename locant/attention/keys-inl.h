// Keys and values as the products want them, packed tile by tile on first use and kept while one
// worker stays with them: K transposed (its columns are the lanes of a score row), turned by its
// positions, with the factor of the scores; V in whole vectors. Backward also keeps V transposed and
// K in rows. Where nothing has to be changed, rows are read from where the caller has them. With pairs
// (pairs-inl.h) what enters a product is rounded here, and the factors stay outside.
#pragma once

#include "locant/attention/pairs-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// out[c][64] = factor * in[r][c]^T for 64 rows, of which `rows` exist, and `width` columns. kScaled:
// pairs have no factor.
template <bool kScaled = true>
inline void transpose_tile(const float* in, int64_t in_row, int64_t rows, int64_t width, float factor,
                           float* out, int64_t out_row) {
  const Vec scale = set(factor);
  for (int64_t c = 0; c < width; c += kLanes) {
    const int columns = static_cast<int>(at_most(kLanes, width - c));
    for (int64_t r = 0; r < kTile; r += kLanes) {
      Vec block[kLanes];
      for (int n = 0; n < kLanes; ++n) {
        const float* row = in + (r + n) * in_row + c;
        block[n] = r + n >= rows        ? zero()
                   : columns == kLanes ? load(row)
                                       : load_first(row, columns);
      }
      transpose(block);
      for (int n = 0; n < columns; ++n) {
        store(out + (c + n) * out_row + r, kScaled ? block[n] * scale : block[n]);
      }
    }
  }
}

// Turns one row: pair t by the angle whose cosine and sine stand at `at`; back: the adjoint.
inline void turn_row(const Turn& turn, int64_t at, bool back, float* row) {
  const float* cosine = turn.cosine + at;
  const float* sine = turn.sine + at;
  const float sign = back ? -1.0f : 1.0f;
  const int64_t pairs = turn.pairs;
  if (turn.interleaved) {
    for (int64_t t = 0; t < pairs; ++t) {
      const float x = row[2 * t], y = row[2 * t + 1];
      row[2 * t] = x * cosine[t] - y * (sign * sine[t]);
      row[2 * t + 1] = x * (sign * sine[t]) + y * cosine[t];
    }
    return;
  }
  float* other = row + pairs;
#pragma GCC ivdep
  for (int64_t t = 0; t < pairs; ++t) {
    const float x = row[t], y = other[t];
    row[t] = x * cosine[t] - y * (sign * sine[t]);
    other[t] = x * (sign * sine[t]) + y * cosine[t];
  }
}

// width floats, then zeros up to `padded`.
inline void copy_row(const float* in, int64_t width, float* out, int64_t padded) {
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) store(out + c, load(in + c));
  if (c < width) {
    store(out + c, load_first(in + c, static_cast<int>(width - c)));
    c += kLanes;
  }
  for (; c < padded; c += kLanes) store(out + c, zero());
}

// Row r of (b, h) of an array of the caller, as floats.
inline void read_row(const ReadArray& in, int64_t b, int64_t h, int64_t r, int64_t width, float* out,
                     int64_t padded) {
  if (!in.bf16) return copy_row(in.at(b, h, r), width, out, padded);
  const uint16_t* row = in.bf16.at(b, h, r);
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) store(out + c, load_bf16(row + c));
  if (c < width) {
    store(out + c, load_first_bf16(row + c, static_cast<int>(width - c)));
    c += kLanes;
  }
  for (; c < padded; c += kLanes) store(out + c, zero());
}

// row[0 .. width) times `factor` to row r of (b, h) of an array of the caller.
inline void write_row(const float* row, int64_t width, float factor, const WrittenArray& to, int64_t b,
                      int64_t h, int64_t r) {
  const Vec x = set(factor);
  int64_t c = 0;
  if (to.bf16) {
    uint16_t* out = to.bf16.at(b, h, r);
    for (; c + kLanes <= width; c += kLanes) store_bf16(out + c, load(row + c) * x);
    if (c < width) store_first_bf16(out + c, load(row + c) * x, static_cast<int>(width - c));
  } else {
    float* out = to.at(b, h, r);
    for (; c + kLanes <= width; c += kLanes) store(out + c, load(row + c) * x);
    if (c < width) store_first(out + c, load(row + c) * x, static_cast<int>(width - c));
  }
}

inline void clear(float* out, int64_t n) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) store(out + c, zero());
  if (c < n) store_first(out + c, zero(), static_cast<int>(n - c));
}

struct KeyStore {
  // What is in it.
  int64_t b = -1, h = -1, chunk = -1;
  uint8_t* packed = nullptr;  // [chunk tiles]

  int64_t tiles = 0;  // of a chunk
  bool copy_k = false, copy_v = false;
  bool keep_k = false, keep_v = false;  // the copies of all tiles, or only of the last one
  float* kt = nullptr;  // [tiles][units of D][64]
  float* k = nullptr;   // [tiles or 1][64][width], only when copy_k
  float* v = nullptr;   // [tiles or 1][64][value_width], only when copy_v
  float* vt = nullptr;  // [tiles][units of Dv][64], backward
  // Pairs only: rows of the tile at hand; pairs of rows of V (forward) and K (backward).
  float* natural = nullptr;  // [64][units of a row]
  float* v_pairs = nullptr;  // [tiles][32][value_width]
  float* k_pairs = nullptr;  // [tiles][32][width]
  float* row_numbers = nullptr;  // [tiles][key row columns][64]: rows . k, where key rows are on
  float* by_channel = nullptr;   // [width][64]: keys for these, where kt is not the same

  int64_t slot(int64_t kt_index) const { return kt_index - chunk * tiles; }
};

// Rows of the keys of one tile.
struct KeyRows {
  const float* data;
  int64_t row;
};

inline KeyRows key_rows_of(const Plan& plan, const KeyStore& store, int64_t b, int64_t hk,
                           int64_t kt) {
  if (store.copy_k) {
    return {store.k + (store.keep_k ? store.slot(kt) : 0) * kTile * plan.width, plan.width};
  }
  return {plan.k.at(b, hk, kt * kTile), plan.k.row};
}
inline KeyRows value_rows_of(const Plan& plan, const KeyStore& store, int64_t b, int64_t hk,
                             int64_t kt) {
  if (store.copy_v) {
    return {store.v + (store.keep_v ? store.slot(kt) : 0) * kTile * plan.value_width,
            plan.value_width};
  }
  return {plan.v.at(b, hk, kt * kTile), plan.v.row};
}

// The same as right operands of products over keys.
inline Right keys_of(const Plan& plan, const KeyStore& store, int64_t b, int64_t hk, int64_t kt) {
  if constexpr (kPairs) {
    return {store.k_pairs + store.slot(kt) * units(kTile) * plan.width, plan.width};
  }
  const KeyRows k = key_rows_of(plan, store, b, hk, kt);
  return {k.data, k.row};
}
inline Right values_of(const Plan& plan, const KeyStore& store, int64_t b, int64_t hk, int64_t kt) {
  if constexpr (kPairs) {
    return {store.v_pairs + store.slot(kt) * units(kTile) * plan.value_width, plan.value_width};
  }
  const KeyRows v = value_rows_of(plan, store, b, hk, kt);
  return {v.data, v.row};
}

// Memory of a store, for the forward pass or the backward one.
template <class Cutter>
inline void cut_keys(const Plan& plan, bool backward, KeyStore& store, Cutter& cutter) {
  const int64_t tiles = plan.chunk_tiles, chunk = tiles * kTile;
  store = KeyStore();
  store.tiles = tiles;
  store.copy_k = plan.k_turn.cosine || plan.keys_hidden || plan.unseen || plan.bf16 ||
                 (backward && plan.D % kLanes != 0);
  store.copy_v = plan.Dv % kLanes != 0 || plan.keys_hidden || plan.unseen || plan.bf16;
  // Forward, only pairs of keys and queries that multiply their rows one by one come back to them.
  store.keep_k = plan.key_rows.by_pair || (backward && (!kPairs || plan.key_rows.on));
  store.keep_v = !kPairs;
  store.packed = cutter.template cut<uint8_t>(tiles);
  store.kt = cutter.template cut<float>(chunk * units(plan.D));
  if (backward) store.vt = cutter.template cut<float>(chunk * units(plan.Dv));
  if (store.copy_k) store.k = cutter.template cut<float>((store.keep_k ? chunk : kTile) * plan.width);
  if (store.copy_v) {
    store.v = cutter.template cut<float>((store.keep_v ? chunk : kTile) * plan.value_width);
  }
  if (kPairs) {
    const int64_t widest = plan.width > plan.value_width ? plan.width : plan.value_width;
    store.natural = cutter.template cut<float>(kTile * unit_row(widest));
    if (backward) {
      store.k_pairs = cutter.template cut<float>(units(chunk) * plan.width);
    } else {
      store.v_pairs = cutter.template cut<float>(units(chunk) * plan.value_width);
    }
  }
  if (plan.key_rows.on && !plan.key_rows.by_pair) {
    store.row_numbers = cutter.template cut<float>(chunk * plan.key_rows.columns);
    store.by_channel = cutter.template cut<float>(kTile * plan.width);
  }
}

// Rows of a tile transposed: the right operand of products over their numbers.
inline void pack_panel(const KeyRows& rows, int64_t keys, int64_t n, int64_t width, float factor,
                       float* natural, float* panel) {
  if constexpr (kPairs) {
    pair_columns(rows.data, rows.row, keys, width, natural, unit_row(width));
    transpose_tile<false>(natural, unit_row(width), keys, units(n), 1, panel, kTile);
  } else {
    transpose_tile(rows.data, rows.row, keys, n, factor, panel, kTile);
  }
}

inline bool hidden(const Plan& plan, int64_t b, int64_t h, int64_t j) {
  return plan.keys_hidden &&
         plan.key_numbers_of(b, h)[j] == kMasked;
}

// Columns that distances [from, to] reach.
inline Range columns_of(const RowsTerm& term, int64_t from, int64_t to) {
  const int64_t last_entry = term.map.entry(to);
  int32_t low = INT32_MAX, high = -1;
  for (int64_t e = term.map.entry(from); e <= last_entry; ++e) {
    const int32_t c = term.column[e];
    low = c < low ? c : low;
    high = c > high ? c : high;
  }
  return {low, high + 1};
}

// Columns of the key rows that the keys of tile kt meet at some query. In short sequences those are
// fewer than there are: a key has at most Q distances.
inline Range key_columns(const Plan& plan, int64_t b, int64_t kt) {
  const RowsTerm& term = plan.key_rows;
  const int64_t queries = plan.q_places.tiles_of(b);
  if (!term.steady || !plan.simple || queries == 0) return {0, term.used};
  const TileSpan *q = plan.q_places.spans(b), &k = plan.k_places.spans(b)[kt];
  const int64_t low = at_least(k.min - q[queries - 1].max, -plan.left);
  const int64_t high = at_least(low, at_most(k.max - q[0].min, plan.right));
  return columns_of(term, low, high);  // what masked pairs read beside them counts for nothing
}

// Makes the store one of (b, h) and this chunk.
inline void open_store(const Plan& plan, KeyStore& store, int64_t b, int64_t h, int64_t chunk) {
  const bool by_head = plan.hidden_by_head || plan.key_rows.on;
  const int64_t owner = by_head ? h : h / plan.group;
  if (store.b == b && store.h == owner && store.chunk == chunk) return;
  store.b = b;
  store.h = owner;
  store.chunk = chunk;
  for (int64_t n = 0; n < store.tiles; ++n) store.packed[n] = 0;
}

// Packs key tile kt if that was not done yet.
inline void pack_tile(const Plan& plan, KeyStore& store, int64_t b, int64_t h, int64_t kt,
                      bool backward) {
  const int64_t slot = store.slot(kt);
  if (store.packed[slot]) return;
  store.packed[slot] = 1;
  const int64_t hk = h / plan.group, j0 = kt * kTile;
  const int64_t keys = at_most(kTile, plan.keys(b) - j0);
  // Keys that nobody sees may hold anything: they are left out of what is copied.
  const uint8_t* unseen = plan.unseen ? plan.unseen_of(b) + j0 : nullptr;
  const auto left_out = [&](int64_t j) {
    return j >= keys || (unseen && unseen[j]) || hidden(plan, b, h, j0 + j);
  };
  if (store.copy_k) {
    float* rows = store.k + (store.keep_k ? slot : 0) * kTile * plan.width;
    for (int64_t j = 0; j < kTile; ++j) {
      float* row = rows + j * plan.width;
      if (left_out(j)) {
        clear(row, plan.width);
        continue;
      }
      read_row(plan.k, b, hk, j0 + j, plan.D, row, plan.width);
      if (plan.k_turn.cosine) turn_row(plan.k_turn, plan.k_turn.at(b, j0 + j), false, row);
    }
  }
  const KeyRows k = key_rows_of(plan, store, b, hk, kt);
  pack_panel(k, keys, plan.D, plan.width, plan.score_factor, store.natural,
             store.kt + slot * units(plan.D) * kTile);
  if (store.copy_v) {
    float* rows = store.v + (store.keep_v ? slot : 0) * kTile * plan.value_width;
    for (int64_t j = 0; j < kTile; ++j) {
      float* row = rows + j * plan.value_width;
      if (left_out(j)) {
        clear(row, plan.value_width);
      } else {
        read_row(plan.v, b, hk, j0 + j, plan.Dv, row, plan.value_width);
      }
    }
  }
  const KeyRows v = value_rows_of(plan, store, b, hk, kt);
  if (backward) {
    pack_panel(v, keys, plan.Dv, plan.value_width, plan.gradient_factor, store.natural,
               store.vt + slot * units(plan.Dv) * kTile);
  }
  if constexpr (kPairs) {
    const int64_t at = slot * units(kTile);
    if (backward) {
      pair_rows(k.data, k.row, keys, plan.width, store.k_pairs + at * plan.width, plan.width);
    } else {
      pair_rows(v.data, v.row, keys, plan.value_width, store.v_pairs + at * plan.value_width,
                plan.value_width);
    }
  }
  const RowsTerm& rows = plan.key_rows;
  if (rows.on && !rows.by_pair) {
    float* numbers = store.row_numbers + slot * kTile * rows.columns;
    const Range columns = key_columns(plan, b, kt);
    const float factor = rows.factor / rows.row_factor;
    const float* panel = store.kt + slot * units(plan.D) * kTile;
    if (kPairs || factor != plan.score_factor) {
      transpose_tile(k.data, k.row, keys, plan.D, factor, store.by_channel, kTile);
      panel = store.by_channel;
    }
    product(columns.count(), kTileVecs, plan.D, Left{rows.rows_of(h) + columns.first * rows.width, rows.width, 1},
            Right{panel, kTile}, Start{}, StoreTo{numbers + columns.first * kTile, kTile});
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
