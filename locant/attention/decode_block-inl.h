// Decode: a block of keys for the rows of one key head
//   1 scores     S = Q K^T with the terms, softcap, mask
//   2 softmax    P = exp2(S - reference), sums
//   3 outputs    O += P V, and P summed by rows of the value table
// A key that no row sees is never read; rows that see only part of a block get a copy of it in which
// the rest is zero.
#pragma once

#include "locant/attention/decode_values-inl.h"
#include "locant/attention/forward-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Of the rows of one key head.
struct DecodeState {
  float* reference;  // [rows] kMasked while a row has seen nothing
  float* sums;       // [rows][kLanes]
  float* out;        // [rows][value_width]
  float* query_window;  // [rows][columns] q . rows for the distances of the split
  float* value_window;  // [rows][columns] probabilities by row of the value table
  float* value_sides;   // [rows][2][kLanes]
  Range* query_rows;    // [rows] rows of the table in the window
  Range* value_rows;
};

struct DecodeScratch {
  DecodeState* states;  // [heads]
  float* scores;        // [rows][kMostBlock]
  char* k_copy;         // [kMostBlock][width] of the keys' type, or floats where they are turned
  char* v_copy;
  uint64_t* seen;       // [rows] keys of the block that a row sees, by bit
  float* hook;          // [kMostBlock][kMostBlock] what a hook adds
  int32_t* positions;   // [kMostBlock] of keys, for a hook
};

inline size_t cut_decode(const DecodePlan& plan, int64_t heads, DecodeScratch& s, char* memory) {
  Cutter cutter{memory};
  s.states = cutter.cut<DecodeState>(heads);
  s.scores = cutter.cut<float>(plan.rows * kMostBlock);
  s.k_copy = cutter.cut<char>(kMostBlock * plan.width * 4);
  s.v_copy = cutter.cut<char>(kMostBlock * plan.value_width * 4);
  s.seen = cutter.cut<uint64_t>(plan.rows);
  s.hook = cutter.cut<float>(plan.hook ? kMostBlock * kMostBlock : 0);
  s.positions = cutter.cut<int32_t>(kMostBlock);
  for (int64_t h = 0; h < heads; ++h) {
    DecodeState state{};
    state.reference = cutter.cut<float>(plan.rows);
    state.sums = cutter.cut<float>(plan.rows * kLanes);
    state.out = cutter.cut<float>(plan.rows * plan.value_width);
    if (plan.query_rows.windowed) {
      state.query_window = cutter.cut<float>(plan.rows * plan.query_rows.columns);
      state.query_rows = cutter.cut<Range>(plan.rows);
    }
    if (plan.value_rows.on) {
      state.value_window = cutter.cut<float>(plan.rows * plan.value_rows.columns);
      state.value_sides = cutter.cut<float>(plan.rows * 2 * kLanes);
      state.value_rows = cutter.cut<Range>(plan.rows);
    }
    if (memory) s.states[h] = state;
  }
  return cutter.used;
}

// The first lines of a stretch of memory, and of each page in it: where a stream begins, as in every page
// of a cache in pages, nothing has been fetched ahead of it. Elsewhere the machine does that better alone
// (docs/design/0005-decode.md).
inline void look_ahead(const char* at, const char* end) {
  constexpr int64_t kPage = 4096, kLine = 64, kLines = 6;
  while (at < end) {
    for (int64_t n = 0; n < kLines; ++n) __builtin_prefetch(at + n * kLine);
    at += kPage - reinterpret_cast<uintptr_t>(at) % kPage;
  }
}
// The rows of some steps, where they lie side by side.
template <class Step>
inline void look_ahead(const Step* steps, int64_t count, int64_t width) {
  const int64_t bytes = kStep * width * static_cast<int64_t>(sizeof(*steps->data));
  for (int64_t n = 0; n < count;) {
    const char* from = reinterpret_cast<const char*>(steps[n].data);
    if (steps[n].row != width) return;
    const char* end = from + bytes;
    for (++n; n < count && reinterpret_cast<const char*>(steps[n].data) == end; ++n) end += bytes;
    look_ahead(from, end);
  }
}

