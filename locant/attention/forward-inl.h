// Forward: for every query tile, over the key tiles that its mask keeps
//   1 scores        S = start values + Q K^T, softcap, mask
//   2 softmax       P = exp2(S - reference), sums; then dropout on P
//   3 outputs       O += P V, and P summed by rows of the value table
// and at the end  O = (O + value rows) / sum,  lse = reference + log(sum).
#pragma once

#include "locant/attention/dropout-inl.h"
#include "locant/attention/row_sums-inl.h"
#include "locant/attention/softmax-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Cuts one block of scratch memory into 64-byte aligned arrays. With no memory it only counts.
struct Cutter {
  char* memory;
  size_t used = 0;
  template <class T>
  T* cut(int64_t n) {
    T* at = memory ? reinterpret_cast<T*>(memory + used) : nullptr;
    used += (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
    return at;
  }
};

inline void cut_window(Cutter& cutter, const RowsTerm& term, Window& window) {
  window.row = term.window;
  window.data = cutter.cut<float>((kTile + 2) * term.window);
  if (window.data) window.data += term.window;
}

struct ForwardScratch {
  KeyStore keys;
  TermState terms;
  SoftmaxState* states;  // one for each query tile of a part, or one in all with a single chunk
  float* q;              // [kTile][width], turned, when rows cannot be read in place
  float* q_bias;         // the same plus the content bias
  float* q_pairs;        // the same in pairs
  float* pairs;          // [kTile][units of a tile row] probabilities in pairs
  float* scores;         // [kTile][kTileRow]
  float* after;          // [kTile][kTileRow] terms after the softcap
  int32_t* drop_keys;    // [2][kTile]
};

inline size_t cut_forward(const Plan& plan, ForwardScratch& s, char* memory) {
  Cutter cutter{memory};
  cut_keys(plan, false, s.keys, cutter);
  s.terms = TermState();
  if (plan.query_rows.on && !plan.query_rows.by_pair) cut_window(cutter, plan.query_rows, s.terms.query);
  if (plan.value_rows.on && !plan.value_rows.by_pair) {
    cut_window(cutter, plan.value_rows, s.terms.value);
    s.terms.value_sides.data = cutter.cut<float>(2 * kTile * kLanes);
  }
  s.terms.distance_window = cutter.cut<float>(2 * kTile + 2 * kLanes);
  s.terms.column_numbers = cutter.cut<float>(2 * kTile);
  s.q = cutter.cut<float>(kTile * plan.width);
  s.q_bias = cutter.cut<float>(kTile * plan.width);
  if (kPairs) s.q_pairs = cutter.cut<float>(kTile * unit_row(plan.width));
  if (kPairs) s.pairs = cutter.cut<float>(kTile * units(kTile));
  s.scores = cutter.cut<float>(kTile * kTileRow);
  s.after = cutter.cut<float>(kTile * kTileRow);
  s.drop_keys = cutter.cut<int32_t>(2 * kTile);
  const int64_t states = plan.one_chunk() ? 1 : plan.part_tiles;
  s.states = cutter.cut<SoftmaxState>(states);
  float* tops = cutter.cut<float>(kTile * kLanes);
  float* steps = cutter.cut<float>(kTile);
  for (int64_t n = 0; n < states; ++n) {
    SoftmaxState state;
    state.reference = cutter.cut<float>(kTile);
    state.seen = cutter.cut<float>(kTile);
    state.sums = cutter.cut<float>(kTile * kLanes);
    state.tops = tops;
    state.steps = steps;
    state.out = cutter.cut<float>(kTile * plan.value_width);
    if (memory) s.states[n] = state;
  }
  return cutter.used;
}

inline void begin_rows(SoftmaxState& state) {
  state.fresh = state.unset = true;
  for (int64_t r = 0; r < kTile; r += kLanes) {
    store(state.reference + r, zero());
    store(state.seen + r, zero());
  }
}

// Queries of a tile: in place, or turned; `bias` also with the content bias added. Rows that are left out
// (null: none) may hold anything and count as zeros.
struct QueryRows {
  Left plain, bias;
  Left scores;  // as the left operand of the scores
};
inline QueryRows load_queries(const Plan& plan, int64_t b, int64_t h, int64_t qt, bool whole_vectors,
                              const bool* left_out, float* plain, float* bias, float* pairs) {
  const int64_t i0 = qt * kTile, rows = at_most(kTile, plan.queries(b) - i0);
  QueryRows q;
  q.plain = q.bias = Left{plan.q.at(b, h, i0), plan.q.row, 1};
  if (plan.q_turn.cosine || plan.bf16 || (whole_vectors && plan.D % kLanes != 0) || left_out) {
    for (int64_t i = 0; i < rows; ++i) {
      float* row = plain + i * plan.width;
      if (left_out && left_out[i]) {
        clear(row, plan.width);
        continue;
      }
      read_row(plan.q, b, h, i0 + i, plan.D, row, plan.width);
      if (plan.q_turn.cosine) turn_row(plan.q_turn, plan.q_turn.at(b, i0 + i), false, row);
    }
    q.plain = q.bias = Left{plain, plan.width, 1};
  }
  if (plan.content_bias) {
    const float* u = plan.content_bias + (plan.content_bias_heads == 1 ? 0 : h) * plan.width;
    for (int64_t i = 0; i < rows; ++i) {
      float* row = bias + i * plan.width;
      copy_row(q.plain.data + i * q.plain.row, plan.D, row, plan.width);
      for (int64_t c = 0; c < plan.width; c += kLanes) store(row + c, load(row + c) + load(u + c));
    }
    q.bias = Left{bias, plan.width, 1};
  }
  q.scores = q.bias;
  if constexpr (kPairs) {
    pair_columns(q.bias.data, q.bias.row, rows, plan.width, pairs, unit_row(plan.width));
    q.scores = Left{pairs, unit_row(plan.width), 1};
  }
  return q;
}

// Rows that share their ranges of keys where a tile is partial.
constexpr int64_t kBand = kLanes > 2 * kBlockRows ? kLanes : 2 * kBlockRows;

// Step 1 for tiles where every row sees every key and there is no softcap: nothing to do but store.
// Whether references have to move.
inline bool scores_of_whole_tile(const Plan& plan, const Tile& tile, const Left& q, const float* kt,
                                 const Start& start, float* scores, SoftmaxState& state, Ahead* ahead) {
  Start relative = start;
  relative.minus = state.reference;
  const Scores multiply{plan.score_factor};
  if (state.unset) {
    product(tile.rows, kTileVecs, units(plan.D), q, Right{kt, kTile}, relative,
            StoreFirstScores{scores, state.tops, ahead}, multiply);
    return true;
  }
  Vec excess = set(kMasked);
  product(tile.rows, kTileVecs, units(plan.D), q, Right{kt, kTile}, relative,
          StoreScores{scores, &excess, ahead}, multiply);
  if (hmax(excess) <= kSlack) return false;
  find_tops(tile, scores, state.tops);
  return true;
}

// Step 1 for the others.
inline void scores_of_part_tile(const Plan& plan, const Tile& tile, const Left& q, const float* kt,
                                const Start& start, const Start& after, const SoftmaxState& state,
                                float* scores, Ahead* ahead) {
  const Finisher finisher{plan, tile, after};
  for (int64_t r = 0; r < tile.rows; r += kBand) {
    const int64_t n = at_most(kBand, tile.rows - r);
    Range vecs = vecs_of(seen_keys(plan, tile, r, n));
    if (vecs.empty()) vecs.last = vecs.first;
    product_of(r, r + n, vecs.first, vecs.last, units(plan.D), q, Right{kt, kTile}, start,
               StoreTo{scores, kTileRow, ahead}, Scores{plan.score_factor});
    for (int64_t i = r; i < r + n; ++i) {
      const Band band = band_of(plan, tile.q_position[i]);
      const Vec reference = set(state.reference[i]);
      float* row = scores + i * kTileRow;
      Vec top = set(kMasked);
      for (int64_t c = 0; c < kTileVecs; ++c) {
        float* at = row + c * kLanes;
        if (c < vecs.first || c >= vecs.last) {
          if (plan.value_rows.on) store(at, set(kMasked));  // its sums read whole rows
          continue;
        }
        const Vec x = finisher.finish(i, c * kLanes, band, reference, load(at));
        top = max(top, x);
        store(at, x);
      }
      store(state.tops + i * kLanes, top);
    }
  }
}

inline void forward_tile(const Plan& plan, ForwardScratch& s, int64_t b, int64_t h, int64_t kt,
                         const Tile& tile, const QueryRows& q, SoftmaxState& state, Ahead* ahead) {
  const int64_t hk = h / plan.group;
  const KeyRows k = key_rows_of(plan, s.keys, b, hk, kt);
  const Right v = values_of(plan, s.keys, b, hk, kt);
  const float* panel = s.keys.kt + s.keys.slot(kt) * units(plan.D) * kTile;
  const Window* value_window = plan.value_rows.on && !plan.value_rows.by_pair ? &s.terms.value : nullptr;

  // 1 scores, and the references they are relative to
  bool moves = true;
  for (;;) {
    const Start start = start_values(plan, tile, b, h, kt, true, s.keys, k, q.plain, s.terms, s.scores);
    if (!tile.partial && plan.cap == 0) {
      moves = scores_of_whole_tile(plan, tile, q.scores, panel, start, s.scores, state, ahead);
    } else {
      Start after;
      if (plan.cap != 0) {
        after = start_values(plan, tile, b, h, kt, false, s.keys, k, q.plain, s.terms, s.after);
      }
      scores_of_part_tile(plan, tile, q.scores, panel, start, after, state, s.scores, ahead);
    }
    if (!moves || move_references(tile, plan.value_width, state, value_window, s.terms.value_sides)) break;
  }

  // 2 softmax, 3 outputs
  // Far from the map of the value rows only the sums of the rows are needed.
  const Side side = value_window && tile.consecutive ? side_of(plan.value_rows.map, tile) : Side::kAcross;
  const bool far = side == Side::kBefore || side == Side::kAfter;
  float* side_sums = far ? s.terms.value_sides.at(side == Side::kAfter, 0) : nullptr;
  float* all_sums = plan.dropout.on ? nullptr : side_sums;
  const int64_t value_vecs = plan.value_width / kLanes;
  const Left probabilities = tile_rows(s.scores, s.pairs);
  const bool only_products = !plan.value_rows.on && !plan.dropout.on;  // nothing else reads them
  const int64_t step = tile.partial ? kBand : kTile;
  for (int64_t r = 0; r < tile.rows; r += step) {
    const int64_t n = at_most(step, tile.rows - r);
    const Range seen = seen_keys(plan, tile, r, n);
    const Range keys = units_of(seen);
    const Range vecs = plan.value_rows.on ? Range{0, kTileVecs} : vecs_of(seen);
    if (kPairs && only_products) {
      if (moves) {
        exponentiate<true, kPairs>(r, n, vecs, s.scores, state, all_sums, s.pairs);
      } else {
        exponentiate<false, kPairs>(r, n, vecs, s.scores, state, all_sums, s.pairs);
      }
    } else {
      if (moves) {
        exponentiate<true, false>(r, n, vecs, s.scores, state, all_sums, nullptr);
      } else {
        exponentiate<false, false>(r, n, vecs, s.scores, state, all_sums, nullptr);
      }
      if (plan.dropout.on) drop(plan, tile, b, r, n, vecs, s.drop_keys, s.scores, side_sums);
      if constexpr (kPairs) {
        const int64_t row = r * units(kTile), first = vecs.first / 2 * 2;
        pair_columns(s.scores + r * kTileRow + first * kLanes, kTileRow, n, (vecs.last - first) * kLanes,
                     s.pairs + row + first / 2 * kLanes, units(kTile));
      }
    }
    float* out = state.out + r * plan.value_width;
    const Start before = state.fresh ? Start{} : Start{out, plan.value_width};
    product(n, value_vecs, keys.count(), probabilities.from(r, keys.first), v.from(keys.first), before,
            StoreTo{out, plan.value_width, ahead}, Sums());
  }
  if (value_window) {
    if (!far) scatter_rows(plan.value_rows, tile, s.scores, *value_window, s.terms.value_sides);
  } else if (plan.value_rows.on) {
    add_row_per_pair(plan.value_rows, tile, h, s.scores, state.out, plan.value_width);
  }
  state.fresh = false;
}

// A hidden key's number masks what is added to it, but a NaN: a row that got one may see no key at all.
inline bool sees_nothing(const Plan& plan, int64_t b, int64_t h, int64_t i, float lse) {
  if (!plan.keys_hidden || lse == lse) return false;
  const int32_t* position = plan.k_places.positions(b);
  const int64_t own = plan.q_places.positions(b)[i], keys = plan.keys(b);
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t distance = position[j] - own;
    if (distance >= -plan.left && distance <= plan.right && !hidden(plan, b, h, j)) return false;
  }
  return true;
}

