// See prepare.h.
#include "locant/attention/prepare.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "locant/attention/prepare_terms.h"
#include "locant/attention/rotate.h"

namespace locant::attention {
namespace {

// Keys a worker packs at a time in the forward pass: their panels fit the second-level cache.
constexpr int64_t kChunkTiles = 64;

// Positions of one side as 32-bit numbers, padded, with the span of every tile. n: tokens of a
// sequence, packed (start is given): of all of them.
Places place(const View<const int64_t, 2>& positions, const int64_t* start, int64_t B, int64_t n,
             Arrays& arrays, bool& simple) {
  Places places;
  places.start = start;
  places.batch = B > 1 && positions.shape[0] > 1 && positions.stride[0] != 0 ? 1 : 0;
  if (start) {
    auto* first_tile = arrays.take<int64_t>(B + 1);
    first_tile[0] = 0;
    for (int64_t b = 0; b < B; ++b) {
      const int64_t length = start[b + 1] - start[b];
      places.length = std::max(places.length, length);
      first_tile[b + 1] = first_tile[b] + (length + kTile - 1) / kTile;
    }
    places.first_tile = first_tile;
  } else {
    places.length = n;
  }
  places.tiles = (places.length + kTile - 1) / kTile;
  places.padded = places.tiles * kTile;
  const int64_t batches = start ? B : places.batch ? B : 1;
  const int64_t all_tiles = start ? places.first_tile[B] : batches * places.tiles;
  auto* position = arrays.take<int32_t>(all_tiles * kTile);
  auto* spans = arrays.take<TileSpan>(all_tiles);
  places.position = position;
  places.tile = spans;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t length = places.length_of(b), tiles = places.tiles_of(b);
    const int64_t* in = positions.data + (start ? start[b] : b * positions.stride[0]);
    int32_t* out = position + places.own_tiles(b) * kTile;
    TileSpan* span_of = spans + places.own_tiles(b);
    for (int64_t i = 0; i < length; ++i) {
      out[i] = static_cast<int32_t>(in[i]);
      simple &= in[i] == in[0] + i;
    }
    for (int64_t i = length; i < tiles * kTile; ++i) out[i] = -1;
    for (int64_t t = 0; t < tiles; ++t) {
      const int32_t* p = out + t * kTile;
      const int64_t count = std::min(kTile, length - t * kTile);
      TileSpan span{p[0], p[0], 1};
      for (int64_t i = 1; i < count; ++i) {
        span.min = std::min(span.min, p[i]);
        span.max = std::max(span.max, p[i]);
        span.consecutive &= p[i] == p[0] + i;
      }
      span_of[t] = span;
    }
  }
  return places;
}

// The distances that tiles can ask for.
Extremes distances(const Plan& plan) {
  Extremes d{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  const bool differ = plan.q_places.start || plan.q_places.batch || plan.k_places.batch;
  const int64_t batches = differ ? plan.B : std::min<int64_t>(plan.B, 1);
  for (int64_t b = 0; b < batches; ++b) {
    if (plan.queries(b) == 0 || plan.keys(b) == 0) continue;
    Extremes q{INT32_MAX, 0}, k{INT32_MAX, 0};
    for (int64_t t = 0; t < plan.q_places.tiles_of(b); ++t) {
      q.low = std::min<int64_t>(q.low, plan.q_places.spans(b)[t].min);
      q.high = std::max<int64_t>(q.high, plan.q_places.spans(b)[t].max);
    }
    for (int64_t t = 0; t < plan.k_places.tiles_of(b); ++t) {
      k.low = std::min<int64_t>(k.low, plan.k_places.spans(b)[t].min);
      k.high = std::max<int64_t>(k.high, plan.k_places.spans(b)[t].max);
    }
    d.low = std::min(d.low, k.low - q.high);
    d.high = std::max(d.high, k.high - q.low);
  }
  if (d.low > d.high) return {0, 0};  // no pairs at all
  return d;
}

// The keys that no query of their sequence sees, while products would multiply them by zeros: NaN times 0
// is NaN. Forward, consecutive positions leave them out by themselves; but a pair of bf16 keys has two.
void find_unseen_keys(Plan& plan, bool backward, Arrays& arrays) {
  if (plan.left >= kUnlimited && plan.right >= kUnlimited) return;
  if (plan.simple && !backward && !plan.bf16) return;
  const Places &q = plan.q_places, &k = plan.k_places;
  const bool differ = q.start || q.batch || k.batch;
  const int64_t batches = differ ? plan.B : std::min<int64_t>(plan.B, 1);
  const bool holes = !plan.simple && plan.left < kUnlimited && plan.right < kUnlimited;
  auto* order = arrays.take<int32_t>(holes ? q.length : 0);
  uint8_t* unseen = nullptr;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t queries = plan.queries(b), keys = plan.keys(b);
    if (queries == 0) continue;
    int64_t first = INT32_MAX, last = 0;
    for (int64_t t = 0; t < q.tiles_of(b); ++t) {
      first = std::min(first, q.spans(b)[t].min - plan.left);
      last = std::max(last, q.spans(b)[t].max + plan.right);
    }
    bool all_seen = !holes;
    for (int64_t t = 0; t < k.tiles_of(b); ++t) {
      all_seen &= k.spans(b)[t].min >= first && k.spans(b)[t].max <= last;
    }
    if (all_seen) continue;
    if (!unseen) {
      const int64_t all = k.start ? k.first_tile[plan.B] * kTile : batches * k.padded;
      unseen = arrays.take<uint8_t>(all);
      std::fill(unseen, unseen + all, uint8_t{0});
      plan.unseen_batch = differ ? k.padded : 0;
      plan.unseen = unseen;
    }
    uint8_t* out = unseen + (plan.unseen_of(b) - plan.unseen);
    const int32_t* position = k.positions(b);
    if (holes) {
      std::copy(q.positions(b), q.positions(b) + queries, order);
      std::sort(order, order + queries);
    }
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t low = position[j] - plan.right, high = position[j] + plan.left;  // of queries that see it
      const auto* next = holes ? std::lower_bound(order, order + queries, low) : nullptr;
      const bool seen = holes ? next != order + queries && *next <= high : position[j] >= first && position[j] <= last;
      out[j] = seen ? 0 : 1;
    }
  }
}

