// See decode_prepare.h.
#include "locant/attention/decode_prepare.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "locant/attention/decode_check.h"
#include "locant/attention/rotate.h"

namespace locant::attention {
namespace {

constexpr double kLog2e = 1.4426950408889634;
// Query rows up to so many are multiplied with the query once a call; more, split by split.
constexpr int64_t kMostProducts = 2048;
// Columns of a window: the distances of a split and of a block beside it on either end.
constexpr int64_t kWindow = kSplit + 2 * kMostBlock + kStep;
constexpr int64_t kBlockBytes = 4096;  // of keys read before values, about

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

float number_of(float x) { return x; }
float number_of(Bf16 x) { return to_float(x); }

struct Extremes {
  int64_t low = INT64_MAX, high = INT64_MIN;
  void add(int64_t x) { low = std::min(low, x), high = std::max(high, x); }
};

// Positions of both sides, and the distances between them.
template <class T>
Extremes place(const DecodeInputs<T>& in, DecodePlan& plan, Arrays& arrays) {
  auto* q = arrays.take<int32_t>(plan.B * plan.Q);
  auto* lengths = arrays.take<int64_t>(plan.B);
  int64_t longest = 0;
  for (int64_t b = 0; b < plan.B; ++b) {
    lengths[b] = in.cache.lengths(b);
    longest = std::max(longest, lengths[b]);
    for (int64_t i = 0; i < plan.Q; ++i) q[b * plan.Q + i] = static_cast<int32_t>(query_position(in, b, i));
  }
  plan.q_position = q;
  plan.lengths = lengths;
  plan.splits = (longest + kSplit - 1) / kSplit;
  const auto& given = in.k_positions;
  std::vector<Extremes> keys(static_cast<size_t>(plan.B));
  if (given) {
    plan.padded = round_up(longest, kMostBlock);
    plan.k_batches = given.shape[0] == 1 ? 0 : 1;
    const int64_t batches = plan.k_batches ? plan.B : 1, steps = plan.padded / kStep;
    auto* position = arrays.take<int32_t>(batches * plan.padded);
    auto* span = arrays.take<StepSpan>(batches * steps);
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t n = plan.k_batches ? lengths[b] : longest;
      int32_t* to = position + b * plan.padded;
      for (int64_t j = 0; j < plan.padded; ++j) to[j] = j < n ? static_cast<int32_t>(given(b, j)) : -1;
      for (int64_t s = 0; s < steps; ++s) {
        const int32_t* at = to + s * kStep;
        StepSpan one{at[0], 1};
        for (int64_t c = 1; c < std::min(kStep, n - s * kStep); ++c) one.consecutive &= at[c] == at[0] + c;
        span[b * steps + s] = one;
      }
    }
    plan.k_position = position;
    plan.k_span = span;
    for (int64_t b = 0; b < plan.B; ++b) {
      const int32_t* at = position + b * plan.k_batches * plan.padded;
      for (int64_t j = 0; j < lengths[b]; ++j) keys[static_cast<size_t>(b)].add(at[j]);
    }
  } else {
    for (int64_t b = 0; b < plan.B; ++b) {
      if (lengths[b] > 0) keys[static_cast<size_t>(b)] = {0, lengths[b] - 1};
    }
  }
  Extremes distances;
  for (int64_t b = 0; b < plan.B; ++b) {
    if (lengths[b] == 0) continue;
    for (int64_t i = 0; i < plan.Q; ++i) {
      distances.add(keys[static_cast<size_t>(b)].low - q[b * plan.Q + i]);
      distances.add(keys[static_cast<size_t>(b)].high - q[b * plan.Q + i]);
    }
  }
  if (distances.low > distances.high) distances = {0, 0};
  return distances;
}

// Splits of which some query may see a key.
void find_split_range(DecodePlan& plan, Arrays& arrays) {
  auto* range = arrays.take<int64_t>(2 * plan.B);
  for (int64_t b = 0; b < plan.B; ++b) {
    int64_t first = 0, end = (plan.lengths[b] + kSplit - 1) / kSplit;
    if (!plan.k_position && plan.Q > 0) {
      const int32_t* q = plan.q_position + b * plan.Q;
      const int64_t low = *std::min_element(q, q + plan.Q) - plan.left;
      const int64_t high = *std::max_element(q, q + plan.Q) + plan.right;
      first = std::max(first, low / kSplit);
      end = std::min(end, high < 0 ? 0 : high / kSplit + 1);
    }
    range[2 * b] = std::min(first, end);
    range[2 * b + 1] = end;
  }
  plan.split_range = range;
}

DecodeMap clip(const IndexMap& index, const Extremes& d) {
  DecodeMap map;
  map.before = index.before;
  map.after = index.after;
  map.first = std::clamp(index.first, d.low, d.high + 1);
  if (index.last() < d.low) map.first = d.low;
  const int64_t last = std::min(index.last(), d.high);
  map.n = std::max<int64_t>(0, last - map.first + 1);
  map.rows = index.rows.data() + (map.n > 0 ? map.first - index.first : 0);
  if (map.n > 1) {
    const int32_t step = map.rows[1] - map.rows[0];
    bool even = (step == 1 || step == -1) && map.rows[0] >= 0 && map.rows[map.n - 1] >= 0;
    for (int64_t e = 1; even && e < map.n; ++e) even = map.rows[e] - map.rows[e - 1] == step;
    if (even) map.step = step;
  } else if (map.n == 1 && map.rows[0] >= 0) {
    map.step = 1;
  }
  return map;
}

DecodeNumbers number_term(const NumberPerDistance<float>& term, double inside, double outside,
                          const Extremes& reach) {
  DecodeNumbers out;
  out.on = true;
  out.inside = term.scaled;
  out.map = clip(term.index, reach);
  out.table = term.table.data.data();
  out.head = term.table.heads == 1 ? 0 : term.table.rows;
  out.factor = static_cast<float>(term.scaled ? inside : outside);
  out.side_head = term.table.heads == 1 ? 0 : 1;
  if (!term.left.empty()) out.left = term.left.data();
  if (!term.right.empty()) out.right = term.right.data();
  out.left_from = term.index.first;
  out.right_from = term.index.last();
  return out;
}

DecodeRows rows_term(const IndexMap& index, const Table<float>& table, bool scaled, double factor,
                     const Extremes& reach) {
  DecodeRows out;
  out.on = true;
  out.inside = scaled;
  out.map = clip(index, reach);
  out.table = table.data.data();
  out.head = table.heads == 1 ? 0 : table.rows * table.width;
  out.width = table.width;
  out.factor = static_cast<float>(factor);
  int64_t first = INT64_MAX, last = -1;
  for (int64_t e = 0; e < out.map.n; ++e) {
    if (out.map.rows[e] < 0) continue;
    first = std::min<int64_t>(first, out.map.rows[e]);
    last = std::max<int64_t>(last, out.map.rows[e]);
  }
  if (last >= 0) out.first_row = first, out.count = last - first + 1;
  return out;
}

// The queries in every form the kernels want them in.
template <class T>
void queries(const DecodeInputs<T>& in, const Terms<float>& terms, double inside, bool pairs,
             int64_t lanes, DecodePlan& plan, Arrays& arrays) {
  const int64_t units = plan.B * plan.Hk, row_size = plan.width;
  auto* plain = arrays.take<float>(units * plan.rows * row_size);
  // Pairs do not carry the factor of the scores: bf16 queries are exact without it.
  plan.q_row = pairs ? round_up(plan.D, 2 * lanes) / 2 : row_size;
  plan.product_factor = pairs ? static_cast<float>(inside) : 1;
  const double factor = pairs ? 1 : inside, side_factor = static_cast<double>(plan.key_rows.factor) * factor / inside;
  auto* q = arrays.take<float>(units * plan.variants * plan.rows * plan.q_row);
  std::fill(q, q + units * plan.variants * plan.rows * plan.q_row, 0.0f);
  std::vector<float> cosine, sine;
  for (int64_t b = 0; b < plan.B; ++b) {
    const Rotation* rotation = rotation_of(in, terms, b);
    const int64_t turns = rotation ? rotation->width / 2 : 0;
    const bool interleaved = rotation && rotation->layout == Rotation::Layout::kInterleaved;
    if (rotation) {
      cosine.resize(static_cast<size_t>(plan.Q * turns)), sine.resize(cosine.size());
      fill_turn(*rotation, plan.q_position + b * plan.Q, plan.Q, +1, cosine.data(), sine.data());
    }
    for (int64_t h = 0; h < plan.H; ++h) {
      for (int64_t i = 0; i < plan.Q; ++i) {
        const int64_t unit = b * plan.Hk + h / plan.group, r = h % plan.group * plan.Q + i;
        float* turned = plain + (unit * plan.rows + r) * row_size;
        for (int64_t c = 0; c < row_size; ++c) turned[c] = c < plan.D ? number_of(in.q(b, h, i, c)) : 0.0f;
        for (int64_t t = 0; t < turns; ++t) {
          float& x = turned[interleaved ? 2 * t : t];
          float& y = turned[interleaved ? 2 * t + 1 : t + turns];
          const auto at = static_cast<size_t>(i * turns + t);
          const float new_x = x * cosine[at] - y * sine[at];
          y = x * sine[at] + y * cosine[at];
          x = new_x;
        }
        const float* u = terms.content_bias ? terms.content_bias->row(h, 0) : nullptr;
        for (int64_t variant = 0; variant < plan.variants; ++variant) {
          const DecodeMap& map = plan.key_rows.map;
          const int32_t side = variant == 0 ? kNoRow : variant == 1 ? map.before : map.after;
          const float* row = side < 0 ? nullptr : terms.key_rows->rows.row(h, side);
          float* to = q + ((unit * plan.variants + variant) * plan.rows + r) * plan.q_row;
          auto* halves = reinterpret_cast<Bf16*>(to);
          for (int64_t c = 0; c < plan.D; ++c) {
            double x = static_cast<double>(turned[c]);
            if (u) x += static_cast<double>(u[c]);
            x *= factor;
            if (row) x += side_factor * static_cast<double>(row[c]);
            if (pairs) {
              halves[c] = to_bf16(static_cast<float>(x));
            } else {
              to[c] = static_cast<float>(x);
            }
          }
        }
      }
    }
  }
  plan.q_plain = plain;
  plan.q = q;
}

// cos and sin of keys that are turned when they are read.
template <class T>
void turn_keys(const DecodeInputs<T>& in, const Terms<float>& terms, DecodePlan& plan, Arrays& arrays,
               Executor& executor) {
  const Rotation* rotation = plan.B > 0 ? rotation_of(in, terms, 0) : nullptr;
  if (in.cache.keys_turned || !rotation) return;
  const int64_t tokens = plan.splits * kSplit, pairs = rotation->width / 2;
  const bool shared = !in.rotations && plan.k_batches == 0;
  const int64_t batches = shared ? 1 : plan.B;
  auto* cosine = arrays.take<float>(batches * tokens * pairs);
  auto* sine = arrays.take<float>(batches * tokens * pairs);
  executor.run(batches * plan.splits, [&](int64_t index, int) {
    const int64_t b = index / plan.splits, first = index % plan.splits * kSplit;
    const int64_t length = shared ? tokens : plan.lengths[b];
    const int64_t n = std::min(kSplit, std::min(length, plan.k_position ? plan.padded : tokens) - first);
    if (n <= 0) return;
    std::vector<int32_t> positions(static_cast<size_t>(n));
    for (int64_t c = 0; c < n; ++c) {
      const int32_t* given = plan.k_position ? plan.k_position + b * plan.k_batches * plan.padded : nullptr;
      positions[static_cast<size_t>(c)] = given ? std::max(given[first + c], 0) : static_cast<int32_t>(first + c);
    }
    const int64_t at = (b * tokens + first) * pairs;
    fill_turn(*rotation_of(in, terms, b), positions.data(), n, -1, cosine + at, sine + at);
  });
  plan.k_turn.cosine = cosine;
  plan.k_turn.sine = sine;
  plan.k_turn.pairs = pairs;
  plan.k_turn.interleaved = rotation->layout == Rotation::Layout::kInterleaved;
  plan.k_turn.batch = shared ? 0 : tokens * pairs;
}

}  // namespace

