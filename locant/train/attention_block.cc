#include "locant/train/attention_block.h"

#include "locant/train/linear.h"

namespace locant::train {
namespace {

// Head h of part 0, 1, 2 (q, k, v) as it lies in [batch][length][3 width].
template <class T>
View<T, 4> heads_of(const AttentionShape<std::remove_const_t<T>>& s, T* qkv, int64_t part) {
  const int64_t size = s.width / s.heads;
  return {qkv + part * s.width, {s.batch, s.heads, s.length, size},
          {s.length * 3 * s.width, size, 3 * s.width, 1}};
}

template <class T>
View<T, 4> mixed_of(const AttentionShape<std::remove_const_t<T>>& s, T* mixed) {
  const int64_t size = s.width / s.heads;
  return {mixed, {s.batch, s.heads, s.length, size}, {s.length * s.width, size, s.width, 1}};
}

// Rows first .. of a view of queries.
template <class View>
View from_query(View view, int64_t first) {
  view.data += first * view.stride[2];
  view.shape[2] -= first;
  return view;
}

template <class T>
attention::Inputs<T> inputs_of(const AttentionShape<T>& shape, int64_t first_query, const T* qkv) {
  attention::Inputs<T> inputs{.q = from_query(heads_of(shape, qkv, 0), first_query),
                              .k = heads_of(shape, qkv, 1), .v = heads_of(shape, qkv, 2),
                              .number_per_key = {}, .q_positions = {}, .k_positions = {}};
  if (shape.number_per_key) {
    inputs.number_per_key = View<const T, 3>(shape.number_per_key, {shape.batch, 1, shape.length});
  }
  return inputs;
}

template <class T>
attention::Options options_of(const AttentionShape<T>& shape) {
  return {.causal = shape.causal, .window = {}, .scale = {}, .softcap = 0};
}

}  // namespace

template <class T>
void attention_block_in(int64_t rows, int64_t width, const SublayerArrays<const T>& weights,
                        Residual<T>& residual, NormMemory<T>& norm, T* qkv) {
  norm_forward(residual, rows, width, weights.norm_gain, weights.norm_bias, norm);
  linear_forward(rows, width, 3 * width, norm.out, weights.in_weight, qkv);
  elementwise<T>().add_bias(rows, 3 * width, weights.in_bias, qkv);
}

template <class T>
void attention_block_mix(const AttentionShape<T>& shape, int64_t first_query, const Terms<T>& terms,
                         const T* qkv, T* mixed, T* lse, attention::Workspace& workspace) {
  SerialExecutor serial;  // a shard stays in its thread
  const View<T, 3> lse_view(lse, {shape.batch, shape.heads, shape.length - first_query});
  attention::forward<T>(inputs_of(shape, first_query, qkv), terms, options_of(shape),
                        {.out = from_query(mixed_of(shape, mixed), first_query), .lse = lse_view},
                        workspace, serial);
}

template <class T>
void attention_block_forward(const AttentionShape<T>& shape, const SublayerArrays<const T>& weights,
                             const Terms<T>& terms, Residual<T>& residual,
                             AttentionMemory<T>& memory, T* out, attention::Workspace& workspace) {
  attention_block_in(shape.rows(), shape.width, weights, residual, memory.norm, memory.qkv);
  attention_block_mix<T>(shape, 0, terms, memory.qkv, memory.mixed, memory.lse, workspace);
  linear_forward(shape.rows(), shape.width, shape.width, memory.mixed, weights.out_weight, out);
  residual.added = out;
  residual.added_bias = weights.out_bias;
}

template <class T>
void attention_block_backward(const AttentionShape<T>& shape, const AttentionBackward<T>& a,
                              const AttentionMemory<T>& memory, T* residual_gradient,
                              attention::Workspace& workspace) {
  const int64_t rows = shape.rows(), width = shape.width;
  // out = mixed out_weight (its bias: in the backward of the norm that added it)
  linear_backward_weight(rows, width, width, memory.mixed, residual_gradient,
                         a.gradients.out_weight, a.accumulate);
  linear_backward_input(rows, width, width, residual_gradient, a.out_transposed, a.mixed_gradient);
  // mixed = attention(q, k, v, terms)
  SerialExecutor serial;
  const T* qkv = memory.qkv;
  attention::backward<T>(
      inputs_of(shape, 0, qkv), *a.terms, options_of(shape),
      {.out = mixed_of<const T>(shape, memory.mixed),
       .lse = View<const T, 3>(memory.lse, {shape.batch, shape.heads, shape.length})},
      mixed_of<const T>(shape, a.mixed_gradient),
      {.q = heads_of(shape, a.qkv_gradient, 0), .k = heads_of(shape, a.qkv_gradient, 1),
       .v = heads_of(shape, a.qkv_gradient, 2), .number_per_key = {}, .terms = a.terms_gradient},
      workspace, serial);
  // qkv = normed in_weight + in_bias
  elementwise<T>().column_sums(rows, 3 * width, a.qkv_gradient, a.gradients.in_bias);
  linear_backward_weight(rows, width, 3 * width, memory.norm.out, a.qkv_gradient,
                         a.gradients.in_weight, a.accumulate);
  linear_backward_input(rows, width, 3 * width, a.qkv_gradient, a.in_transposed,
                        a.normed_gradient);
  // normed = norm(residual)
  norm_backward(memory.norm, rows, width, a.weights.norm_gain, a.normed_gradient,
                residual_gradient, a.gradients.norm_gain, a.gradients.norm_bias,
                a.added_bias_gradient);
}

#define LOCANT_INSTANTIATE(T)                                                                     \
  template void attention_block_in<T>(int64_t, int64_t, const SublayerArrays<const T>&,           \
                                      Residual<T>&, NormMemory<T>&, T*);                          \
  template void attention_block_mix<T>(const AttentionShape<T>&, int64_t, const Terms<T>&, const T*, \
                                       T*, T*, attention::Workspace&);                            \
  template void attention_block_forward<T>(const AttentionShape<T>&, const SublayerArrays<const T>&, \
                                           const Terms<T>&, Residual<T>&, AttentionMemory<T>&,    \
                                           T*, attention::Workspace&);                            \
  template void attention_block_backward<T>(const AttentionShape<T>&, const AttentionBackward<T>&,   \
                                            const AttentionMemory<T>&, T*, attention::Workspace&);
LOCANT_INSTANTIATE(float)
LOCANT_INSTANTIATE(double)
#undef LOCANT_INSTANTIATE

}  // namespace locant::train