// One block of keys as a unit sees it.
template <class K, class V>
struct DecodeBlock {
  int64_t j = 0, n = 0;  // the first key, and how many: whole steps but for the last of a sequence
  BlockPlaces places;
  KeyStep<K> k[kMostBlock / kStep];
  KeyStep<V> v[kMostBlock / kStep];
  const char *next = nullptr, *next_end = nullptr;  // the keys after it, to look ahead at
  int64_t padded() const { return (n + kStep - 1) / kStep * kStep; }
};

inline int64_t place_of_row(const DecodePlan& plan, int64_t b, int64_t r) {
  return plan.q_position[b * plan.Q + r % plan.Q];
}
inline int64_t head_of_row(const DecodePlan& plan, int64_t hk, int64_t r) {
  return hk * plan.group + r / plan.Q;
}

// Where token j of sequence b is.
template <class T>
inline const T* token(const DecodePlan& plan, const void* data, int64_t batch, int64_t head,
                      int64_t row, int64_t b, int64_t hk, int64_t j) {
  if (plan.block_table) {
    b = plan.block_table[b * plan.block_batch + j / plan.page_size * plan.block_step];
    j %= plan.page_size;
  }
  return static_cast<const T*>(data) + b * batch + hk * head + j * row;
}

constexpr float kLog2e = 1.44269504f;

