#include "locant/train/feed_forward.h"

#include "locant/train/linear.h"

namespace locant::train {

template <class T>
void feed_forward_forward(const FeedForwardShape& shape, const SublayerArrays<const T>& weights,
                          Residual<T>& residual, FeedForwardMemory<T>& memory, T* out) {
  const auto [rows, width, hidden] = shape;
  norm_forward(residual, rows, width, weights.norm_gain, weights.norm_bias, memory.norm);
  linear_forward(rows, width, hidden, memory.norm.out, weights.in_weight, memory.activated);
  elementwise<T>().gelu_forward({.rows = rows, .width = hidden, .bias = weights.in_bias,
                                 .values = memory.activated, .slope = memory.slope});
  linear_forward<T>(rows, hidden, width, memory.activated, weights.out_weight, out);
  residual.added = out;
  residual.added_bias = weights.out_bias;
}

template <class T>
void feed_forward_backward(const FeedForwardShape& shape, const FeedForwardBackward<T>& a,
                           const FeedForwardMemory<T>& memory, T* residual_gradient) {
  const auto [rows, width, hidden] = shape;
  // out = activated out_weight (its bias: in the backward of the norm that added it)
  linear_backward_weight(rows, hidden, width, memory.activated, residual_gradient,
                         a.gradients.out_weight, a.accumulate);
  linear_backward_input(rows, hidden, width, residual_gradient, a.out_transposed,
                        a.activated_gradient);
  // activated = GELU(normed in_weight + in_bias)
  elementwise<T>().gelu_backward({.rows = rows, .width = hidden, .slope = memory.slope,
                                  .gradient = a.activated_gradient,
                                  .bias_gradient = a.gradients.in_bias});
  linear_backward_weight(rows, width, hidden, memory.norm.out, a.activated_gradient,
                         a.gradients.in_weight, a.accumulate);
  linear_backward_input(rows, width, hidden, a.activated_gradient, a.in_transposed,
                        a.normed_gradient);
  // normed = norm(residual)
  norm_backward(memory.norm, rows, width, a.weights.norm_gain, a.normed_gradient,
                residual_gradient, a.gradients.norm_gain, a.gradients.norm_bias,
                a.added_bias_gradient);
}

#define LOCANT_INSTANTIATE(T)                                                                   \
  template void feed_forward_forward<T>(const FeedForwardShape&, const SublayerArrays<const T>&, \
                                        Residual<T>&, FeedForwardMemory<T>&, T*);               \
  template void feed_forward_backward<T>(const FeedForwardShape&, const FeedForwardBackward<T>&, \
                                         const FeedForwardMemory<T>&, T*);
LOCANT_INSTANTIATE(float)
LOCANT_INSTANTIATE(double)
#undef LOCANT_INSTANTIATE

}  // namespace locant::train
