// Seeded random attention calls with any mix of terms, in any number type, and ways to run them: by
// the twin and by the public functions. The same seed gives the same call on every machine.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "locant/attention/attention.h"
#include "tests/oracle/random.h"
#include "tests/oracle/shapes.h"

namespace locant::test {

// Which terms a call has; combined with |.
enum TermBits : unsigned {
  kNone = 0,
  kNumber = 1,
  kQueryRows = 2,
  kKeyRows = 4,
  kValueRows = 8,
  kContentBias = 16,
  kRotation = 32,
  kAllTerms = 63,
  kDropout = 256,  // no term, and not among them: masks depend on places, not on positions
};
inline constexpr unsigned kSingleTerms[] = {kNone,      kNumber,      kQueryRows, kKeyRows,
                                            kValueRows, kContentBias, kRotation};

inline std::string terms_text(unsigned terms) {
  const char* names[] = {"number",     "query rows",   "key rows",
                         "value rows", "content bias", "rotation"};
  std::string text;
  for (int n = 0; n < 6; ++n) {
    if (terms >> n & 1) text += (text.empty() ? "" : " + ") + std::string(names[n]);
  }
  if (terms & kDropout) text += text.empty() ? "dropout" : " + dropout";
  return text.empty() ? "no terms" : text;
}

template <class T>
struct Call {
  oracle::Shape shape;
  unsigned term_bits = kNone;
  bool tokens_first = false;  // memory order [B, L, H, D] and not [B, H, L, D]
  attention::Options options;
  int64_t key_batches = 0, key_heads = 0;  // of the numbers per key; 0: none
  std::vector<T> q, k, v, key_numbers, out_gradient;
  std::vector<int64_t> q_positions, k_positions;  // [B][L], empty: default
  std::vector<int64_t> q_tokens, k_tokens;        // [L], of dropout, empty: default
  std::vector<int64_t> q_starts, k_starts;        // cu_seqlens, empty: not packed
  Terms<T> terms;

  std::string text() const {
    return shape.text() + (tokens_first ? " [B,L,H,D], " : " [B,H,L,D], ") + terms_text(term_bits);
  }

  template <class U>
  View<U, 4> rows(U* data, int64_t heads, int64_t n, int64_t width) const {
    const std::array<int64_t, 4> extents{shape.b, heads, n, width};
    if (!tokens_first) return {data, extents};
    return {data, extents, {n * heads * width, width, heads * width, 1}};
  }
  View<const T, 4> q_view() const { return rows(q.data(), shape.h, shape.q, shape.d); }
  View<const T, 4> k_view() const { return rows(k.data(), shape.hk, shape.k, shape.d); }
  View<const T, 4> v_view() const { return rows(v.data(), shape.hk, shape.k, shape.dv); }
  View<const T, 4> out_gradient_view() const {
    return rows(out_gradient.data(), shape.h, shape.q, shape.dv);
  }

  attention::Inputs<T> inputs() const {
    attention::Inputs<T> in;
    in.q = q_view();
    in.k = k_view();
    in.v = v_view();
    if (key_batches) in.number_per_key = {key_numbers.data(), {key_batches, key_heads, shape.k}};
    if (!q_positions.empty()) {
      in.q_positions = {q_positions.data(), {shape.b, shape.q}};
      in.k_positions = {k_positions.data(), {shape.b, shape.k}};
    }
    if (!q_starts.empty()) {
      in.cu_seqlens_q = {q_starts.data(), {int64_t(q_starts.size())}};
      in.cu_seqlens_k = {k_starts.data(), {int64_t(k_starts.size())}};
    }
    return in;
  }
  // The options with the views of what the call owns.
  attention::Options run_options() const {
    attention::Options with = options;
    if (!q_tokens.empty()) with.dropout.q_tokens = {q_tokens.data(), {int64_t(q_tokens.size())}};
    if (!k_tokens.empty()) with.dropout.k_tokens = {k_tokens.data(), {int64_t(k_tokens.size())}};
    return with;
  }
};

template <class To, class From>
Call<To> cast_call(const Call<From>& from) {
  const auto convert = [](const std::vector<From>& x) {
    return std::vector<To>(x.begin(), x.end());
  };
  return {from.shape,
          from.term_bits,
          from.tokens_first,
          from.options,
          from.key_batches,
          from.key_heads,
          convert(from.q),
          convert(from.k),
          convert(from.v),
          convert(from.key_numbers),
          convert(from.out_gradient),
          from.q_positions,
          from.k_positions,
          from.q_tokens,
          from.k_tokens,
          from.q_starts,
          from.k_starts,
          cast<To>(from.terms)};
}

// n of the tolerance (tests/oracle/tolerance.h) for an element behind which sums of so many numbers
// stand: over keys, over queries, over channels. Roundings have either sign, so that those of a sum
// of n numbers grow as its root (Higham and Mary 2019), and the worst case would hide small
// mistakes.
inline int64_t sum_length(const oracle::Shape& s) {
  return static_cast<int64_t>(std::ceil(std::sqrt(double(s.k + s.q + s.d))));
}

// What a call gives: outputs, and the gradients of sum(out * out_gradient).
template <class T>
struct Results {
  std::vector<T> out, lse, dq, dk, dv, dkey;
  Terms<T> dterms;

