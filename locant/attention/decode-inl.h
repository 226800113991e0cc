// Decode: one split of the keys for the rows of some key heads, block by block, to a partial result;
// and how the partial results of a row are merged, in the order of the splits.
#pragma once

#include "locant/attention/decode_block-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

inline void open_split(const DecodePlan& plan, const DecodePart& part, int64_t hk, int64_t first,
                       int64_t last, DecodeState& state) {
  const DecodeRows &query = plan.query_rows, &value = plan.value_rows;
  for (int64_t r = 0; r < plan.rows; ++r) {
    state.reference[r] = kMasked;
    store(state.sums + r * kLanes, zero());
    const int64_t h = head_of_row(plan, hk, r), p = place_of_row(plan, part.b, r);
    // What queries see of the split, and what whole vectors and blocks read beside it.
    const int64_t from = at_least(first, p - plan.left) - p, to = at_most(last - 1, p + plan.right) - p;
    if (query.windowed) {
      const Range seen = rows_of_distances(query.map, from, to);
      state.query_rows[r] = rows_of_distances(query.map, from - kMostBlock, to + kMostBlock);
      float* window = state.query_window + r * query.columns;
      clear(window, query.columns);
      multiply_rows(query.table + h * query.head + seen.first * query.width, query.width,
                    seen.last - seen.first, query_row(plan, part.b, hk, r), plan.D, query.factor,
                    window + seen.first - state.query_rows[r].first);
    }
    if (value.on) {
      state.value_rows[r] = value.windowed
                                ? rows_of_distances(value.map, from - kMostBlock, to + kMostBlock)
                                : Range{value.first_row, value.first_row + value.count};
    }
  }
  clear(state.out, plan.rows * plan.value_width);
  if (value.on) {
    clear(state.value_window, plan.rows * value.columns);
    clear(state.value_sides, plan.rows * 2 * kLanes);
  }
}

// Adds the rows of the value table, times their sums of probabilities.
inline void add_value_rows(const DecodePlan& plan, int64_t hk, DecodeState& state) {
  const DecodeRows& term = plan.value_rows;
  for (int64_t r = 0; r < plan.rows; ++r) {
    const float* table = term.table + head_of_row(plan, hk, r) * term.head;
    float* out = state.out + r * plan.value_width;
    const auto add = [&](int64_t row, int64_t n, const float* p) {
      add_values(ValueStep<float>{table + row * term.width, term.width, n}, plan.Dv, 1, p, 0, out, 0);
    };
    const Range& rows = state.value_rows[r];
    const float* window = state.value_window + r * term.columns;
    // Rows that nothing was added to are not read: far from the map that is all of them.
    int64_t first = 0, last = rows.last - rows.first;
    while (first < last && window[first] == 0) ++first;
    while (first < last && window[last - 1] == 0) --last;
    if (first < last) add(rows.first + first, last - first, window + first);
    const int32_t side_rows[2] = {term.map.before, term.map.after};
    for (int side = 0; side < 2; ++side) {
      const float p = hsum(load(state.value_sides + (r * 2 + side) * kLanes));
      if (side_rows[side] >= 0 && p != 0) add(side_rows[side], 1, &p);
    }
  }
}

// Where keys [j, j + n) stand.
inline BlockPlaces places_of(const DecodePlan& plan, int64_t b, int64_t j, int64_t n) {
  BlockPlaces places;
  places.first = j;
  if (!plan.k_position) return places;
  const StepSpan* span = plan.k_span + b * plan.k_batches * (plan.padded / kStep) + j / kStep;
  places.first = span->first;
  bool consecutive = true;
  for (int64_t c = 0; c < n; c += kStep) {
    consecutive &= span[c / kStep].consecutive && span[c / kStep].first == span->first + c;
  }
  if (!consecutive) places.position = plan.k_position + b * plan.k_batches * plan.padded + j;
  return places;
}