// The end of a query tile: divides, stores.
inline void finish_rows(const Plan& plan, int64_t b, int64_t h, int64_t qt, const SoftmaxState& state) {
  const int64_t i0 = qt * kTile, rows = at_most(kTile, plan.queries(b) - i0);
  for (int64_t r0 = 0; r0 < rows; r0 += kLanes) {
    const int64_t n = at_most(kLanes, rows - r0);
    Vec parts[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      parts[l] = state.fresh || l >= n ? zero() : load(state.sums + (r0 + l) * kLanes);
    }
    const Vec sum = rows_sum(parts);
    // Every row that saw a key has a sum of about 1 or more; a NaN is not below it and stays one.
    const Mask masked = less(sum, set(0.5f));
    const Vec divisor = select(masked, set(1.0f), sum);
    float inverse[kLanes], lse[kLanes];
    store(inverse, select(masked, zero(), set(plan.dropout.keep_factor) / divisor));
    const Vec log_sum = fma(load(state.reference + r0), set(kLn2), log(divisor));
    store(lse, select(masked, set(-__builtin_inff()), log_sum));
    for (int64_t l = 0; l < n; ++l) {
      const int64_t i = i0 + r0 + l;
      float* row = state.out + (r0 + l) * plan.value_width;
      const bool blind = sees_nothing(plan, b, h, i, lse[l]);
      if (blind) inverse[l] = 0, lse[l] = -__builtin_inff();
      if (state.fresh || blind) clear(row, plan.value_width);
      write_row(row, plan.Dv, inverse[l], plan.out, b, h, i);
      if (plan.lse) plan.lse[plan.lse_at(b, h, i)] = lse[l];
    }
  }
}