inline uint64_t first_bits(int64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

// Keys of a block that a query at position p keeps.
inline uint64_t kept_by(const DecodePlan& plan, const BlockPlaces& places, int64_t n, int64_t p) {
  if (!places.position) {
    const int64_t low = at_most(n, at_least(0, p - plan.left - places.first));
    const int64_t high = at_most(n, at_least(0, p + plan.right - places.first + 1));
    return low < high ? first_bits(high) & ~first_bits(low) : 0;
  }
  uint64_t bits = 0;
  for (int64_t c = 0; c < n; ++c) {
    const int64_t at = places.position[c];
    if (at >= p - plan.left && at <= p + plan.right) bits |= uint64_t{1} << c;
  }
  return bits;
}

inline const float* key_numbers_of(const DecodePlan& plan, int64_t b, int64_t h) {
  return plan.key_numbers + b * plan.key_numbers_batch + h * plan.key_numbers_head;
}
// Keys of [j, j + n) that a number of -inf hides from head h.
inline uint64_t hidden_from(const DecodePlan& plan, int64_t b, int64_t h, int64_t j, int64_t n) {
  const float* numbers = key_numbers_of(plan, b, h);
  const int64_t step = plan.key_numbers_key;
  if (step == 1 && n % kLanes == 0) {  // mostly there are none
    bool some = false;
    for (int64_t c = 0; c < n; c += kLanes) some |= any(less(load(numbers + j + c), set(-3.4028234e38f)));
    if (!some) return 0;
  }
  uint64_t bits = 0;
  for (int64_t c = 0; c < n; ++c) {
    if (numbers[(j + c) * step] == -__builtin_inff()) bits |= uint64_t{1} << c;
  }
  return bits;
}

// Fills s.seen; whether every row sees every key of whole steps.
inline bool find_seen(const DecodePlan& plan, int64_t b, int64_t hk, const BlockPlaces& places, int64_t j,
                      int64_t n, uint64_t* seen) {
  bool whole = n % kStep == 0;
  for (int64_t i = 0; i < plan.Q; ++i) {
    seen[i] = kept_by(plan, places, n, plan.q_position[b * plan.Q + i]);
    whole &= seen[i] == first_bits(n);
  }
  for (int64_t r = plan.Q; r < plan.rows; ++r) seen[r] = seen[r - plan.Q];
  if (!plan.key_numbers) return whole;
  uint64_t hidden = 0;
  for (int64_t g = 0; g < plan.group; ++g) {
    if (g == 0 || plan.key_numbers_head) hidden = hidden_from(plan, b, hk * plan.group + g, j, n);
    if (!hidden) continue;
    whole = false;
    for (int64_t i = 0; i < plan.Q; ++i) seen[g * plan.Q + i] &= ~hidden;
  }
  return whole;
}

// ---- 1 scores

// Products of rows [r0, r1) with the keys of a block, into their scores.
template <class K, class V>
inline void score_rows(const DecodePlan& plan, int64_t b, int64_t hk, const DecodeBlock<K, V>& block,
                       int64_t variant, int64_t r0, int64_t r1, float* scores) {
  const int64_t set = (b * plan.Hk + hk) * plan.variants + variant, keys = block.padded();
  const QueryRowsOf q{plan.q + (set * plan.rows + r0) * plan.q_row, plan.q_row, r1 - r0, plan.product_factor};
  for (int64_t c = 0; c < keys; c += kLanes) {
    const KeyStep<K>& step = block.k[c / kStep];
    products_of(step.data + c % kStep * step.row, step.row, q, plan.D, scores + r0 * kMostBlock + c,
                kMostBlock);
  }
}

// Which variant of the queries serves all of rows [r0, r1): 1 or 2 where the block lies wholly on one
// side of the key rows' map; 0 otherwise, and then key rows are still to be added.
inline int64_t variant_of(const DecodePlan& plan, int64_t b, const BlockPlaces& places, int64_t n,
                          int64_t r0, int64_t r1) {
  if (plan.variants == 1 || places.position) return 0;
  const DecodeMap& map = plan.key_rows.map;
  bool before = true, after = true;
  for (int64_t r = r0; r < at_most(r1, r0 + plan.Q); ++r) {
    const int64_t d = places.first - place_of_row(plan, b, r);
    before &= d + n <= map.first;
    after &= d - map.first >= map.n;
  }
  return before ? 1 : after ? 2 : 0;
}

inline Source query_source(const DecodePlan& plan, const DecodeState& state, int64_t b, int64_t h,
                           int64_t r) {
  const DecodeRows& t = plan.query_rows;
  const int64_t row = (b * plan.H + h) * plan.Q + r % plan.Q;
  const float* table = t.windowed ? state.query_window + r * t.columns - state.query_rows[r].first
                                  : t.products + row * t.count - t.first_row;
  return {&t.map, table, 1, t.sides[row * 2], t.sides[row * 2 + 1], 0, 0, 0, 0};
}

// Terms of one row inside the softcap, or outside it; without one all of them are `inside`.
template <class K, class V>
inline void add_terms(const DecodePlan& plan, const DecodeState& state, int64_t b, int64_t hk,
                      const DecodeBlock<K, V>& block, int64_t variant, int64_t r, bool inside,
                      float* scores) {
  const int64_t h = head_of_row(plan, hk, r), p = place_of_row(plan, b, r), n = block.padded();
  const auto now = [&](bool term_inside) { return plan.cap == 0 ? inside : term_inside == inside; };
  if (plan.key_rows.on && now(plan.key_rows.inside) && variant == 0) {
    add_key_rows(plan.key_rows, h, block.k, block.places, n, p, scores);
  }
  if (plan.query_rows.on && now(plan.query_rows.inside)) {
    add_source(query_source(plan, state, b, h, r), block.places, n, p, scores);
  }
  if (plan.number.on && now(plan.number.inside)) {
    add_source(number_source(plan, h), block.places, n, p, scores);
  }
  if (plan.key_numbers && now(false)) {
    const float* numbers = key_numbers_of(plan, b, h);
    const int64_t step = plan.key_numbers_key;
    if (step == 1 && block.n == n) {
      for (int64_t c = 0; c < n; c += kLanes) {
        store(scores + c, fma(set(kLog2e), load(numbers + block.j + c), load(scores + c)));
      }
    } else {
      for (int64_t c = 0; c < block.n; ++c) scores[c] += kLog2e * numbers[(block.j + c) * step];
    }
  }
}

// What a hook adds to the scores of rows [r0, r1), head by head.
inline void add_hook(const DecodePlan& plan, const DecodeScratch& s, int64_t b, int64_t hk,
                     const BlockPlaces& places, int64_t j, int64_t n, int64_t r0, int64_t r1) {
  const int64_t padded = (n + kStep - 1) / kStep * kStep;
  for (int64_t c = 0; c < n; ++c) s.positions[c] = static_cast<int32_t>(places.at(c));
  for (int64_t r = r0; r < r1;) {
    const int64_t i = r % plan.Q, rows = at_most(at_most(kMostBlock, plan.Q - i), r1 - r);
    clear(s.hook, rows * kMostBlock);
    plan.hook->add(ScoreTile{b, head_of_row(plan, hk, r), i, j, rows, n, plan.q_position + b * plan.Q + i,
                             s.positions, kMostBlock},
                   s.hook);
    for (int64_t l = 0; l < rows; ++l, ++r) {
      for (int64_t c = 0; c < padded; c += kLanes) {
        float* scores = s.scores + r * kMostBlock + c;
        store(scores, fma(set(kLog2e), load(s.hook + l * kMostBlock + c), load(scores)));
      }
    }
  }
}

// ---- 2 softmax

// Scores of a row to probabilities: bounds, mask, reference, exp2, sums.
inline void soften(const DecodePlan& plan, DecodeState& state, int64_t r, int64_t n, uint64_t seen,
                   float* scores) {
  if (seen != first_bits(n)) {
    for (int64_t c = 0; c < n; ++c) {
      if (!(seen >> c & 1)) scores[c] = -__builtin_inff();
    }
  }
  Vec top = set(kMasked);
  for (int64_t c = 0; c < n; c += kLanes) {
    // -inf masks; other numbers stay above that, and a NaN stays a NaN.
    const Vec x = load(scores + c);
    const Vec y = select(less(x, set(-3.4028234e38f)), set(kMasked), raise(set(kLeast), x));
    store(scores + c, y);
    top = max(top, y);
  }
  float reference = state.reference[r];
  float* sums = state.sums + r * kLanes;
  const bool fresh = reference == kMasked;
  if (any(less(set(fresh ? kUnseen : reference + kSlack), top))) {
    const float moved = hmax(top);
    if (!fresh) {
      float factors[kLanes];
      store(factors, exp2(set(reference - moved)));
      const Vec factor = set(factors[0]);
      store(sums, load(sums) * factor);
      float* out = state.out + r * plan.value_width;
      for (int64_t c = 0; c < plan.value_width; c += kLanes) store(out + c, load(out + c) * factor);
      if (plan.value_rows.on) {
        float* window = state.value_window + r * plan.value_rows.columns;
        for (int64_t c = 0; c < plan.value_rows.columns; c += kLanes) {
          store(window + c, load(window + c) * factor);
        }
        float* sides = state.value_sides + r * 2 * kLanes;
        store(sides, load(sides) * factor);
        store(sides + kLanes, load(sides + kLanes) * factor);
      }
    }
    reference = state.reference[r] = moved;
  }
  Vec sum = load(sums);
  const Vec minus = set(reference == kMasked ? 0.0f : reference);
  for (int64_t c = 0; c < n; c += kLanes) {
    const Vec p = exp2(load(scores + c) - minus);
    store(scores + c, p);
    sum = sum + p;
  }
  store(sums, sum);
}

// ---- 1 to 3

// Rows [r0, r1), which see the same keys of the block, or all of it.
template <class K, class V>
inline void decode_rows(const DecodePlan& plan, DecodeScratch& s, DecodeState& state, int64_t b,
                        int64_t hk, const DecodeBlock<K, V>& block, int64_t r0, int64_t r1) {
  const int64_t n = block.padded(), variant = variant_of(plan, b, block.places, n, r0, r1);
  if (plan.block_table) look_ahead(block.v, n / kStep, plan.Dv);
  score_rows(plan, b, hk, block, variant, r0, r1, s.scores);
  for (int64_t r = r0; r < r1; ++r) {
    float* scores = s.scores + r * kMostBlock;
    add_terms(plan, state, b, hk, block, variant, r, true, scores);
    if (plan.cap != 0) {
      for (int64_t c = 0; c < n; c += kLanes) {
        store(scores + c, set(plan.cap) * tanh_of(load(scores + c)));
      }
      add_terms(plan, state, b, hk, block, variant, r, false, scores);
    }
  }
  if (plan.hook) add_hook(plan, s, b, hk, block.places, block.j, block.n, r0, r1);
  for (int64_t r = r0; r < r1; ++r) {
    float* scores = s.scores + r * kMostBlock;
    soften(plan, state, r, n, s.seen[r] & first_bits(block.n), scores);
  }
  look_ahead(block.next, block.next_end);
  for (int64_t c = 0; c < n; c += kStep) {
    const KeyStep<V>& step = block.v[c / kStep];
    add_values(ValueStep<V>{step.data, step.row, kStep}, plan.Dv, r1 - r0,
               s.scores + r0 * kMostBlock + c, kMostBlock, state.out + r0 * plan.value_width,
               plan.value_width);
  }
  if (!plan.value_rows.on) return;
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t columns = plan.value_rows.columns;
    add_to_row_sums(plan.value_rows.map, block.places, n, place_of_row(plan, b, r),
                    s.scores + r * kMostBlock,
                    {state.value_window + r * columns, state.value_rows[r].first,
                     state.value_sides + r * 2 * kLanes});
  }
}