// What lanes beyond the last key, and masked pairs of tiles that are kept, may ask for too.
Extremes reachable(const Plan& plan, Extremes d) {
  if (plan.simple) {
    d.low = std::max(d.low, -plan.left - 2 * kTile);
    d.high = std::max(d.low, std::min(d.high, plan.right + 2 * kTile));
  }
  return {std::max<int64_t>(d.low - kTile, -INT32_MAX), std::min<int64_t>(d.high + kTile, INT32_MAX)};
}

Turn turn_of(const Rotation& rotation, const Places& places, int64_t B, int side, Arrays& arrays) {
  Turn turn;
  turn.pairs = rotation.width / 2;
  turn.interleaved = rotation.layout == Rotation::Layout::kInterleaved;
  turn.start = places.start;
  const int64_t batches = places.start || places.batch ? B : 1;
  turn.batch = places.batch ? places.length * turn.pairs : 0;
  const int64_t tokens = places.start ? places.start[B] : batches * places.length;
  auto* cosine = arrays.take<float>(tokens * turn.pairs);
  auto* sine = arrays.take<float>(tokens * turn.pairs);
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t at = turn.at(b, 0);
    fill_turn(rotation, places.positions(b), places.length_of(b), side, cosine + at, sine + at);
  }
  turn.cosine = cosine;
  turn.sine = sine;
  return turn;
}

void draw_keys(const DropoutTerm& term, int64_t b, int64_t h, int64_t i0, int64_t n, int32_t* keys) {
  const auto& dropout = *static_cast<const Dropout*>(term.source);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = term.q_start ? term.q_start[b] : 0;
    const int64_t token = dropout.q_tokens ? dropout.q_tokens(first + i0 + i) : i0 + i;
    const DropoutKeys drawn = dropout_keys(dropout, b, h, token);
    keys[i] = static_cast<int32_t>(drawn.first);
    keys[kTile + i] = static_cast<int32_t>(drawn.second);
  }
}

DropoutTerm dropout_term(const Dropout& dropout, const Plan& plan, Arrays& arrays) {
  DropoutTerm term;
  term.on = dropout.rate > 0;
  if (!term.on) return term;
  term.threshold = dropout_threshold(dropout.rate);
  term.keep_factor = static_cast<float>(1 / (1 - dropout.rate));
  term.log2_keep_factor = static_cast<float>(-std::log2(1 - dropout.rate));
  const Places& places = plan.k_places;
  term.q_start = plan.q_places.start;
  term.listed = dropout.k_tokens && places.start;
  const int64_t lists = term.listed ? plan.B : 1;
  auto* tokens = arrays.take<int32_t>(term.listed ? places.first_tile[plan.B] * kTile : places.padded);
  for (int64_t b = 0; b < lists; ++b) {
    const int64_t length = term.listed ? places.length_of(b) : places.length;
    const int64_t first = term.listed ? places.start[b] : 0;
    int32_t* to = tokens + (term.listed ? places.first_tile[b] * kTile : 0);
    for (int64_t j = 0; j < (length + kTile - 1) / kTile * kTile; ++j) {
      const bool given = dropout.k_tokens && j < length;
      to[j] = static_cast<int32_t>(given ? dropout.k_tokens(first + j) : j);
    }
  }
  term.k_tokens = tokens;
  term.draw = draw_keys;
  term.source = &dropout;
  return term;
}

bool same_positions(const Plan& plan) {
  const Places &q = plan.q_places, &k = plan.k_places;
  if (q.length != k.length || q.batch != k.batch) return false;
  if (q.start && !std::equal(q.start, q.start + plan.B + 1, k.start)) return false;
  const int64_t tiles = q.start ? q.first_tile[plan.B] : (q.batch ? plan.B : 1) * q.tiles;
  return std::equal(q.position, q.position + tiles * kTile, k.position);
}

}  // namespace

