// The online softmax of one query tile. Scores are in log2 units. A row's reference is a number near
// its maximum, not always the maximum: it moves only when a tile exceeds it by more than kSlack, so
// that sums and outputs are rescaled a few times and not once a tile. Probabilities are at most
// 2^kSlack too large until the final division.
#pragma once

#include "locant/attention/terms-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

constexpr float kSlack = 12;
constexpr float kMasked = -__builtin_inff();
constexpr float kLn2 = 0.6931471805599453f;

struct SoftmaxState {
  float* reference = nullptr;  // [kTile] subtracted from scores; 0 while a row has seen nothing
  float* maximum = nullptr;    // [kTile] the same, -inf while a row has seen nothing
  float* sums = nullptr;       // [kTile][kLanes] partial sums of the probabilities
  float* out = nullptr;        // [kTile][value_width]
  bool fresh = true;           // out holds nothing yet
  bool unset = true;           // some row has seen nothing yet
};

// Finish: stores scores and keeps how far they exceed the rows' references.
struct StoreScores {
  float* data;
  const float* reference;
  Vec* excess;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
    Vec top = *excess;
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Vec m = acc[r][0];
      store(data + (r0 + r) * kTileRow + c0, acc[r][0]);
#pragma GCC unroll 8
      for (int c = 1; c < C; ++c) {
        m = max(m, acc[r][c]);
        store(data + (r0 + r) * kTileRow + c0 + c * kLanes, acc[r][c]);
      }
      top = max(top, m - set(reference[r0 + r]));
    }
    *excess = top;
  }
};

// Column vectors [first, last) that hold the keys of a range.
inline Range vecs_of(const Range& keys) { return {keys.first / kLanes, vecs_of(keys.last)}; }

// tanh(y) of x = 2 log2(e) y. exp2 is for arguments below 2^127; the tangent is 1 long before.
inline Vec tanh_of(Vec x) {
  return set(1.0f) - set(2.0f) / (exp2(min(set(64.0f), x)) + set(1.0f));
}

// Scores of row i from raw products x at column c: softcap, terms after it, mask.
struct Finisher {
  const Plan& plan;
  const Tile& tile;
  Start after;  // terms outside the softcap
  Vec finish(int64_t i, int64_t c, const Band& band, Vec x) const {
    if (plan.cap != 0) {
      x = set(plan.cap) * tanh_of(x);
      if (after.data) x = x + load(after.data + i * after.row + c);
      if (after.number) x = x + set(after.number[i]);
    }
    if (tile.partial) x = select(keep_mask(tile, band, c), x, set(kMasked));
    return x;
  }
};

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

// Moves the references of a tile's rows to the maxima of its scores where that is needed, and scales
// what was summed so far (out, sums and the window of the value rows).
inline void move_references(const Tile& tile, const float* scores, int64_t value_width,
                            SoftmaxState& state, const Window* value_window) {
  bool unset = false;
  for (int64_t r0 = 0; r0 < tile.rows; r0 += kLanes) {
    Vec top[kLanes];
    for (int n = 0; n < kLanes; ++n) {
      top[n] = set(kMasked);
      if (r0 + n >= tile.rows) continue;
      const float* row = scores + (r0 + n) * kTileRow;
      for (int64_t c = 0; c < kTile; c += kLanes) top[n] = max(top[n], load(row + c));
    }
    const Vec tile_maximum = rows_max(top);
    const Vec old = load(state.maximum + r0);
    // A row without a reference takes any maximum; -inf + slack is still -inf.
    const Vec fresh = select(less(old + set(kSlack), tile_maximum), tile_maximum, old);
    const Mask seen = less(set(kMasked), fresh);
    const Vec factor = select(less(set(kMasked), old), exp2(old - fresh), set(1.0f));
    store(state.maximum + r0, fresh);
    store(state.reference + r0, select(seen, fresh, zero()));
    float factors[kLanes];
    store(factors, factor);
    for (int n = 0; n < kLanes && r0 + n < tile.rows; ++n) {
      unset |= !(state.maximum[r0 + n] > kMasked);
      if (factors[n] == 1.0f || state.fresh) continue;
      const Vec f = set(factors[n]);
      store(state.sums + (r0 + n) * kLanes, load(state.sums + (r0 + n) * kLanes) * f);
      float* out = state.out + (r0 + n) * value_width;
      for (int64_t c = 0; c < value_width; c += kLanes) store(out + c, load(out + c) * f);
      if (!value_window) continue;
      float* row = value_window->data + (r0 + n) * value_window->row;
      const int64_t columns = value_window->last - value_window->first;
      for (int64_t c = 0; c < columns; c += kLanes) store(row + c, load(row + c) * f);
    }
  }
  state.unset = unset;
}

// Turns scores of rows [r0, r0 + n), column vectors of `vecs`, into probabilities and sums them up.
inline void exponentiate(int64_t r0, int64_t n, const Range& vecs, float* scores,
                         const SoftmaxState& state) {
  for (int64_t r = r0; r < r0 + n; ++r) {
    const Vec reference = set(state.reference[r]);
    float* row = scores + r * kTileRow;
    float* sums = state.sums + r * kLanes;
    Vec sum = state.fresh ? zero() : load(sums);
#pragma GCC unroll 4
    for (int64_t c = vecs.first; c < vecs.last; ++c) {
      const Vec p = exp2(load(row + c * kLanes) - reference);
      store(row + c * kLanes, p);
      sum = sum + p;
    }
    store(sums, sum);
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