// What the part after this one will read, and where this one will write.
inline void look_ahead(const Plan& plan, const Part& part, Ahead& ahead) {
  if (part.next_b < 0) return;
  const int64_t nb = part.next_b, nh = part.next_h, nk = nh / plan.group;
  ahead.add(plan.k, nb, nk, 0, plan.keys(nb), plan.D);
  ahead.add(plan.q, nb, nh, 0, plan.queries(nb), plan.D);
  ahead.add(plan.v, nb, nk, 0, plan.keys(nb), plan.Dv);
  ahead.add(plan.out, part.b, part.h, 0, plan.queries(part.b), plan.Dv);
}

// Smallest and largest distance between the queries of a tile and the keys of a chunk.
inline Range distances_of(const Plan& plan, int64_t b, int64_t qt, int64_t first_kt, int64_t last_kt) {
  const TileSpan& q = plan.q_places.spans(b)[qt];
  const TileSpan* k = plan.k_places.spans(b);
  int64_t low = k[first_kt].min, high = k[first_kt].max;
  for (int64_t kt = first_kt + 1; kt < last_kt; ++kt) {
    low = at_most(low, k[kt].min);
    high = at_least(high, k[kt].max);
  }
  low -= q.max;
  high -= q.min;
  if (!plan.simple) return {low - kTile, at_least(low, high) + kTile};
  // Lanes beyond these are masked and may start anywhere; but vectors that reach over the edge are read
  // as a whole.
  low = at_least(low, -plan.left) - kLanes;
  high = at_most(high, plan.right) + kLanes;
  return {low, at_least(low, high)};
}

