#include "locant/measure/arrays.h"

#include <algorithm>
#include <new>
#include <numeric>

#include "locant/attention/scheme_call.h"
#include "locant/attention/decode.h"
#include "locant/base/check.h"
#include "locant/base/random.h"
#include "locant/measure/penalty_hook.h"
#include "locant/measure/plain_bf16.h"
#include "locant/measure/sized.h"
#include "locant/position/registry.h"

namespace locant::measure {
namespace {

void assign(float& to, double x) { to = float(x); }
void assign(Bf16& to, double x) { to = to_bf16(float(x)); }

template <class T>
void assign(T& to, double x) {
  to = T(x);
}

// Normal numbers; a long array repeats a stretch of them whose length is prime to every size.
template <class T>
std::vector<T> random_numbers(Random& random, int64_t count) {
  constexpr int64_t kStretch = 1'000'003;
  std::vector<T> x(static_cast<size_t>(count));
  for (int64_t n = 0; n < std::min(count, kStretch); ++n) assign(x[size_t(n)], random.normal());
  for (int64_t n = kStretch; n < count; ++n) x[size_t(n)] = x[size_t(n - kStretch)];
  return x;
}

template <class T>
Terms<double> make_terms(const Arrays<T>& arrays, Random& random) {
  const Case& c = arrays.shape;
  const auto scheme = make_scheme(c.scheme);
  Sizes sizes;
  sizes.width = c.h * c.d;
  const locant::Call call = attention::call_of(arrays.inputs(), arrays.options(false), sizes);
  const std::vector<ParameterSpec> specs = scheme->learn(call.sizes);
  std::vector<std::vector<double>> learned;
  for (const ParameterSpec& spec : specs) {
    learned.emplace_back(static_cast<size_t>(spec.size()));
    for (double& x : learned.back()) x = 0.1 * random.normal();
  }
  Parameters parameters;
  for (size_t n = 0; n < specs.size(); ++n) parameters.add(specs[n].name, learned[n].data());
  Terms<double> terms = lower(*scheme, call, parameters);
  if (c.hook) {
    if (terms.hook) fail("bench", c.scheme, " has a tile hook of its own; measure it without the word hook");
    std::vector<double> slopes;
    for (int64_t h = 0; h < c.h; ++h) slopes.push_back(-0.1 / double(h + 1));
    terms.hook = std::make_shared<PenaltyHook>(std::move(slopes));
  }
  return terms;
}

}  // namespace

template <class T>
attention::Inputs<T> Arrays<T>::inputs() const {
  const Case& c = shape;
  attention::Inputs<T> in;
  in.q = rows(c, q.data(), c.h, c.q, c.d);
  in.k = rows(c, k.data(), c.g, c.k, c.d);
  in.v = rows(c, v.data(), c.g, c.k, c.v);
  if (c.packed) {
    in.cu_seqlens_q = {q_starts.data(), {c.b + 1}};
    in.cu_seqlens_k = {k_starts.data(), {c.b + 1}};
  }
  return in;
}

template <class T>
attention::Options Arrays<T>::options(bool plain) const {
  attention::Options options;
  options.causal = shape.causal;
  if (shape.window) options.window = {shape.window - 1, 0};
  if (plain) return options;
  options.softcap = shape.softcap;
  options.dropout.rate = shape.dropout;
  options.dropout.seed = 1;
  return options;
}

template <class T>
Results<T>::Results(const Arrays<T>& arrays)
    : shape(arrays.shape), out(size_t(shape.b * shape.h * shape.q * shape.v)),
      lse(size_t(shape.b * shape.h * shape.q)) {
  if (!shape.backward) return;
  dq.resize(arrays.q.size()), dk.resize(arrays.k.size()), dv.resize(arrays.v.size());
  dterms = zeros_like(arrays.terms);
}

template <class T>
attention::Outputs<T> Results<T>::outputs() {
  const View<T, 4> to = rows(shape, out.data(), shape.h, shape.q, shape.v);
  return {to, {lse.data(), {to.shape[0], to.shape[1], to.shape[2]}}};
}

template <class T>
attention::Gradients<T> Results<T>::gradients(bool plain) {
  attention::Gradients<T> g;
  g.q = rows(shape, dq.data(), shape.h, shape.q, shape.d);
  g.k = rows(shape, dk.data(), shape.g, shape.k, shape.d);
  g.v = rows(shape, dv.data(), shape.g, shape.k, shape.v);
  if (!plain) g.terms = &dterms;
  return g;
}

template <class T>
void Results<T>::take(const std::vector<double>& out, const std::vector<double>& lse) {
  for (size_t n = 0; n < out.size(); ++n) assign(this->out[n], out[n]);
  for (size_t n = 0; n < lse.size(); ++n) assign(this->lse[n], lse[n]);
}

template struct Arrays<float>;
template struct Arrays<Bf16>;
template struct Arrays<Sized>;
template struct Arrays<PlainBf16>;
template struct Results<float>;
template struct Results<Bf16>;
template struct Results<Sized>;
template struct Results<PlainBf16>;

template <class T>
Arrays<T> make_arrays(const Case& c) {
  Arrays<T> arrays(c);
  Random random(1);
  arrays.q = random_numbers<T>(random, c.b * c.h * c.q * c.d);
  arrays.k = random_numbers<T>(random, c.b * c.g * c.k * c.d);
  arrays.v = random_numbers<T>(random, c.b * c.g * c.k * c.v);
  if (c.backward) arrays.out_gradient = random_numbers<T>(random, c.b * c.h * c.q * c.v);
  for (int64_t s = 0; c.packed && s <= c.b; ++s) {
    arrays.q_starts.push_back(s * c.q);
    arrays.k_starts.push_back(s * c.k);
  }
  arrays.terms = cast<float>(make_terms(arrays, random));
  return arrays;
}

template <class T>
void run(const Arrays<T>& arrays, Results<T>& results, Direction direction, bool plain,
         attention::Workspace& workspace, Executor& executor) {
  const attention::Inputs<T> in = arrays.inputs();
  const attention::Outputs<T> outputs = results.outputs();
  const Terms<Real<T>>& terms = plain ? arrays.none : arrays.terms;
  const attention::Options options = arrays.options(plain);
  if (direction != Direction::kBackward) attention::forward(in, terms, options, outputs, workspace, executor);
  if (direction == Direction::kForward) return;
  attention::backward<T>(in, terms, options, {outputs.out, outputs.lse},
                             {arrays.out_gradient.data(), outputs.out.shape}, results.gradients(plain), workspace,
                             executor);
}

template Arrays<float> make_arrays(const Case&);
template Arrays<Bf16> make_arrays(const Case&);
template void run(const Arrays<float>&, Results<float>&, Direction, bool, attention::Workspace&, Executor&);
template void run(const Arrays<Bf16>&, Results<Bf16>&, Direction, bool, attention::Workspace&, Executor&);

namespace {

template <class T>
class AttentionCall final : public Runnable {
 public:
  explicit AttentionCall(const Case& c) : arrays_(make_arrays<T>(c)), results_(arrays_) {}
  void run(Direction direction, bool plain, attention::Workspace& workspace, Executor& executor) override {
    measure::run(arrays_, results_, direction, plain, workspace, executor);
  }
  std::vector<double> out() const override { return doubles(results_.out); }
  std::vector<double> lse() const override { return doubles(results_.lse); }

