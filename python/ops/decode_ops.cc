#include "python/ops/decode_ops.h"

#include <algorithm>
#include <utility>

#include "locant/attention/decode.h"
#include "python/ops/executor.h"

namespace locant::python {
namespace {

using attention::DecodeInputs;
using attention::KvCache;
using torch::stable::detail::from;

struct CacheArguments {
  Tensor k, v, lengths;
  MaybeTensor block_table;

  template <class T>
  void check(Check& check) const {
    check_tensor<T>(check, "the cache's k", k, 4);
    check_tensor<T>(check, "the cache's v", v, 4);
    check_tensor<int64_t>(check, "the cache's lengths", lengths, 1);
    if (block_table) check_tensor<int32_t>(check, "the block table", *block_table, 2);
  }
};

struct DecodeArguments {
  Tensor q;
  CacheArguments cache;
  MaybeTensor number_per_key, q_positions, k_positions;
  TermArguments terms;
  attention::Options options;
  bool keys_turned = true;

  explicit DecodeArguments(Reader& reader) {
    for (Tensor* tensor : {&q, &cache.k, &cache.v, &cache.lengths}) *tensor = reader.read<Tensor>();
    for (MaybeTensor* tensor :
         {&cache.block_table, &number_per_key, &q_positions, &k_positions}) {
      *tensor = reader.read<MaybeTensor>();
    }
    terms.read_tensors(reader);
    terms.read_numbers(reader);
    options = read_options(reader);
    keys_turned = reader.read<bool>();
  }
};

// The call of a scheme: queries at the ends of their sequences, keys from 0, unless positions say else.
Call call_of(const DecodeArguments& a) {
  Call call;
  call.sizes.heads = a.q.size(1);
  call.sizes.head_size = a.q.size(3);
  call.sizes.value_size = a.cache.v.size(3);
  call.sizes.width = a.terms.scheme_width;
  call.sizes.layers = a.terms.layer + 1;
  call.layer = static_cast<int>(a.terms.layer);
  call.causal = a.options.causal;
  const std::vector<int64_t> lengths = vector_of<int64_t>(a.cache.lengths);
  int64_t longest = 0, low = 0, high = 0;
  for (const int64_t length : lengths) longest = std::max(longest, length);
  const auto widen = [](const MaybeTensor& positions, int64_t& least, int64_t& most) {
    const std::vector<int64_t> numbers = vector_of<int64_t>(*positions);
    if (numbers.empty()) return;
    least = *std::min_element(numbers.begin(), numbers.end());
    most = *std::max_element(numbers.begin(), numbers.end());
  };
  int64_t key_low = 0, key_high = std::max<int64_t>(0, longest - 1);
  high = std::max(longest, a.q.size(2)) - 1;  // queries past the tokens held count from 0
  if (a.q_positions) widen(a.q_positions, low, high);
  if (a.k_positions) widen(a.k_positions, key_low, key_high);
  call.length = std::max(high, key_high) + 1;
  call.first_distance = key_low - high;
  call.last_distance = a.options.causal ? std::min<int64_t>(0, key_high - low) : key_high - low;
  call.first_distance = std::min(call.first_distance, call.last_distance);
  return call;
}

template <class T>
std::pair<Tensor, Tensor> run(const DecodeArguments& a) {
  constexpr const char* kOperation = "attention decode";
  Check check(kOperation);
  check_tensor<T>(check, "q", a.q, 4);
  a.cache.check<T>(check);
  if (a.number_per_key) check_tensor<Real<T>>(check, "number_per_key", *a.number_per_key, 3);
  if (a.q_positions) check_tensor<int64_t>(check, "q_positions", *a.q_positions, 2);
  if (a.k_positions) check_tensor<int64_t>(check, "k_positions", *a.k_positions, 2);
  a.terms.check<Real<T>>(check);
  check.done();

  Terms<Real<T>> terms;
  std::vector<Rotation> rotations;
  if (a.terms.scheme.empty()) {
    TermArguments shared = a.terms;
    if (shared.rotation && shared.rotation->dim() == 2) {
      if (shared.rotation->size(0) != a.q.size(0)) {
        fail(kOperation, "rotation must have a row for each of the ", a.q.size(0), " sequences, got ",
             shared.rotation->size(0));
      }
      for (int64_t b = 0; b < shared.rotation->size(0); ++b) {
        rotations.push_back(rotation_of(kOperation, *shared.rotation, b));
      }
      shared.rotation.reset();
    }
    terms = terms_of<Real<T>>(kOperation, shared);
  } else {
    terms = cast<Real<T>>(SchemeOfCall(a.terms, call_of(a)).lower());
  }
  const int64_t B = a.q.size(0), H = a.q.size(1), Q = a.q.size(2);
  Tensor out = empty_like_heads<T>(a.q, B, H, Q, a.cache.v.size(3));
  Tensor lse = empty<Real<T>>({B, H, Q});
  DecodeInputs<T> inputs;
  inputs.q = view_of<const T, 4>(a.q);
  inputs.cache.k = view_of<const T, 4>(a.cache.k);
  inputs.cache.v = view_of<const T, 4>(a.cache.v);
  inputs.cache.lengths = view_of<const int64_t, 1>(a.cache.lengths);
  inputs.cache.block_table = view_of<const int32_t, 2>(a.cache.block_table);
  inputs.cache.keys_turned = a.keys_turned;
  inputs.number_per_key = view_of<const Real<T>, 3>(a.number_per_key);
  inputs.q_positions = view_of<const int64_t, 2>(a.q_positions);
  inputs.k_positions = view_of<const int64_t, 2>(a.k_positions);
  if (!rotations.empty()) {
    inputs.rotations = {rotations.data(), {static_cast<int64_t>(rotations.size())}};
  }
  TorchExecutor executor;
  attention::decode<T>(inputs, terms, a.options, {view_of<T, 4>(out), view_of<Real<T>, 3>(lse)},
                       workspace(), executor);
  return {std::move(out), std::move(lse)};
}

}  // namespace

void decode(StableIValue* stack, uint64_t, uint64_t) {
  Reader reader(stack);
  const DecodeArguments a(reader);
  auto [out, lse] = by_dtype(a.q, [&]<class T>() { return run<T>(a); });
  stack[0] = from(out);
  stack[1] = from(lse);
}

void cache_append(StableIValue* stack, uint64_t, uint64_t) {
  Reader reader(stack);
  CacheArguments cache;
  for (Tensor* tensor : {&cache.k, &cache.v, &cache.lengths}) *tensor = reader.read<Tensor>();
  cache.block_table = reader.read<MaybeTensor>();
  const Tensor k = reader.read<Tensor>(), v = reader.read<Tensor>();
  const MaybeTensor positions = reader.read<MaybeTensor>(), counts = reader.read<MaybeTensor>(),
                    rotation = reader.read<MaybeTensor>();
  const bool keys_turned = reader.read<bool>();
  by_dtype(k, [&]<class T>() {
    constexpr const char* kOperation = "cache append";
    Check check(kOperation);
    cache.check<T>(check);
    check_tensor<T>(check, "k", k, 4);
    check_tensor<T>(check, "v", v, 4);
    if (positions) check_tensor<int64_t>(check, "positions", *positions, 2);
    if (counts) check_tensor<int64_t>(check, "counts", *counts, 1);
    check.done();
    KvCache<T> to;
    to.k = view_of<T, 4>(cache.k);
    to.v = view_of<T, 4>(cache.v);
    to.lengths = view_of<int64_t, 1>(cache.lengths);
    to.block_table = view_of<const int32_t, 2>(cache.block_table);
    to.keys_turned = keys_turned;
    attention::NewTokens<T> tokens;
    tokens.k = view_of<const T, 4>(k);
    tokens.v = view_of<const T, 4>(v);
    tokens.positions = view_of<const int64_t, 2>(positions);
    tokens.counts = view_of<const int64_t, 1>(counts);
    Terms<Real<T>> terms;
    if (rotation) terms.rotation = rotation_of(kOperation, *rotation);
    attention::append<T>(to, tokens, terms);
    return 0;
  });
}

}  // namespace locant::python