template <class T, class K>
inline void decode_split_of(const DecodePlan& plan, const DecodePart& part, DecodeScratch& s) {
  const int64_t b = part.b, length = plan.lengths[b];
  const int64_t first = part.split * kSplit, last = at_most(length, first + kSplit);
  for (int64_t hk = part.first; hk < part.last; ++hk) {
    open_split(plan, part, hk, first, last, s.states[hk - part.first]);
  }
  // In pages, and where heads lie side by side, head after head reads what belongs together.
  const int64_t together = plan.block_table ? plan.page_size : part.last - part.first > 1 ? 1 : kSplit;
  const int64_t run = (together + plan.block - 1) / plan.block * plan.block;
  for (int64_t from = first; from < last; from += run) {
    const int64_t to = at_most(last, from + run);
    for (int64_t hk = part.first; hk < part.last; ++hk) {
      DecodeState& state = s.states[hk - part.first];
      for (int64_t j = from; j < to; j += plan.block) {
        const int64_t n = at_most(plan.block, last - j);
        const BlockPlaces places = places_of(plan, part.b, j, n);
        const bool whole = find_seen(plan, part.b, hk, places, j, n, s.seen);
        Next next = {hk, j + n};  // what is read after it
        if (next.j >= to && hk + 1 < part.last) next = {hk + 1, from};
        if (next.j >= to) next.hk = part.first;
        decode_block<T, K>(plan, s, state, b, hk, j, n, whole, places, next);
      }
    }
  }
  for (int64_t hk = part.first; hk < part.last; ++hk) {
    DecodeState& state = s.states[hk - part.first];
    if (plan.value_rows.on) add_value_rows(plan, hk, state);
    const int64_t row = ((b * plan.Hk + hk) * plan.splits + part.split) * plan.rows;
    copy_numbers(state.out, plan.rows * plan.value_width, plan.partial_out + row * plan.value_width);
    for (int64_t r = 0; r < plan.rows; ++r) {
      plan.partial_reference[row + r] = state.reference[r];
      plan.partial_sum[row + r] = hsum(load(state.sums + r * kLanes));
    }
  }
}

inline void decode_split(const DecodePlan& plan, const DecodePart& part, char* memory) {
  DecodeScratch s;
  cut_decode(plan, part.last - part.first, s, memory);
  if (!plan.halves) {
    decode_split_of<float, float>(plan, part, s);
  } else if (plan.k_turn.cosine) {
    decode_split_of<uint16_t, float>(plan, part, s);
  } else {
    decode_split_of<uint16_t, uint16_t>(plan, part, s);
  }
}

inline size_t decode_bytes(const DecodePlan& plan, int64_t heads) {
  DecodeScratch s;
  return cut_decode(plan, heads, s, nullptr);
}

// ---- before the splits, and after them

inline void row_products(const DecodePlan& plan, int64_t b, int64_t hk) {
  const DecodeRows& t = plan.query_rows;
  for (int64_t r = 0; r < plan.rows; ++r) {
    const int64_t h = head_of_row(plan, hk, r), row = (b * plan.H + h) * plan.Q + r % plan.Q;
    const float* table = t.table + h * t.head;
    const float* q = query_row(plan, b, hk, r);
    if (t.products) {
      multiply_rows(table + t.first_row * t.width, t.width, t.count, q, plan.D, t.factor,
                    t.products + row * t.count);
    }
    const int32_t side_rows[2] = {t.map.before, t.map.after};
    for (int side = 0; side < 2; ++side) {
      t.sides[row * 2 + side] =
          side_rows[side] < 0 ? 0 : dot(table + side_rows[side] * t.width, q, plan.D) * t.factor;
    }
  }
}

inline float merge_row(const DecodePlan& plan, int64_t b, int64_t hk, int64_t r, float* out) {
  const int64_t unit = (b * plan.Hk + hk) * plan.splits;
  const int64_t first = plan.split_range[2 * b], last = plan.split_range[2 * b + 1];
  float reference = kMasked;
  for (int64_t n = first; n < last; ++n) {
    const float x = plan.partial_reference[(unit + n) * plan.rows + r];
    reference = x > reference ? x : reference;
  }
  clear(out, plan.value_width);
  // A row whose scores are all NaN has no reference, and a sum that is NaN.
  float sum = 0;
  for (int64_t n = first; n < last; ++n) {
    const int64_t at = (unit + n) * plan.rows + r;
    const float own = plan.partial_reference[at], share = plan.partial_sum[at];
    if (share == 0) continue;
    float factors[kLanes];
    store(factors, exp2(set((own == kMasked ? 0 : own) - (reference == kMasked ? 0 : reference))));
    const Vec factor = set(factors[0]);
    sum += share * factors[0];
    const float* from = plan.partial_out + at * plan.value_width;
    for (int64_t c = 0; c < plan.value_width; c += kLanes) {
      store(out + c, fma(load(from + c), factor, load(out + c)));
    }
  }
  if (sum == 0) return -__builtin_inff();
  const Vec divisor = set(sum);
  for (int64_t c = 0; c < plan.value_width; c += kLanes) store(out + c, load(out + c) / divisor);
  float lse[kLanes];
  store(lse, fma(set(reference), set(kLn2), log(divisor)));
  return lse[0];
}

const DecodeSet kDecodeSet = {kLanes, kPairs, row_products, decode_bytes, decode_split, merge_row};

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