 private:
  Arrays<T> arrays_;
  Results<T> results_;
};

// Memory that begins on a cache line, as frameworks give it to their tensors; std::vector alone begins 16
// bytes beside one, and then every row of a cache is read in twice as many lines.
template <class T>
struct OnLines {
  using value_type = T;
  OnLines() = default;
  template <class U>
  OnLines(const OnLines<U>&) {}  // NOLINT: implicit, as allocators must be
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{64}); }
  bool operator==(const OnLines&) const { return true; }
};

// New queries at the end of a cache that append() has filled, in one piece or in pages.
template <class T>
class DecodeCall final : public Runnable {
 public:
  explicit DecodeCall(const Case& c) : arrays_(make_arrays<T>(c)), results_(arrays_), lengths_(size_t(c.b), 0) {
    const int64_t page = c.pages ? c.pages : c.k, blocks = (c.k + page - 1) / page;
    k_.resize(size_t(c.b * blocks * c.g * page * c.d));
    v_.resize(size_t(c.b * blocks * c.g * page * c.v));
    cache_.k = {k_.data(), {c.b * blocks, c.g, page, c.d}};
    cache_.v = {v_.data(), {c.b * blocks, c.g, page, c.v}};
    if (c.pages) {  // page p of the table lies at p times a step that is prime to their number: in no order
      int64_t step = c.b * blocks * 3 / 8 + 1;
      while (std::gcd(step, c.b * blocks) != 1) ++step;
      for (int64_t p = 0; p < c.b * blocks; ++p) table_.push_back(int32_t(p * step % (c.b * blocks)));
      cache_.block_table = {table_.data(), {c.b, blocks}};
    }
    cache_.lengths = {lengths_.data(), {c.b}};
    const auto& rotation = arrays_.terms.rotation;
    cache_.keys_turned = !rotation || !rotation->follows_length;
    const attention::Inputs<T> in = arrays_.inputs();
    attention::NewTokens<T> tokens;
    tokens.k = in.k, tokens.v = in.v;
    attention::append(cache_, tokens, arrays_.terms);
  }
  void run(Direction, bool plain, attention::Workspace& workspace, Executor& executor) override {
    attention::DecodeInputs<T> in;
    in.q = arrays_.inputs().q;
    in.cache = cache_;
    attention::decode(in, plain ? arrays_.none : arrays_.terms, arrays_.options(plain), results_.outputs(),
                      workspace, executor);
  }
  std::vector<double> out() const override { return doubles(results_.out); }
  std::vector<double> lse() const override { return doubles(results_.lse); }

 private:
  Arrays<T> arrays_;
  Results<T> results_;
  std::vector<T, OnLines<T>> k_, v_;
  std::vector<int64_t> lengths_;
  std::vector<int32_t> table_;
  attention::KvCache<T> cache_;
};

}  // namespace

double bytes_needed(const Case& c, bool check) {
  const double b = double(c.b), queries = b * double(c.h) * double(c.q), keys = b * double(c.g) * double(c.k);
  const double d = double(c.d), v = double(c.v);
  double numbers = queries * (d + v) + keys * (d + v);    // q, out; k, v
  if (c.backward) numbers += queries * (d + v) + keys * (d + v);  // their gradients
  const double element = c.bf16 ? sizeof(Bf16) : sizeof(float);
  double bytes = numbers * element + queries * sizeof(float);  // and lse
  if (c.decode) bytes += 2 * keys * (d + v) * element;         // the cache, and what measures reading as much
  if (check) bytes += (numbers + queries) * sizeof(Sized);
  return bytes;
}

std::unique_ptr<Runnable> make_runnable(const Case& c) {
  if (c.decode && c.bf16) return std::make_unique<DecodeCall<Bf16>>(c);
  if (c.decode) return std::make_unique<DecodeCall<float>>(c);
  if (c.bf16) return std::make_unique<AttentionCall<Bf16>>(c);
  return std::make_unique<AttentionCall<float>>(c);
}

}  // namespace locant::measure