inline void copy_numbers(const float* from, int64_t n, float* to) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) store(to + c, load(from + c));
  for (; c < n; ++c) to[c] = from[c];
}
inline void copy_numbers(const uint16_t* from, int64_t n, uint16_t* to) {
  for (int64_t c = 0; c < n; ++c) to[c] = from[c];
}
inline void copy_numbers(const uint16_t* from, int64_t n, float* to) {
  int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes) store(to + c, load_wide(from + c));
  if (c < n) store_first(to + c, load_wide_first(from + c, static_cast<int>(n - c)),
                static_cast<int>(n - c));
}

// The keys and values of a block that `seen` names, the others zero, in scratch memory. K: float where
// keys are turned on the way.
template <class T, class K>
inline void copy_block(const DecodePlan& plan, const DecodeScratch& s, int64_t b, int64_t hk,
                       uint64_t seen, DecodeBlock<K, T>& block) {
  K* k = reinterpret_cast<K*>(s.k_copy);
  T* v = reinterpret_cast<T*>(s.v_copy);
  for (int64_t c = 0; c < block.padded(); ++c) {
    K* key = k + c * plan.width;
    T* value = v + c * plan.value_width;
    if (c % kStep == 0) {
      block.k[c / kStep] = {key, plan.width};
      block.v[c / kStep] = {value, plan.value_width};
    }
    if (!(seen >> c & 1)) {
      for (int64_t e = 0; e < plan.D; ++e) key[e] = 0;
      for (int64_t e = 0; e < plan.Dv; ++e) value[e] = 0;
      continue;
    }
    const int64_t j = block.j + c;
    copy_numbers(token<T>(plan, plan.k, plan.k_batch, plan.k_head, plan.k_row, b, hk, j), plan.D, key);
    copy_numbers(token<T>(plan, plan.v, plan.v_batch, plan.v_head, plan.v_row, b, hk, j), plan.Dv, value);
    if constexpr (sizeof(K) == sizeof(float)) {
      if (plan.k_turn.cosine) turn_row(plan.k_turn, plan.k_turn.at(b, j), false, key);
    }
  }
}