// Long sequences: what the next key tile will read while keys are packed, else the next query tile.
inline void look_ahead(const Plan& plan, const KeyStore& keys, const Part& part, int64_t qt, int64_t kt,
                       int64_t last_kt, Ahead& near) {
  near = Ahead();
  const int64_t hk = part.h / plan.group, next = kt + 1;
  if (next < last_kt && !keys.packed[keys.slot(next)]) {
    const int64_t first = next * kTile, last = at_most(plan.keys(part.b), first + kTile);
    near.add(plan.k, part.b, hk, first, last, plan.D);
    near.add(plan.v, part.b, hk, first, last, plan.Dv);
  } else if (next == last_kt && qt + 1 < part.last_tile) {
    const int64_t first = (qt + 1) * kTile;
    near.add(plan.q, part.b, part.h, first, at_most(plan.queries(part.b), first + kTile), plan.D);
  }
}

inline void forward_part(const Plan& plan, const Part& part, ForwardScratch& s, Ahead* soon) {
  const int64_t key_tiles = plan.k_places.tiles_of(part.b);
  const bool one_chunk = plan.one_chunk();
  Ahead near;
  int64_t chunk = 0;
  do {
    const int64_t first_kt = chunk * plan.chunk_tiles;
    const int64_t last_kt = at_most(first_kt + plan.chunk_tiles, key_tiles);
    open_store(plan, s.keys, part.b, part.h, chunk);
    for (int64_t qt = part.first_tile; qt < part.last_tile; ++qt) {
      SoftmaxState& state = s.states[one_chunk ? 0 : qt - part.first_tile];
      if (chunk == 0) begin_rows(state);
      const QueryRows q = load_queries(plan, part.b, part.h, qt, false, nullptr, s.q, s.q_bias, s.q_pairs);
      if (plan.dropout.on) draw_row_keys(plan, part.b, part.h, qt, s.drop_keys);
      const int64_t rows = at_most(kTile, plan.queries(part.b) - qt * kTile);
      const bool value_window = plan.value_rows.on && !plan.value_rows.by_pair && first_kt < last_kt;
      if (first_kt < last_kt && (plan.query_rows.on || value_window)) {
        const Range d = distances_of(plan, part.b, qt, first_kt, last_kt);
        if (plan.query_rows.on) {
          open_rows(plan.query_rows, part.h, d.first, d.last, q.plain, rows, s.terms.query);
        }
        if (value_window) clear_window(plan.value_rows, d.first, d.last, rows, s.terms.value, s.terms.value_sides, false);
      }
      for (int64_t n = 0; n < last_kt - first_kt; ++n) {
        const int64_t kt = plan.downwards ? last_kt - 1 - n : first_kt + n;
        Tile tile;
        if (!find_tile(plan, part.b, qt, kt, tile)) continue;
        pack_tile(plan, s.keys, part.b, part.h, kt, false);
        if (!soon) look_ahead(plan, s.keys, part, qt, kt, last_kt, near);
        forward_tile(plan, s, part.b, part.h, kt, tile, q, state, soon ? soon : near.count ? &near : nullptr);
      }
      if (value_window && !state.fresh) {
        add_sides(plan.value_rows, rows, s.terms.value_sides, s.terms.value);
        add_window_rows(plan.value_rows, part.h, rows, s.terms.value, state.out, plan.value_width);
      }
      if (last_kt >= key_tiles) finish_rows(plan, part.b, part.h, qt, state);
    }
    ++chunk;
  } while (chunk * plan.chunk_tiles < key_tiles);
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
