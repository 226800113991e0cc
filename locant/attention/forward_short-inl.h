// Forward where all keys fit one tile (a training length, a short sentence): nothing is online. The
// largest score of a row is known before the first exp, and the division by the sum happens in the
// last product's registers, on their way to the caller.
#pragma once

#include "locant/attention/forward-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Finish of step 3: rows times their factor, to where the caller wants them.
struct StoreFinal {
  float* data;
  int64_t row;
  const float* factor;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec f = set(factor[r0 + r]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) store(data + (r0 + r) * row + c0 + c * kLanes, acc[r][c] * f);
    }
  }
};

// Whether sequence b is served here: one key tile, and nothing that needs the probabilities by rows of
// a table.
inline bool is_short(const Plan& plan, int64_t b) {
  return plan.k_places.tiles_of(b) == 1 && !plan.value_rows.on;
}

// Step 2 for rows [r0, r0 + n), n <= kLanes: from scores to probabilities, factor = 1 / sum. A row
// that sees no key gets zeros.
inline void softmax_of_rows(const Plan& plan, int64_t r0, int64_t n, const Range& vecs, float* scores,
                            const float* tops, float* factor, float* lse) {
  Vec block[kLanes];
  for (int l = 0; l < kLanes; ++l) block[l] = l < n ? load(tops + (r0 + l) * kLanes) : set(kMasked);
  const Vec top = rows_max(block);
  const Mask unseen = less(top, set(kUnseen));
  float reference[kLanes];
  store(reference, select(unseen, zero(), top));
  for (int64_t l = 0; l < n; ++l) {
    float* row = scores + (r0 + l) * kTileRow;
    const Vec minus = set(reference[l]);
    Vec sum = zero();
#pragma GCC unroll 4
    for (int64_t c = vecs.first; c < vecs.last; ++c) {
      const Vec p = probability_of(load(row + c * kLanes) - minus);
      store(row + c * kLanes, p);
      sum = sum + p;
    }
    block[l] = sum;
  }
  for (int64_t l = n; l < kLanes; ++l) block[l] = set(1.0f);
  const Vec sum = rows_sum(block);
  const Vec divisor = select(unseen, set(1.0f), sum);
  store(factor + r0, select(unseen, zero(), set(plan.dropout.keep_factor) / divisor));
  const Vec log_sum = fma(load(reference), set(kLn2), log(divisor));
  store(lse + r0, select(unseen, set(-__builtin_inff()), log_sum));
}

inline void forward_short(const Plan& plan, const Part& part, ForwardScratch& s, Ahead* ahead) {
  const int64_t b = part.b, h = part.h, hk = h / plan.group;
  SoftmaxState& state = s.states[0];
  begin_rows(state);  // scores are relative to zero
  open_store(plan, s.keys, b, h, 0);
  pack_tile(plan, s.keys, b, h, 0, false);
  const KeyRows k = key_rows_of(plan, s.keys, b, hk, 0);
  const Right v = values_of(plan, s.keys, b, hk, 0);
  const Left probabilities = tile_rows(s.scores, s.pairs);
  const int64_t value_vecs = plan.value_width / kLanes;
  const bool in_place = !plan.out.bf16 && plan.Dv % kLanes == 0;
  float factor[kTile], lse[kTile];
  for (int64_t qt = part.first_tile; qt < part.last_tile; ++qt) {
    Tile tile;
    if (!find_tile(plan, b, qt, 0, tile)) {
      state.fresh = true;
      finish_rows(plan, b, h, qt, state);
      continue;
    }
    const QueryRows q = load_queries(plan, b, h, qt, false, nullptr, s.q, s.q_bias, s.q_pairs);
    if (plan.query_rows.on) {
      const Range d = distances_of(plan, b, qt, 0, 1);
      open_rows(plan.query_rows, h, d.first, d.last, q.plain, tile.rows, s.terms.query);
    }

    // 1 scores
    const Start start = start_values(plan, tile, b, h, 0, true, s.keys, k, q.plain, s.terms, s.scores);
    if (!tile.partial && plan.cap == 0) {
      product(tile.rows, kTileVecs, units(plan.D), q.scores, Right{s.keys.kt, kTile}, start,
              StoreFirstScores{s.scores, state.tops, ahead}, Scores{plan.score_factor});
    } else {
      Start after;
      if (plan.cap != 0) {
        after = start_values(plan, tile, b, h, 0, false, s.keys, k, q.plain, s.terms, s.after);
      }
      scores_of_part_tile(plan, tile, q.scores, s.keys.kt, start, after, state, s.scores, ahead);
    }

    // 2 softmax, 3 outputs
    if (plan.dropout.on) draw_row_keys(plan, b, h, qt, s.drop_keys);
    float* to = in_place ? plan.out.at(b, h, tile.i0) : state.out;
    const int64_t to_row = in_place ? plan.out.row : plan.value_width;
    const int64_t step = tile.partial ? kBand : kTile;
    for (int64_t r = 0; r < tile.rows; r += step) {
      const int64_t n = at_most(step, tile.rows - r);
      const Range seen = seen_keys(plan, tile, r, n);
      const Range keys = units_of(seen);
      const Range vecs = vecs_of(seen);
      for (int64_t r0 = r; r0 < r + n; r0 += kLanes) {
        softmax_of_rows(plan, r0, at_most(kLanes, r + n - r0), vecs, s.scores, state.tops, factor, lse);
      }
      for (int64_t i = r; plan.keys_hidden && i < r + n; ++i) {
        if (lse[i] != -__builtin_inff() && !sees_nothing(plan, b, h, tile.i0 + i, lse[i])) continue;
        clear(s.scores + i * kTileRow, kTile);
        factor[i] = 0;
        lse[i] = -__builtin_inff();
      }
      if (plan.dropout.on) drop(plan, tile, b, r, n, vecs, s.drop_keys, s.scores, nullptr);
      if constexpr (kPairs) {
        const int64_t first = vecs.first / 2 * 2;
        pair_columns(s.scores + r * kTileRow + first * kLanes, kTileRow, n, (vecs.last - first) * kLanes,
                     s.pairs + r * units(kTile) + first / 2 * kLanes, units(kTile));
      }
      product(n, value_vecs, keys.count(), probabilities.from(r, keys.first), v.from(keys.first), Start{},
              StoreFinal{to + r * to_row, to_row, factor + r, ahead}, Sums());
    }
    for (int64_t r = 0; !in_place && r < tile.rows; ++r) {
      write_row(state.out + r * plan.value_width, plan.Dv, 1, plan.out, b, h, tile.i0 + r);
    }
    for (int64_t r = 0; plan.lse && r < tile.rows; ++r) plan.lse[plan.lse_at(b, h, tile.i0 + r)] = lse[r];
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