template <class T>
Plan prepare(const KernelCall<T>& call, int lanes, bool backward, Arrays& arrays) {
  const Inputs<T>& in = call.inputs;
  const Terms<float>& terms = *call.terms;
  Plan plan;
  const bool packed = call.q_start != nullptr;
  plan.B = packed ? call.sequences : in.q.shape[0];
  plan.H = in.q.shape[1];
  plan.D = in.q.shape[3];
  plan.Hk = in.k.shape[1];
  plan.Dv = in.v.shape[3];
  plan.group = plan.H / plan.Hk;
  plan.width = round_up(plan.D, lanes);
  plan.value_width = round_up(plan.Dv, lanes);
  plan.q = array_of(in.q, call.q_start);
  plan.k = array_of(in.k, call.k_start);
  plan.v = array_of(in.v, call.k_start);
  plan.bf16 = std::is_same_v<T, Bf16>;

  plan.simple = true;
  plan.q_places = place(in.q_positions, call.q_start, plan.B, in.q.shape[2], arrays, plan.simple);
  plan.k_places = place(in.k_positions, call.k_start, plan.B, in.k.shape[2], arrays, plan.simple);
  plan.left = steps_of(call.window.left);
  plan.right = call.causal ? 0 : steps_of(call.window.right);
  const Extremes d = distances(plan);
  plan.wide = d.high - d.low > (int64_t{1} << 30);
  const Extremes reach = reachable(plan, d);
  find_unseen_keys(plan, backward, arrays);

  plan.chunk_tiles = std::max<int64_t>(1, plan.k_places.tiles);
  if (!backward) plan.chunk_tiles = std::min(plan.chunk_tiles, kChunkTiles);
  plan.downwards = !backward && plan.right == 0;

  // Inside: factor of everything that the scale multiplies; outside: of what is added after it. With
  // a softcap c: c tanh(x / c) = c t / (t + 2), t = exp2(x 2 log2(e) / c) - 1.
  double inside = call.scale * kLog2e;
  const double outside = kLog2e;
  if (call.softcap > 0) {
    inside = call.scale * 2 * kLog2e / call.softcap;
    plan.cap = static_cast<float>(call.softcap * kLog2e);
  }
  plan.score_factor = static_cast<float>(inside);
  // A scale of 0 is legal: then dS carries nothing and what the scale multiplies is multiplied later.
  const double carried = std::abs(call.scale) < 1e-30 ? 1.0 : call.scale;
  plan.gradient_factor = static_cast<float>(carried);
  plan.inside_factor = static_cast<float>(call.scale / carried);
  // Backward, P carries 1 / (1 - rate), so that P is what multiplies values, and delta lacks it.
  plan.dropout = dropout_term(call.dropout, plan, arrays);
  plan.delta_factor = static_cast<float>(carried * (1 - call.dropout.rate));

  if (in.number_per_key) key_numbers(in.number_per_key, plan, arrays);
  if (terms.number) plan.number = number_term(*terms.number, inside, outside, reach, arrays);
  const auto row_factor = [&](bool scaled) { return backward && !scaled ? 1 / carried : 1.0; };
  if (const auto& t = terms.query_rows) {
    plan.query_rows = rows_term(t->index, t->rows, lanes, plan, reach, true,
                                t->scaled ? inside : outside, row_factor(t->scaled), arrays);
    plan.query_rows.inside = t->scaled;
  }
  if (const auto& t = terms.key_rows) {
    plan.key_rows = rows_term(t->index, t->rows, lanes, plan, reach, false,
                              t->scaled ? inside : outside, row_factor(t->scaled), arrays);
    plan.key_rows.inside = t->scaled;
  }
  if (const auto& t = terms.value_rows) {
    plan.value_rows = rows_term(t->index, t->rows, lanes, plan, reach, true, carried, 1, arrays);
  }
  if (const auto& u = terms.content_bias) {
    plan.content_bias_heads = u->heads;
    auto* bias = arrays.take<float>(u->heads * plan.width);
    for (int64_t h = 0; h < u->heads; ++h) {
      for (int64_t c = 0; c < plan.width; ++c) {
        bias[h * plan.width + c] = c < plan.D ? u->row(h, 0)[c] : 0.0f;
      }
    }
    plan.content_bias = bias;
  }
  plan.hook = terms.hook.get();
  if (terms.rotation && terms.rotation->width > 0) {
    plan.q_turn = turn_of(*terms.rotation, plan.q_places, plan.B, +1, arrays);
    plan.k_turn = terms.rotation->log_growth.empty() && same_positions(plan)
                      ? plan.q_turn
                      : turn_of(*terms.rotation, plan.k_places, plan.B, -1, arrays);
  }
  return plan;
}

template Plan prepare(const KernelCall<float>&, int, bool, Arrays&);
template Plan prepare(const KernelCall<Bf16>&, int, bool, Arrays&);

}  // namespace locant::attention
