#include "python/ops/attention_ops.h"

#include <optional>
#include <utility>

#include "locant/attention/attention.h"
#include "locant/attention/scheme_call.h"
#include "python/ops/executor.h"

namespace locant::python {
namespace {

using attention::Gradients;
using attention::Inputs;
using attention::Options;
using attention::Outputs;
using torch::stable::detail::from;

struct Arguments {
  Tensor q, k, v;
  MaybeTensor number_per_key, q_positions, k_positions, cu_seqlens_q, cu_seqlens_k;
  TermArguments terms;
  MaybeTensor dropout_seed;
  Options options;

  explicit Arguments(Reader& reader) {
    for (Tensor* tensor : {&q, &k, &v}) *tensor = reader.read<Tensor>();
    for (MaybeTensor* tensor :
         {&number_per_key, &q_positions, &k_positions, &cu_seqlens_q, &cu_seqlens_k}) {
      *tensor = reader.read<MaybeTensor>();
    }
    terms.read_tensors(reader);
    dropout_seed = reader.read<MaybeTensor>();
    terms.read_numbers(reader);
    options = read_options(reader);
    options.dropout.rate = reader.read<double>();
  }
};

template <class T>
void check_arguments(const char* operation, const Arguments& a) {
  Check check(operation);
  check_tensor<T>(check, "q", a.q, 4);
  check_tensor<T>(check, "k", a.k, 4);
  check_tensor<T>(check, "v", a.v, 4);
  const auto maybe = [&]<class E>(const char* name, const MaybeTensor& tensor, int dimensions, E) {
    if (tensor) check_tensor<E>(check, name, *tensor, dimensions);
  };
  maybe("number_per_key", a.number_per_key, 3, Real<T>());
  maybe("q_positions", a.q_positions, 2, int64_t());
  maybe("k_positions", a.k_positions, 2, int64_t());
  maybe("cu_seqlens_q", a.cu_seqlens_q, 1, int64_t());
  maybe("cu_seqlens_k", a.cu_seqlens_k, 1, int64_t());
  maybe("dropout_seed", a.dropout_seed, 1, int64_t());
  const int64_t seeds = a.dropout_seed ? a.dropout_seed->numel() : 0;
  check.require(a.options.dropout.rate == 0 || seeds == 1,
                "dropout needs a dropout_seed of one number, got ", seeds);
  a.terms.check<Real<T>>(check);
  check.done();
}

template <class T>
Inputs<T> inputs_of(const Arguments& a) {
  Inputs<T> in;
  in.q = view_of<const T, 4>(a.q);
  in.k = view_of<const T, 4>(a.k);
  in.v = view_of<const T, 4>(a.v);
  in.number_per_key = view_of<const Real<T>, 3>(a.number_per_key);
  in.q_positions = view_of<const int64_t, 2>(a.q_positions);
  in.k_positions = view_of<const int64_t, 2>(a.k_positions);
  in.cu_seqlens_q = view_of<const int64_t, 1>(a.cu_seqlens_q);
  in.cu_seqlens_k = view_of<const int64_t, 1>(a.cu_seqlens_k);
  return in;
}

Options options_of(const Arguments& a) {
  Options options = a.options;
  if (options.dropout.rate != 0) {
    options.dropout.seed = static_cast<uint64_t>(*address<const int64_t>(*a.dropout_seed));
  }
  return options;
}

// The terms of a call, and what leads back from their gradients where a scheme made them.
template <class T>
struct CallTerms {
  Terms<Real<T>> terms;
  std::optional<SchemeOfCall> scheme;