  explicit Results(const Call<T>& call)
      : out(call.out_gradient.size(), T(0)),
        lse(size_t(call.shape.b) * call.shape.h * call.shape.q, T(0)),
        dq(call.q.size(), T(0)),
        dk(call.k.size(), T(0)),
        dv(call.v.size(), T(0)),
        dkey(call.key_numbers.size(), T(0)),
        dterms(zeros_like(call.terms)) {}

  attention::Outputs<T> outputs(const Call<T>& call) {
    return {call.rows(out.data(), call.shape.h, call.shape.q, call.shape.dv),
            {lse.data(), {call.shape.b, call.shape.h, call.shape.q}}};
  }
  attention::Gradients<T> gradients(const Call<T>& call) {
    attention::Gradients<T> g;
    g.q = call.rows(dq.data(), call.shape.h, call.shape.q, call.shape.d);
    g.k = call.rows(dk.data(), call.shape.hk, call.shape.k, call.shape.d);
    g.v = call.rows(dv.data(), call.shape.hk, call.shape.k, call.shape.dv);
    if (call.key_batches) {
      g.number_per_key = {dkey.data(), {call.key_batches, call.key_heads, call.shape.k}};
    }
    g.terms = &dterms;
    return g;
  }
};

template <class T>
attention::Outputs<const T> read_only(const attention::Outputs<T>& outputs) {
  return {outputs.out, outputs.lse};
}

// Forward, and backward if wanted. T: float, double, std::complex<double>, Sized (sized.h), Plain
// (plain_bf16.h).
template <class T>
Results<T> run_twin(const Call<T>& call, bool with_gradients = true);
// The public forward and backward. T: float, double.
template <class T>
Results<T> run_public(const Call<T>& call, Executor& executor);

// f(name, member of a, member of b, ...) for every learned array of two or more like structures.
template <class F, class T, class... Others>
void each_table(F f, T& terms, Others&... others) {
  if (terms.number) f("number", terms.number->table.data, others.number->table.data...);
  if (terms.number && !terms.number->left.empty())
    f("left", terms.number->left, others.number->left...);
  if (terms.number && !terms.number->right.empty())
    f("right", terms.number->right, others.number->right...);
  if (terms.query_rows)
    f("query rows", terms.query_rows->rows.data, others.query_rows->rows.data...);
  if (terms.key_rows) f("key rows", terms.key_rows->rows.data, others.key_rows->rows.data...);
  if (terms.value_rows)
    f("value rows", terms.value_rows->rows.data, others.value_rows->rows.data...);
  if (terms.content_bias) f("content bias", terms.content_bias->data, others.content_bias->data...);
  if (!terms.hook_gradient.empty()) f("hook", terms.hook_gradient, others.hook_gradient...);
}

// The same for everything a call reads against everything it has gradients of, or two Results.
template <class F, class T, class U>
void each_gradient(F f, Call<T>& call, Results<U>& results) {
  f("q", call.q, results.dq);
  f("k", call.k, results.dk);
  f("v", call.v, results.dv);
  if (call.key_batches) f("number per key", call.key_numbers, results.dkey);
  each_table(f, call.terms, results.dterms);
}
template <class F, class T, class... Others>
void each_result(F f, const Results<T>& results, const Others&... others) {
  f("out", results.out, others.out...);
  f("lse", results.lse, others.lse...);
  f("dq", results.dq, others.dq...);
  f("dk", results.dk, others.dk...);
  f("dv", results.dv, others.dv...);
  f("d number per key", results.dkey, others.dkey...);
  each_table(f, results.dterms, others.dterms...);
}

// --- random calls -------------------------------------------------------------------------------

Call<double> random_call(uint64_t seed, unsigned term_bits, const oracle::ShapeLimits& limits = {});

// A call of one sequence, its queries and its keys cut into `count` packed ones; some are empty.
Call<double> random_packed(uint64_t seed, unsigned term_bits, const oracle::ShapeLimits& limits,
                           int count);

// A call of the given shape, term bits and options with fresh numbers; default positions, no
// numbers per key, rows in [B, H, L, D].
Call<double> random_like(const Call<double>& like, uint64_t seed = 1);

// Rows for queries and keys that are too many to be multiplied in advance, over three tiles.
Call<double> random_call_of_many_rows(uint64_t seed, unsigned more_terms);

// `like` with rows for queries, keys and values: one a distance up to `reach`, the last ones beyond.
Call<double> random_call_of_far_rows(const Call<double>& like, int reach);

// Queries [begin, begin + count) and the first `keys` keys of a call of default positions in
// [B, H, L, D]; the part has default positions too, right when its queries are the last of its
// keys.
Call<double> part(const Call<double>& call, int begin, int count, int keys);

// Appends from[begin, begin + count).
void append(std::vector<double>& to, const std::vector<double>& from, int64_t begin, int64_t count);

}  // namespace locant::test