// The block that is read next: a key head and its first key.
struct Next {
  int64_t hk, j;
};

// Block [j, j + n) of a sequence for one key head. K: what keys are once they are read.
template <class T, class K>
inline void decode_block(const DecodePlan& plan, DecodeScratch& s, DecodeState& state, int64_t b,
                         int64_t hk, int64_t j, int64_t n, bool whole, const BlockPlaces& places,
                         Next next) {
  DecodeBlock<K, T> block;
  block.j = j;
  block.n = n;
  block.places = places;
  const bool in_place = !plan.k_turn.cosine && (!plan.block_table || plan.page_size % kStep == 0);
  if (whole) {
    if constexpr (sizeof(K) == sizeof(T)) {
      if (in_place) {
        for (int64_t c = 0; c < n; c += kStep) {
          block.k[c / kStep] = {
              token<T>(plan, plan.k, plan.k_batch, plan.k_head, plan.k_row, b, hk, j + c), plan.k_row};
          block.v[c / kStep] = {
              token<T>(plan, plan.v, plan.v_batch, plan.v_head, plan.v_row, b, hk, j + c), plan.v_row};
        }
        if (plan.block_table && plan.k_row == plan.D && next.j + kStep <= plan.lengths[b]) {
          block.next = reinterpret_cast<const char*>(
              token<T>(plan, plan.k, plan.k_batch, plan.k_head, plan.k_row, b, next.hk, next.j));
          block.next_end = block.next + kStep * plan.D * static_cast<int64_t>(sizeof(T));
        }
        decode_rows(plan, s, state, b, hk, block, 0, plan.rows);
        return;
      }
    }
    copy_block(plan, s, b, hk, first_bits(n), block);
    decode_rows(plan, s, state, b, hk, block, 0, plan.rows);
    return;
  }
  for (int64_t r = 0; r < plan.rows;) {
    int64_t end = r + 1;
    while (end < plan.rows && s.seen[end] == s.seen[r]) ++end;
    if (s.seen[r]) {
      copy_block(plan, s, b, hk, s.seen[r], block);
      decode_rows(plan, s, state, b, hk, block, r, end);
    }
    r = end;
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
