// norm -> linear -> GELU -> linear; and backward, from the end.
#pragma once

#include <cstdint>

#include "locant/train/arrays.h"
#include "locant/train/layer_norm.h"

namespace locant::train {

struct FeedForwardShape {
  int64_t rows, width, hidden;
};

// Kept for backward. slope null: no backward will come.
template <class T>
struct FeedForwardMemory {
  NormMemory<T> norm;
  T *activated, *slope;  // [rows][hidden]
};

// out [rows][width] waits in `residual` afterwards.
template <class T>
void feed_forward_forward(const FeedForwardShape& shape, const SublayerArrays<const T>& weights,
                          Residual<T>& residual, FeedForwardMemory<T>& memory, T* out);

template <class T>
struct FeedForwardBackward {
  SublayerArrays<const T> weights;
  const T *in_transposed, *out_transposed;
  SublayerArrays<T> gradients;  // += for the small ones
  bool accumulate;              // += for the weights too, or the first to write
  T* added_bias_gradient;       // of what the norm added
  T *activated_gradient, *normed_gradient;  // scratch
};

// residual_gradient [rows][width]: in, of the stream after this block; out, before it.
template <class T>
void feed_forward_backward(const FeedForwardShape& shape, const FeedForwardBackward<T>& a,
                           const FeedForwardMemory<T>& memory, T* residual_gradient);

}  // namespace locant::train
