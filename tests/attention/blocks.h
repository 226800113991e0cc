// Some queries and some keys of a call, with the positions they have there, as a call of its own;
// and attention block by block: forward and merge, then backward with the merged out and lse.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "locant/attention/merge.h"
#include "locant/position/registry.h"
#include "tests/attention/engines.h"
#include "tests/position/scheme_probe.h"

namespace locant::test {

using Tokens = std::vector<int64_t>;

inline Tokens all_tokens(int n) {
  Tokens all;
  for (int t = 0; t < n; ++t) all.push_back(t);
  return all;
}

// The call with its default positions, and the tokens' numbers that dropout asks for, written out.
template <class T>
Call<T> with_positions(Call<T> call) {
  const oracle::Shape& s = call.shape;
  if (call.q_tokens.empty()) call.q_tokens = all_tokens(s.q);
  if (call.k_tokens.empty()) call.k_tokens = all_tokens(s.k);
  if (!call.q_positions.empty() || s.b == 0) return call;
  for (int b = 0; b < s.b; ++b) {
    for (int i = 0; i < s.q; ++i) call.q_positions.push_back(std::max(0, s.k - s.q) + i);
    for (int j = 0; j < s.k; ++j) call.k_positions.push_back(j);
  }
  return call;
}

// Calls f(number in the part, number in the whole) for every number of the chosen tokens' rows.
template <class T, class F>
void each_row_number(const Call<T>& part, const Call<T>& whole, int heads, int part_n, int whole_n,
                     int width, const Tokens& tokens, F f) {
  // Offsets, by way of views on a pointer to nothing but an array of the right size.
  const std::vector<char> a(size_t(part.shape.b) * heads * part_n * width + 1),
      b(size_t(whole.shape.b) * heads * whole_n * width + 1);
  const auto from = part.rows(a.data(), heads, part_n, width);
  const auto to = whole.rows(b.data(), heads, whole_n, width);
  for (int n = 0; n < part.shape.b; ++n) {
    for (int h = 0; h < heads; ++h) {
      for (int t = 0; t < part_n; ++t) {
        for (int c = 0; c < width; ++c) {
          f(size_t(&from(n, h, t, c) - a.data()), size_t(&to(n, h, tokens[size_t(t)], c) - b.data()));
        }
      }
    }
  }
}

// Queries and keys of a call that has its positions written out, in the order given.
template <class T>
Call<T> selection(const Call<T>& whole, const Tokens& queries, const Tokens& keys) {
  Call<T> part = whole;
  oracle::Shape& s = part.shape;
  const oracle::Shape& w = whole.shape;
  s.q = int(queries.size()), s.k = int(keys.size());
  const auto rows = [&](const std::vector<T>& from, int heads, int n, int all, int width,
                        const Tokens& tokens) {
    std::vector<T> to(size_t(s.b) * heads * n * width);
    each_row_number(part, whole, heads, n, all, width, tokens,
                    [&](size_t a, size_t b) { to[a] = from[b]; });
    return to;
  };
  part.q = rows(whole.q, s.h, s.q, w.q, s.d, queries);
  part.out_gradient = rows(whole.out_gradient, s.h, s.q, w.q, s.dv, queries);
  part.k = rows(whole.k, s.hk, s.k, w.k, s.d, keys);
  part.v = rows(whole.v, s.hk, s.k, w.k, s.dv, keys);
  const auto columns = [](const auto& from, int64_t lists, int n, const Tokens& tokens) {
    std::remove_cvref_t<decltype(from)> to;
    for (int64_t list = 0; list < lists; ++list) {
      for (int64_t t : tokens) to.push_back(from[size_t(list * n + t)]);
    }
    return to;
  };
  part.q_positions = columns(whole.q_positions, s.b, w.q, queries);
  part.k_positions = columns(whole.k_positions, s.b, w.k, keys);
  part.q_tokens = columns(whole.q_tokens, 1, w.q, queries);
  part.k_tokens = columns(whole.k_tokens, 1, w.k, keys);
  part.key_numbers = columns(whole.key_numbers, whole.key_batches * whole.key_heads, w.k, keys);
  return part;
}

// Adds the gradients of a selection to those of the whole.
template <class T>
void add_gradients(const Call<T>& part, const Results<T>& from, const Call<T>& whole,
                   const Tokens& queries, const Tokens& keys, Results<T>& to) {
  const oracle::Shape &s = part.shape, &w = whole.shape;
  const auto rows = [&](const std::vector<T>& from, std::vector<T>& to, int heads, int n, int all,
                        int width, const Tokens& tokens) {
    each_row_number(part, whole, heads, n, all, width, tokens,
                    [&](size_t a, size_t b) { to[b] += from[a]; });
  };
  rows(from.dq, to.dq, s.h, s.q, w.q, s.d, queries);
  rows(from.dk, to.dk, s.hk, s.k, w.k, s.d, keys);
  rows(from.dv, to.dv, s.hk, s.k, w.k, s.dv, keys);
  for (int64_t list = 0; list < part.key_batches * part.key_heads; ++list) {
    for (int j = 0; j < s.k; ++j) {
      to.dkey[size_t(list * w.k + keys[size_t(j)])] += from.dkey[size_t(list * s.k + j)];
    }
  }
  each_table(
      [](const char*, auto& to, const auto& from) {
        for (size_t n = 0; n < to.size(); ++n) to[n] += from[n];
      },
      to.dterms, from.dterms);
}

// What merging starts from: a row that has seen nothing. What stands in `out` must not matter.
template <class T>
void nothing_seen(Results<T>& results) {
  std::fill(results.lse.begin(), results.lse.end(), -std::numeric_limits<T>::infinity());
  std::fill(results.out.begin(), results.out.end(), std::numeric_limits<T>::quiet_NaN());
}

// Forward and backward of the queries of `whole`, block of keys after block of keys.
template <class T>
Results<T> run_blocks(const Call<T>& whole, const std::vector<Tokens>& blocks, Executor& executor) {
  Results<T> total(whole);
  nothing_seen(total);
  attention::Workspace workspace;
  const Tokens queries = all_tokens(whole.shape.q);
  for (const Tokens& keys : blocks) {
    const Call<T> block = selection(whole, queries, keys);
    Results<T> one(block);
    attention::forward(block.inputs(), block.terms, block.run_options(), one.outputs(block), workspace,
                       executor);
    attention::merge(total.outputs(whole), read_only(one.outputs(block)), executor);
  }
  for (const Tokens& keys : blocks) {
    const Call<T> block = selection(whole, queries, keys);
    Results<T> one(block);
    attention::backward(block.inputs(), block.terms, block.run_options(), read_only(total.outputs(whole)),
                        block.out_gradient_view(), one.gradients(block), workspace, executor);
    add_gradients(block, one, whole, queries, keys, total);
  }
  return total;
}

// A call with the terms of a scheme of the registry for given sizes and options (call.shape, options
// and positions are kept), with random learned numbers, everything rounded to float.
inline Call<double> scheme_call(const std::string& specification, Call<double> call, uint64_t seed = 1) {
  call.term_bits = kNone;
  const auto options = call.options;
  const auto q_positions = call.q_positions, k_positions = call.k_positions;
  call = random_like(call, seed);
  call.options = options;
  call.q_positions = q_positions, call.k_positions = k_positions;
  const auto scheme = make_scheme(specification);
  const attention::Span span = attention::span_of(call.inputs(), call.options);
  locant::Call asked;
  asked.sizes.heads = call.shape.h;
  asked.sizes.head_size = call.shape.d;
  asked.sizes.value_size = call.shape.dv;
  asked.sizes.width = asked.sizes.heads * asked.sizes.head_size;
  asked.causal = call.options.causal;
  asked.first_distance = span.first_distance, asked.last_distance = span.last_distance;
  asked.length = span.length;
  oracle::Rng rng(seed + 77);
  const probe::Store store(*scheme, asked.sizes, [&](const ParameterSpec& spec) {
    return spec.init == ParameterSpec::Init::kUniform ? rng.uniform(spec.low, spec.high)
                                                      : 0.5 * rng.normal();
  });
  call.terms = lower(*scheme, asked, store.views());
  return rounded(call);
}

// The registry's schemes and the forms of them that lower to other terms.
inline std::vector<std::string> specifications() {
  std::vector<std::string> all = scheme_names();
  for (const char* more : {"shaw(outside=zero)", "shaw(times_key=yes)", "rope(scaling=yarn,factor=4,original=64)"}) {
    all.push_back(more);
  }
  return all;
}

}  // namespace locant::test
