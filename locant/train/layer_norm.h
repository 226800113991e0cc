// The residual stream and the norm that reads it. What a sublayer gives back waits until the next norm
// adds it, in the same pass over memory.
#pragma once

#include <cstdint>

#include "locant/train/elementwise.h"

namespace locant::train {

// x + added + added_bias, not added yet; added is null before the first sublayer.
template <class T>
struct Residual {
  T* x = nullptr;
  const T* added = nullptr;
  const T* added_bias = nullptr;
};

// What one norm leaves for its backward.
template <class T>
struct NormMemory {
  T *sum, *out;               // [rows][width]
  T *mean, *inverse_deviation;  // [rows]
};

// Completes the residual into memory.sum (left where it is if nothing waits) and normalises it.
template <class T>
void norm_forward(Residual<T>& residual, int64_t rows, int64_t width, const T* gain, const T* bias,
                  NormMemory<T>& memory) {
  if (!residual.added) memory.sum = residual.x;
  elementwise<T>().norm_forward({.rows = rows, .width = width, .x = residual.x,
                                 .added = residual.added, .added_bias = residual.added_bias,
                                 .sum = memory.sum, .gain = gain, .bias = bias, .out = memory.out,
                                 .mean = memory.mean,
                                 .inverse_deviation = memory.inverse_deviation});
  residual = {memory.sum, nullptr, nullptr};
}

// residual_gradient [rows][width]: in, what reaches `sum` from later; out, all that reaches it.
// added_bias_gradient: null for the first norm.
template <class T>
void norm_backward(const NormMemory<T>& memory, int64_t rows, int64_t width, const T* gain,
                   const T* out_gradient, T* residual_gradient, T* gain_gradient,
                   T* bias_gradient, T* added_bias_gradient) {
  elementwise<T>().norm_backward(
      {.rows = rows, .width = width, .sum = memory.sum, .mean = memory.mean,
       .inverse_deviation = memory.inverse_deviation, .gain = gain, .out_gradient = out_gradient,
       .sum_gradient = residual_gradient, .gain_gradient = gain_gradient,
       .bias_gradient = bias_gradient, .added_bias_gradient = added_bias_gradient});
}

}  // namespace locant::train
