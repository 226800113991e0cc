// A case made real: seeded random numbers for q, k, v and the gradient of the output, the terms of its
// scheme, its options, and room for every result. The plain case runs on the same arrays.
#pragma once

#include <memory>
#include <vector>

#include "locant/attention/attention.h"
#include "locant/measure/case.h"

namespace locant::measure {

// [B, heads, tokens, width], or packed [1, heads, B tokens, width].
template <class U>
View<U, 4> rows(const Case& c, U* data, int64_t heads, int64_t tokens, int64_t width) {
  if (c.packed) return {data, {1, heads, c.b * tokens, width}};
  return {data, {c.b, heads, tokens, width}};
}

// What a call reads. T: float, Bf16, or the numbers of the oracle.
template <class T>
struct Arrays {
  explicit Arrays(const Case& c) : shape(c) {}

  Case shape;
  std::vector<T> q, k, v, out_gradient;  // rows of H, Hk, Hk, H heads
  std::vector<int64_t> q_starts, k_starts;  // of packed sequences
  Terms<Real<T>> terms, none;

  attention::Inputs<T> inputs() const;
  attention::Options options(bool plain) const;
};

// What a call writes: outputs, and for cases with a backward pass the gradients.
template <class T>
struct Results {
  explicit Results(const Arrays<T>& arrays);

  Case shape;
  std::vector<T> out, dq, dk, dv;
  std::vector<Real<T>> lse;
  Terms<Real<T>> dterms;

  attention::Outputs<T> outputs();
  attention::Gradients<T> gradients(bool plain);
  void take(const std::vector<double>& out, const std::vector<double>& lse);
};

// The same numbers on every machine. Throws std::invalid_argument where the scheme refuses the case.
// T: float, Bf16.
template <class T>
Arrays<T> make_arrays(const Case& c);

inline float widened(float x) { return x; }
inline float widened(Bf16 x) { return to_float(x); }

template <class T>
std::vector<double> doubles(const std::vector<T>& from) {
  std::vector<double> to;
  to.reserve(from.size());
  for (const T& x : from) to.push_back(widened(x));
  return to;
}

template <class To, class From>
Arrays<To> cast_arrays(const Arrays<From>& from) {
  const auto convert = [](const std::vector<From>& x) {
    std::vector<To> y;
    y.reserve(x.size());
    for (const From& one : x) y.push_back(To(widened(one)));
    return y;
  };
  Arrays<To> to(from.shape);
  to.q = convert(from.q), to.k = convert(from.k), to.v = convert(from.v);
  to.out_gradient = convert(from.out_gradient);
  to.q_starts = from.q_starts, to.k_starts = from.k_starts;
  to.terms = cast<To>(from.terms);
  return to;
}

// One call. `direction` may be less than the case has; a backward pass needs a forward one before it.
// T: float, Bf16.
enum class Direction { kForward, kBackward, kBoth };
template <class T>
void run(const Arrays<T>& arrays, Results<T>& results, Direction direction, bool plain,
         attention::Workspace& workspace, Executor& executor);

// The same for any case, with its number type inside; decode cases fill their cache when they are made.
class Runnable {
 public:
  virtual ~Runnable() = default;
  virtual void run(Direction direction, bool plain, attention::Workspace& workspace, Executor& executor) = 0;
  virtual std::vector<double> out() const = 0;  // of the last run
  virtual std::vector<double> lse() const = 0;
};
// Bytes that a case takes at least: its arguments and results (decode: and the cache), and with `check` the
// same once more as the oracle keeps them. A double: sizes may be absurd.
double bytes_needed(const Case& c, bool check = false);

std::unique_ptr<Runnable> make_runnable(const Case& c);

// f(name, array of each) for every array that the case writes.
template <class F, class T, class... Others>
void each_result(F f, Results<T>& a, Others&... others) {
  f("out", a.out, others.out...);
  f("lse", a.lse, others.lse...);
  if (!a.shape.backward) return;
  f("q gradient", a.dq, others.dq...);
  f("k gradient", a.dk, others.dk...);
  f("v gradient", a.dv, others.dv...);
  auto& t = a.dterms;
  if (t.number) {
    f("gradient of the numbers", t.number->table.data, others.dterms.number->table.data...);
    f("gradient of the left slopes", t.number->left, others.dterms.number->left...);
    f("gradient of the right slopes", t.number->right, others.dterms.number->right...);
  }
  if (t.query_rows) f("gradient of the query rows", t.query_rows->rows.data, others.dterms.query_rows->rows.data...);
  if (t.key_rows) f("gradient of the key rows", t.key_rows->rows.data, others.dterms.key_rows->rows.data...);
  if (t.value_rows) f("gradient of the value rows", t.value_rows->rows.data, others.dterms.value_rows->rows.data...);
  if (!t.hook_gradient.empty()) f("gradient of the hook", t.hook_gradient, others.dterms.hook_gradient...);
  if (t.content_bias) f("gradient of the content bias", t.content_bias->data, others.dterms.content_bias->data...);
}

}  // namespace locant::measure
