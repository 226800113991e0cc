// See call.h.
#include "tests/attention/call.h"

#include <algorithm>

#include "locant/attention/problem.h"
#include "locant/attention/reference.h"
#include "tests/attention/plain_bf16.h"
#include "tests/attention/sized.h"

namespace locant::test {

// The facts of a call do not depend on the number type: only on shapes, positions and options.
template <class T>
attention::Problem problem_of(const Call<T>& call) {
  const attention::Inputs<T> inputs = call.inputs();
  attention::Inputs<double> shapes;
  shapes.q.shape = inputs.q.shape, shapes.k.shape = inputs.k.shape, shapes.v.shape = inputs.v.shape;
  shapes.q_positions = inputs.q_positions, shapes.k_positions = inputs.k_positions;
  shapes.cu_seqlens_q = inputs.cu_seqlens_q, shapes.cu_seqlens_k = inputs.cu_seqlens_k;
  Terms<double> factor;
  factor.scale_factor = call.terms.scale_factor;
  return attention::resolve(shapes, factor, call.run_options());
}

template <class T>
Results<T> run_twin(const Call<T>& call, bool with_gradients) {
  Results<T> results(call);
  const attention::Inputs<T> inputs = call.inputs();
  const attention::Problem problem = problem_of(call);
  attention::reference::Twin<T> twin(inputs, call.terms, problem);
  twin.forward(results.outputs(call));
  if constexpr (std::is_same_v<T, Plain>) {
    for (Plain& x : results.lse) x.value = x.exact;
  }
  if (with_gradients) {
    twin.backward(read_only(results.outputs(call)), call.out_gradient_view(),
                  results.gradients(call));
  }
  return results;
}

template <class T>
Results<T> run_public(const Call<T>& call, Executor& executor) {
  Results<T> results(call);
  attention::Workspace workspace;
  attention::forward(call.inputs(), call.terms, call.run_options(), results.outputs(call), workspace,
                     executor);
  attention::backward(call.inputs(), call.terms, call.run_options(), read_only(results.outputs(call)),
                      call.out_gradient_view(), results.gradients(call), workspace, executor);
  return results;
}

template Results<float> run_twin(const Call<float>&, bool);
template Results<double> run_twin(const Call<double>&, bool);
template Results<std::complex<double>> run_twin(const Call<std::complex<double>>&, bool);
template Results<Sized> run_twin(const Call<Sized>&, bool);
template Results<Plain> run_twin(const Call<Plain>&, bool);
template Results<float> run_public(const Call<float>&, Executor&);
template Results<double> run_public(const Call<double>&, Executor&);

// --- random calls -------------------------------------------------------------------------------

namespace {

// Any form an index map can take: one row a distance, clipped, zero outside, buckets, with holes.
IndexMap random_index(oracle::Rng& rng, int64_t first, int64_t last, int* rows) {
  IndexMap map;
  const int kind = rng.integer(0, 4);
  if (kind == 0 && last - first < 200) {  // one row for every distance of the call
    map.first = first;
    for (int64_t d = first; d <= last; ++d) map.rows.push_back(static_cast<int32_t>(d - first));
    *rows = static_cast<int>(map.rows.size());
    return map;
  }
  const int left = rng.integer(0, 9), right = rng.integer(0, 9);
  map.first = -left;
  *rows = left + right + 1;
  for (int n = 0; n < *rows; ++n) map.rows.push_back(n);
  if (kind == 2) return map;  // zero outside
  map.before = 0, map.after = *rows - 1;
  if (kind >= 3) {  // buckets in any order; kind 4 also with distances that add nothing
    *rows = rng.integer(1, 6);
    for (int32_t& row : map.rows) row = rng.integer(kind == 4 ? -1 : 0, *rows - 1);
    map.before = rng.integer(-1, *rows - 1), map.after = rng.integer(-1, *rows - 1);
  }
  return map;
}

Table<double> random_table(oracle::Rng& rng, int heads, int rows, int width, double scale) {
  Table<double> table(rng.chance(0.5) ? 1 : heads, rows, width);
  for (double& x : table.data) x = scale * rng.normal();
  return table;
}

Terms<double> random_terms(oracle::Rng& rng, const oracle::Shape& s, unsigned bits,
                           const attention::Span& span, int64_t center) {
  Terms<double> terms;
  const bool far = s.kind == oracle::PositionKind::kFarApart;
  const int64_t first = span.first_distance, last = span.last_distance;
  int rows = 0;
  if (bits & kNumber) {
    terms.number.emplace();
    terms.number->scaled = rng.chance(0.5);
    if (rng.chance(0.2)) {  // a linear penalty and nothing else
      terms.number->index.rows = {0};
      terms.number->table = random_table(rng, s.h, 1, 1, 0);
    } else {
      terms.number->index = random_index(rng, first, last, &rows);
      terms.number->table = random_table(rng, s.h, rows, 1, 1);
    }
    const double steep = far ? 1e-6 : 0.1;
    for (auto* side : {&terms.number->left, &terms.number->right}) {
      if (rng.chance(0.5)) *side = oracle::random_numbers(rng, terms.number->table.heads, steep);
    }
  }
  if (bits & kQueryRows) {
    const IndexMap index = random_index(rng, first, last, &rows);
    terms.query_rows = {rng.chance(0.7), index, random_table(rng, s.h, rows, s.d, 0.5)};
  }
  if (bits & kKeyRows) {
    const IndexMap index = random_index(rng, first, last, &rows);
    terms.key_rows = {rng.chance(0.7), index, random_table(rng, s.h, rows, s.d, 0.5)};
  }
  if (bits & kValueRows) {
    const IndexMap index = random_index(rng, first, last, &rows);
    terms.value_rows = {index, random_table(rng, s.h, rows, s.dv, 0.5)};
  }
  if (bits & kContentBias) terms.content_bias = random_table(rng, s.h, 1, s.d, 0.7);
  if (bits & kRotation) {
    Rotation r;
    r.layout = rng.chance(0.5) ? Rotation::Layout::kInterleaved : Rotation::Layout::kHalfSplit;
    r.width = rng.chance(0.6) ? s.d / 2 * 2 : rng.integer(0, s.d / 2) * 2;
    for (int64_t t = 0; t < r.width / 2; ++t) {
      r.frequency.push_back(
          std::pow(100.0, -2.0 * static_cast<double>(t) / static_cast<double>(r.width)));
    }
    if (rng.chance(0.4)) r.magnitude = rng.uniform(0.7, 1.4);
    if (rng.chance(0.4)) {
      r.center = center;
      double farthest = 50;  // from the center; factors stay between e^-1 and e
      for (const auto* lists : {&s.query_positions, &s.key_positions}) {
        for (const oracle::Positions& list : *lists) {
          for (int64_t p : list) farthest = std::max(farthest, std::fabs(double(p - center)));
        }
      }
      for (int64_t t = 0; t < r.width / 2; ++t)
        r.log_growth.push_back(rng.uniform(-1, 1) / farthest);
    }
    terms.rotation = r;
  }
  if (rng.chance(0.3)) terms.scale_factor = rng.uniform(0.5, 1);
  return terms;
}

}  // namespace

Call<double> random_call(uint64_t seed, unsigned bits, const oracle::ShapeLimits& limits) {
  Call<double> call;
  call.shape = oracle::random_shape(seed, limits);
  call.term_bits = bits;
  const oracle::Shape& s = call.shape;
  oracle::Rng rng(seed ^ (uint64_t{bits} << 32) ^ 0xA77E);
  call.tokens_first = rng.chance(0.4);
  call.options.causal = s.causal;
  call.options.window = {s.window_left, s.window_right};
  call.options.softcap = s.softcap;
  if (s.scale > 0) call.options.scale = s.scale;
  call.q = oracle::random_numbers(rng, s.b * s.h * s.q * s.d);
  call.k = oracle::random_numbers(rng, s.b * s.hk * s.k * s.d);
  call.v = oracle::random_numbers(rng, s.b * s.hk * s.k * s.dv);
  call.out_gradient = oracle::random_numbers(rng, s.b * s.h * s.q * s.dv);
  for (const auto& row : s.query_positions)
    call.q_positions.insert(call.q_positions.end(), row.begin(), row.end());
  for (const auto& row : s.key_positions)
    call.k_positions.insert(call.k_positions.end(), row.begin(), row.end());
  const int64_t center = call.k_positions.empty() ? s.k / 2 : call.k_positions[0];
  call.terms = random_terms(rng, s, bits, attention::span_of(call.inputs(), call.options), center);
  if (bits & kDropout) {
    attention::Dropout& dropout = call.options.dropout;
    dropout.rate = rng.uniform(0.05, 0.7);
    dropout.seed = uint64_t(rng.integer(0, 1 << 30)) << rng.integer(0, 33);
    dropout.first_batch = rng.chance(0.3) ? rng.integer(1, 99) : 0;
    dropout.first_head = rng.chance(0.3) ? rng.integer(1, 99) : 0;
    if (rng.chance(0.3)) {
      for (int i = 0; i < s.q; ++i) call.q_tokens.push_back(rng.integer(0, 2000000000));
    }
    if (rng.chance(0.3)) {
      for (int j = 0; j < s.k; ++j) call.k_tokens.push_back(rng.integer(0, 2000000000));
    }
  }
  if (s.key_numbers) {
    call.key_batches = rng.chance(0.5) ? 1 : s.b;
    call.key_heads = rng.chance(0.7) ? 1 : s.h;
    for (int64_t n = 0; n < call.key_batches * call.key_heads; ++n) {
      const auto numbers = oracle::random_key_numbers(rng, s.k);
      call.key_numbers.insert(call.key_numbers.end(), numbers.begin(), numbers.end());
    }
    if (call.key_heads == 1) {  // a padded key may hold anything
      const double nan = std::numeric_limits<double>::quiet_NaN();
      for (int b = 0; b < s.b; ++b) {
        for (int j = 0; j < s.k; ++j) {
          const double number = call.key_numbers[size_t((call.key_batches == 1 ? 0 : b) * s.k + j)];
          if (!std::isinf(number)) continue;
          for (int h = 0; h < s.hk; ++h) {
            call.rows(call.k.data(), s.hk, s.k, s.d)(b, h, j, rng.integer(0, s.d - 1)) = nan;
            call.rows(call.v.data(), s.hk, s.k, s.dv)(b, h, j, rng.integer(0, s.dv - 1)) = nan;
          }
        }
      }
    }
  }
  return call;
}

Call<double> random_packed(uint64_t seed, unsigned terms, const oracle::ShapeLimits& limits,
                           int count) {
  oracle::ShapeLimits one = limits;
  one.batch = 1;
  Call<double> call = random_call(seed, terms, one);
  oracle::Rng rng(seed ^ 0xBADC);
  const auto cuts = [&](int total) {
    std::vector<int64_t> starts{0, total};
    for (int n = 1; n < count; ++n) starts.push_back(rng.integer(0, total));
    std::sort(starts.begin(), starts.end());
    return starts;
  };
  call.q_starts = cuts(call.shape.q), call.k_starts = cuts(call.shape.k);
  return cast_call<double>(cast_call<float>(call));
}

// A call of the given shape, term bits and options with fresh numbers; default positions unless the
// shape has some, no numbers per key, rows in [B, H, L, D].
Call<double> random_like(const Call<double>& like, uint64_t seed) {
  Call<double> call;
  call.shape = like.shape;
  call.term_bits = like.term_bits;
  call.options = like.options;
  oracle::Shape& s = call.shape;
  s.kind = oracle::PositionKind::kDefault;
  s.query_positions.clear(), s.key_positions.clear();
  oracle::Rng rng(seed);
  call.q = oracle::random_numbers(rng, s.b * s.h * s.q * s.d);
  call.k = oracle::random_numbers(rng, s.b * s.hk * s.k * s.d);
  call.v = oracle::random_numbers(rng, s.b * s.hk * s.k * s.dv);
  call.out_gradient = oracle::random_numbers(rng, s.b * s.h * s.q * s.dv);
  call.terms = random_terms(rng, s, call.term_bits, attention::span_of(call.inputs(), {}), s.k / 2);
  return call;
}

Call<double> random_call_of_many_rows(uint64_t seed, unsigned more_terms) {
  Call<double> call;
  call.shape.q = call.shape.k = 135;
  call.shape.d = 6, call.shape.dv = 3;
  call.term_bits = more_terms;
  call = random_like(call, seed);
  const int step = 64;
  for (int t = 0; t < call.shape.k; ++t) call.k_positions.push_back(t * step);
  call.q_positions = call.k_positions;
  IndexMap index;
  index.first = -step * call.shape.k;
  for (int32_t n = 0; n < 2 * step * call.shape.k; ++n) index.rows.push_back(n);
  oracle::Rng rng(seed);
  const int rows = static_cast<int>(index.rows.size());
  call.terms.query_rows = {true, index, random_table(rng, 1, rows, call.shape.d, 0.5)};
  call.terms.key_rows = {true, index, random_table(rng, 1, rows, call.shape.d, 0.5)};
  return call;
}

Call<double> random_call_of_far_rows(const Call<double>& like, int reach) {
  Call<double> call = random_like(like, static_cast<uint64_t>(reach));
  const oracle::Shape& s = call.shape;
  IndexMap index;
  index.first = -reach;
  for (int32_t n = 0; n <= 2 * reach; ++n) index.rows.push_back(n);
  index.before = 0, index.after = 2 * reach;
  oracle::Rng rng(static_cast<uint64_t>(s.q));
  const int rows = 2 * reach + 1;
  call.terms.query_rows = {true, index, random_table(rng, 1, rows, s.d, 0.5)};
  call.terms.key_rows = {true, index, random_table(rng, s.h, rows, s.d, 0.5)};
  call.terms.value_rows = {index, random_table(rng, 1, rows, s.dv, 0.5)};
  return call;
}

// Appends from[begin, begin + count).
void append(std::vector<double>& to, const std::vector<double>& from, int64_t begin,
            int64_t count) {
  for (int64_t n = begin; n < begin + count; ++n) to.push_back(from[size_t(n)]);
}

// Queries [begin, begin + count) and the first `keys` keys of a call of default positions in
// [B, H, L, D]; the part has default positions too, right when its queries are the last of its
// keys.
Call<double> part(const Call<double>& call, int begin, int count, int keys) {
  Call<double> p = call;
  p.shape.q = count, p.shape.k = keys;
  const auto rows = [&](const std::vector<double>& from, int heads, int n, int first, int rows,
                        int width) {
    std::vector<double> to;
    for (int bh = 0; bh < call.shape.b * heads; ++bh)
      append(to, from, (bh * n + first) * width, rows * width);
    return to;
  };
  const oracle::Shape& s = call.shape;
  p.q = rows(call.q, s.h, s.q, begin, count, s.d);
  p.out_gradient = rows(call.out_gradient, s.h, s.q, begin, count, s.dv);
  p.k = rows(call.k, s.hk, s.k, 0, keys, s.d);
  p.v = rows(call.v, s.hk, s.k, 0, keys, s.dv);
  return p;
}

}  // namespace locant::test