template <class T>
DecodePlan prepare_decode(const DecodeInputs<T>& in, const Terms<float>& terms, const Options& options,
                          const DecodeSet& set, Arrays& arrays, Executor& executor) {
  DecodePlan plan;
  const int64_t lanes = set.lanes;
  const KvCache<const T>& cache = in.cache;
  plan.B = in.q.shape[0], plan.H = in.q.shape[1], plan.Q = in.q.shape[2], plan.D = in.q.shape[3];
  plan.Hk = cache.k.shape[1], plan.Dv = cache.v.shape[3];
  plan.group = plan.H / plan.Hk;
  plan.rows = plan.group * plan.Q;
  plan.width = round_up(plan.D, lanes);
  plan.value_width = round_up(plan.Dv, lanes);
  plan.halves = sizeof(T) == 2;
  plan.k = cache.k.data, plan.v = cache.v.data;
  plan.k_batch = cache.k.stride[0], plan.k_head = cache.k.stride[1], plan.k_row = cache.k.stride[2];
  plan.v_batch = cache.v.stride[0], plan.v_head = cache.v.stride[1], plan.v_row = cache.v.stride[2];
  if (cache.paged()) {
    plan.block_table = cache.block_table.data;
    plan.block_batch = cache.block_table.stride[0], plan.block_step = cache.block_table.stride[1];
    plan.page_size = cache.page_size();
  }
  const int64_t row_bytes = std::max(plan.D, plan.Dv) * static_cast<int64_t>(sizeof(T));
  plan.block = std::clamp(kBlockBytes / row_bytes / kStep * kStep, kStep, kMostBlock);

  plan.left = steps_of(options.window.left);
  plan.right = options.causal ? 0 : steps_of(options.window.right);
  Extremes reach = place(in, plan, arrays);
  find_split_range(plan, arrays);
  if (!plan.k_position) {
    reach.low = std::max(reach.low, -plan.left);
    reach.high = std::max(reach.low, std::min(reach.high, plan.right));
  }

  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>(plan.D))) * terms.scale_factor;
  double inside = scale * kLog2e;
  if (options.softcap > 0) {
    inside = scale * 2 * kLog2e / options.softcap;
    plan.cap = static_cast<float>(options.softcap * kLog2e);
  }
  if (const auto& numbers = in.number_per_key) {
    plan.key_numbers = numbers.data;
    plan.key_numbers_batch = numbers.shape[0] == 1 ? 0 : numbers.stride[0];
    plan.key_numbers_head = numbers.shape[1] == 1 ? 0 : numbers.stride[1];
    plan.key_numbers_key = numbers.stride[2];
  }
  plan.hook = terms.hook.get();
  if (terms.number) plan.number = number_term(*terms.number, inside, kLog2e, reach);
  const auto factor = [&](bool scaled) { return scaled ? inside : kLog2e; };
  if (const auto& t = terms.query_rows) {
    DecodeRows& rows = plan.query_rows =
        rows_term(t->index, t->rows, t->scaled, factor(t->scaled), reach);
    rows.windowed = !plan.k_position && rows.map.step != 0 && rows.count > kMostProducts;
    rows.columns = rows.windowed ? kWindow : 0;
    rows.sides = arrays.take<float>(plan.B * plan.H * plan.Q * 2);
    if (!rows.windowed) rows.products = arrays.take<float>(plan.B * plan.H * plan.Q * rows.count);
  }
  if (const auto& t = terms.key_rows) {
    plan.key_rows = rows_term(t->index, t->rows, t->scaled, factor(t->scaled), reach);
    // With a softcap between them and the product they are added apart.
    if ((plan.cap == 0 || t->scaled) && inside != 0) plan.variants = 3;
  }
  if (const auto& t = terms.value_rows) {
    DecodeRows& rows = plan.value_rows = rows_term(t->index, t->rows, true, 1, reach);
    rows.windowed = !plan.k_position && rows.map.step != 0 && rows.count > kWindow;
    rows.columns = rows.windowed ? kWindow : round_up(rows.count, kStep);
  }
  queries(in, terms, inside, set.pairs && sizeof(T) == 2, lanes, plan, arrays);
  turn_keys(in, terms, plan, arrays, executor);

  const int64_t partials = plan.B * plan.Hk * plan.splits * plan.rows;
  plan.partial_out = arrays.take<float>(partials * plan.value_width);
  plan.partial_reference = arrays.take<float>(partials);
  plan.partial_sum = arrays.take<float>(partials);
  return plan;
}

template DecodePlan prepare_decode(const DecodeInputs<float>&, const Terms<float>&, const Options&,
                                   const DecodeSet&, Arrays&, Executor&);
template DecodePlan prepare_decode(const DecodeInputs<Bf16>&, const Terms<float>&, const Options&,
                                   const DecodeSet&, Arrays&, Executor&);

}  // namespace locant::attention