  CallTerms(const char* operation, const Arguments& a, const Inputs<T>& inputs,
            const Options& options) {
    if (a.terms.scheme.empty()) {
      terms = terms_of<Real<T>>(operation, a.terms);
      return;
    }
    Sizes sizes;
    sizes.width = a.terms.scheme_width;
    sizes.layers = a.terms.layer + 1;
    scheme.emplace(a.terms,
                   attention::call_of(inputs, options, sizes, static_cast<int>(a.terms.layer)));
    terms = cast<Real<T>>(scheme->lower());
  }
};

template <class T>
std::pair<Tensor, Tensor> forward(const Arguments& a) {
  constexpr const char* kOperation = "attention forward";
  check_arguments<T>(kOperation, a);
  const int64_t B = a.q.size(0), H = a.q.size(1), Q = a.q.size(2);
  Tensor out = empty_like_heads<T>(a.q, B, H, Q, a.v.size(3));
  Tensor lse = empty<Real<T>>({B, H, Q});
  const Inputs<T> inputs = inputs_of<T>(a);
  const Options options = options_of(a);
  const CallTerms<T> call(kOperation, a, inputs, options);
  TorchExecutor executor;
  attention::forward<T>(inputs, call.terms, options,
                        {view_of<T, 4>(out), view_of<Real<T>, 3>(lse)}, workspace(), executor);
  return {std::move(out), std::move(lse)};
}

template <class T>
std::vector<Tensor> backward(Tensor out_gradient, const Tensor& out, const Tensor& lse,
                             int64_t wanted, const Arguments& a) {
  constexpr const char* kOperation = "attention backward";
  check_arguments<T>(kOperation, a);
  Check check(kOperation);
  check_tensor<T>(check, "out_gradient", out_gradient, 4);
  check_tensor<T>(check, "out", out, 4);
  check_tensor<Real<T>>(check, "lse", lse, 3);
  check.done();
  // A gradient of a sum is one number at stride 0.
  if (out_gradient.stride(3) != 1) out_gradient = torch::stable::contiguous(out_gradient);

  const Inputs<T> inputs = inputs_of<T>(a);
  const Options options = options_of(a);
  const CallTerms<T> call(kOperation, a, inputs, options);
  const auto wants = [&](int bit) { return (wanted >> bit & 1) != 0; };
  Gradients<T> gradients;
  std::vector<Tensor> list;
  const auto heads = [&](int bit, const Tensor& like, View<T, 4>& view) {
    if (!wants(bit)) return;
    list.push_back(
        empty_like_heads<T>(like, like.size(0), like.size(1), like.size(2), like.size(3)));
    view = view_of<T, 4>(list.back());
  };
  heads(0, a.q, gradients.q);
  heads(1, a.k, gradients.k);
  heads(2, a.v, gradients.v);
  if (wants(3) && a.number_per_key) {
    const Tensor& like = *a.number_per_key;
    list.push_back(empty<Real<T>>({like.size(0), like.size(1), like.size(2)}));
    gradients.number_per_key = view_of<Real<T>, 3>(list.back());
  }
  Terms<Real<T>> tables;
  if (wanted >> 4) {
    tables = zeros_like(call.terms);
    gradients.terms = &tables;
  }
  TorchExecutor executor;
  attention::backward<T>(inputs, call.terms, options,
                         {view_of<const T, 4>(out), view_of<const Real<T>, 3>(lse)},
                         view_of<const T, 4>(out_gradient), gradients, workspace(), executor);

  const auto table = [&](int bit, const MaybeTensor& like, const std::vector<Real<T>>& numbers) {
    if (!wants(bit)) return;
    const auto sizes = like->sizes();
    list.push_back(tensor_of(numbers, std::vector<int64_t>(sizes.begin(), sizes.end())));
  };
  if (call.scheme) {
    if (wants(11)) list.push_back(call.scheme->backward(cast<double>(tables)));
    return list;
  }
  const TermArguments& t = a.terms;
  if (tables.number) {
    table(4, t.number, tables.number->table.data);
    if (t.number_left) table(5, t.number_left, tables.number->left);
    if (t.number_right) table(6, t.number_right, tables.number->right);
  }
  if (tables.query_rows) table(7, t.query_rows, tables.query_rows->rows.data);
  if (tables.key_rows) table(8, t.key_rows, tables.key_rows->rows.data);
  if (tables.value_rows) table(9, t.value_rows, tables.value_rows->rows.data);
  if (tables.content_bias) table(10, t.content_bias, tables.content_bias->data);
  return list;
}

}  // namespace

void attention_forward(StableIValue* stack, uint64_t, uint64_t) {
  Reader reader(stack);
  const Arguments a(reader);
  auto [out, lse] = by_dtype(a.q, [&]<class T>() { return forward<T>(a); });
  stack[0] = from(out);
  stack[1] = from(lse);
}

void attention_backward(StableIValue* stack, uint64_t, uint64_t) {
  Reader reader(stack);
  const Tensor out_gradient = reader.read<Tensor>(), out = reader.read<Tensor>(),
               lse = reader.read<Tensor>();
  const int64_t wanted = reader.read<int64_t>();
  const Arguments a(reader);
  stack[0] = from(
      by_dtype(a.q, [&]<class T>() { return backward<T>(out_gradient, out, lse, wanted, a); }));
}

}  // namespace locant::python
