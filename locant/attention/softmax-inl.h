// The online softmax of one query tile. Scores are in log2 units. A row's reference is a number near
// its maximum, not always the maximum: it moves only when a tile exceeds it by more than kSlack, so
// that sums and outputs are rescaled a few times and not once a tile. Probabilities are at most
// 2^kSlack too large until the final division.
#pragma once

#include "locant/attention/terms-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

constexpr float kSlack = 12;
// Scores that stand so far above a reference have lost digits by being taken relative to it, and what
// was summed before counts for nothing: the row starts anew.
constexpr float kFar = 96;
constexpr float kUnseen = kMasked / 2;  // every score above it is not masked
constexpr float kLn2 = 0.6931471805599453f;

struct SoftmaxState {
  float* reference = nullptr;  // [kTile], 0 while a row has seen nothing
  float* seen = nullptr;       // [kTile] 1 where a row has seen a key, else 0
  float* sums = nullptr;       // [kTile][kLanes] partial sums of the probabilities
  float* out = nullptr;        // [kTile][value_width]
  float* tops = nullptr;       // [kTile][kLanes] largest scores of the tile at hand, by lane
  float* steps = nullptr;      // [kTile] by how much its references moved
  bool fresh = true;           // out holds nothing yet
  bool unset = true;           // some row has seen nothing yet
};

// Finish: stores scores, which are already relative to the references, and keeps the largest of all.
struct StoreScores {
  float* data;
  Vec* excess;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
    Vec top = *excess;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        top = max(acc[r][c], top);  // in this order a NaN of one row does not hide the others'
        store(data + (r0 + r) * kTileRow + c0 + c * kLanes, acc[r][c]);
      }
    }
    *excess = top;
  }
};

// Finish: stores scores and keeps the largest of every row, by lane.
struct StoreFirstScores {
  float* data;
  float* tops;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* top_at = tops + (r0 + r) * kLanes;
      Vec top = c0 == 0 ? acc[r][0] : max(load(top_at), acc[r][0]);
      store(data + (r0 + r) * kTileRow + c0, acc[r][0]);
#pragma GCC unroll 8
      for (int c = 1; c < C; ++c) {
        top = max(top, acc[r][c]);
        store(data + (r0 + r) * kTileRow + c0 + c * kLanes, acc[r][c]);
      }
      store(top_at, top);
    }
  }
};

// Column vectors [first, last) that hold the keys of a range.
inline Range vecs_of(const Range& keys) { return {keys.first / kLanes, vecs_of(keys.last)}; }

// tanh(y) of x = 2 log2(e) y: t / (t + 2), t = 2^x - 1. A cap far above the scores leaves them their digits.
// exp2 is for arguments below 2^127; the tangent is 1 long before.
inline Vec tanh_of(Vec x) {
  const Vec t = exp2_minus_one(min(set(64.0f), x));
  return t / (t + set(2.0f));
}

// Scores of row i from raw products x at column c: softcap, terms after it, mask; relative to
// `reference`.
struct Finisher {
  const Plan& plan;
  const Tile& tile;
  Start after;  // terms outside the softcap
  Vec finish(int64_t i, int64_t c, const Band& band, Vec reference, Vec x) const {
    if (plan.cap != 0) {
      x = set(plan.cap) * tanh_of(x);
      if (after.data) x = x + load(after.data + i * after.row + c);
      if (after.number) x = x + set(after.number[i]);
    }
    x = x - reference;
    if (tile.partial) x = select(keep_mask(tile, band, c), x, set(kMasked));
    return x;
  }
};

// The largest scores of the rows of a tile, by lane.
inline void find_tops(const Tile& tile, const float* scores, float* tops) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* row = scores + r * kTileRow;
    Vec top = load(row);
    for (int64_t c = kLanes; c < kTile; c += kLanes) top = max(top, load(row + c));
    store(tops + r * kLanes, top);
  }
}

// Scales what row r has summed so far.
inline void scale_row(int64_t r, Vec factor, int64_t value_width, const SoftmaxState& state,
                      const Window* value_window, const SideSums& value_sides) {
  store(state.sums + r * kLanes, load(state.sums + r * kLanes) * factor);
  float* out = state.out + r * value_width;
  for (int64_t c = 0; c < value_width; c += kLanes) store(out + c, load(out + c) * factor);
  if (!value_window) return;
  float* sums = value_window->at(r, value_window->first);
  const int64_t columns = value_window->last - value_window->first;
  for (int64_t c = 0; c < columns; c += kLanes) store(sums + c, load(sums + c) * factor);
  for (int side = 0; side < 2; ++side) {
    store(value_sides.at(side, r), load(value_sides.at(side, r)) * factor);
  }
}

