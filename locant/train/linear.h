// y = x W (+ b), W [in][out], and its two backward products. Biases belong to the pass that reads y.
#pragma once

#include "locant/train/matmul.h"

namespace locant::train {

// y [rows][out] = x [rows][in] W
template <class T>
void linear_forward(int64_t rows, int64_t in, int64_t out, const T* x, const T* weight, T* y) {
  multiply<T>(Operand::kAsIs, Operand::kAsIs, rows, out, in, x, in, weight, out, y, out, false);
}

// x_gradient = y_gradient W^T, given W^T [out][in]
template <class T>
void linear_backward_input(int64_t rows, int64_t in, int64_t out, const T* y_gradient,
                           const T* weight_transposed, T* x_gradient) {
  multiply<T>(Operand::kAsIs, Operand::kAsIs, rows, in, out, y_gradient, out, weight_transposed, in,
              x_gradient, in, false);
}

// W_gradient (+)= x^T y_gradient
template <class T>
void linear_backward_weight(int64_t rows, int64_t in, int64_t out, const T* x, const T* y_gradient,
                            T* weight_gradient, bool accumulate) {
  multiply<T>(Operand::kTransposed, Operand::kAsIs, in, out, rows, x, in, y_gradient, out,
              weight_gradient, out, accumulate);
}

}  // namespace locant::train