// Moves the references of a tile's rows to the maxima of its scores (state.tops, relative to them)
// where that is needed, and scales what was summed so far: out, sums and the window of the value
// rows. The scores themselves are still relative to the old references: state.steps says by how much.
// False when rows had to start anew: then they see nothing yet, nothing else has changed, and the
// scores have to be made again.
inline bool move_references(const Tile& tile, int64_t value_width, SoftmaxState& state,
                            const Window* value_window, const SideSums& value_sides) {
  bool far = false;
  for (int64_t r0 = 0; r0 < tile.rows; r0 += kLanes) {
    const int64_t n = at_most(kLanes, tile.rows - r0);
    Vec top[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) {
      top[l] = l < n ? load(state.tops + (r0 + l) * kLanes) : set(kMasked);
    }
    const Vec tile_maximum = rows_max(top);
    store(state.steps + r0, tile_maximum);
    far |= any(less(set(kFar), select(less(zero(), load(state.seen + r0)), tile_maximum, zero())));
  }
  if (far) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      if (state.seen[r] == 0 || !(state.steps[r] > kFar)) continue;
      state.reference[r] = state.seen[r] = 0;
      scale_row(r, zero(), value_width, state, value_window, value_sides);
    }
    state.unset = true;
    return false;
  }
  bool unset = false;
  for (int64_t r0 = 0; r0 < tile.rows; r0 += kLanes) {
    const int64_t n = at_most(kLanes, tile.rows - r0);
    const Vec tile_maximum = load(state.steps + r0);
    const Vec seen = load(state.seen + r0);
    const Mask was_seen = less(zero(), seen);
    const Mask moves = less(select(was_seen, set(kSlack), set(kUnseen)), tile_maximum);
    const Vec step = select(moves, tile_maximum, zero());
    const Vec now_seen = select(moves, set(1.0f), seen);
    store(state.reference + r0, load(state.reference + r0) + step);
    store(state.seen + r0, now_seen);
    store(state.steps + r0, step);
    if (n < kLanes || any(less(now_seen, set(0.5f)))) {
      for (int64_t l = 0; l < n; ++l) unset |= state.seen[r0 + l] == 0;
    }
    if (state.fresh || !any(moves)) continue;
    float factors[kLanes];
    store(factors, select(was_seen, exp2(zero() - step), set(1.0f)));
    for (int64_t l = 0; l < n; ++l) {
      if (factors[l] == 1) continue;
      scale_row(r0 + l, set(factors[l]), value_width, state, value_window, value_sides);
    }
  }
  state.unset = unset;
  return true;
}

// Turns scores of rows [r0, r0 + n), column vectors of `vecs`, into probabilities and sums them up;
// `side`: also there, [kTile][kLanes]. kPaired: only pairs of them are kept, in `pairs`, whole pairs of
// vectors.
template <bool kMoved, bool kPaired>
inline void exponentiate(int64_t r0, int64_t n, const Range& vecs, float* scores,
                         const SoftmaxState& state, float* side, float* pairs) {
  for (int64_t r = r0; r < r0 + n; ++r) {
    float* row = scores + r * kTileRow;
    float* sums = state.sums + r * kLanes;
    Vec sum = zero();
    const Vec step = kMoved ? set(state.steps[r]) : zero();
    const auto probability = [&](int64_t c) {
      Vec x = load(row + c * kLanes);
      if constexpr (kMoved) x = x - step;
      return probability_of(x);
    };
    if constexpr (kPaired) {
      float* to = pairs + r * units(kTile);
#pragma GCC unroll 2
      for (int64_t c = vecs.first / 2 * 2; c < vecs.last; c += 2) {
        const Vec p = c < vecs.first ? zero() : probability(c);
        const Vec q = c + 1 < vecs.last ? probability(c + 1) : zero();
        store(to + c / 2 * kLanes, join_pairs(p, q));
        sum = sum + (p + q);
      }
    } else {
#pragma GCC unroll 4
      for (int64_t c = vecs.first; c < vecs.last; ++c) {
        const Vec p = probability(c);
        store(row + c * kLanes, p);
        sum = sum + p;
      }
    }
    store(sums, state.fresh ? sum : load(sums) + sum);
    if (side) store(side + r * kLanes, load(side + r * kLanes) + sum);
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
