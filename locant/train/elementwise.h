// Everything in a model that is no matrix product and no attention, as one table of functions a
// number type and instruction set. Bodies, one layer a file: layer_norm-inl.h, gelu-inl.h,
// cross_entropy-inl.h, adamw-inl.h. They hold the forward and its backward, line by line reversed.
//
// Arrays are row-major and contiguous unless a stride is given. "+=" outputs are added to.
#pragma once

#include <cstdint>

namespace locant::train {

// sum = x + added + added_bias;  out = gain (sum - mean) / deviation + bias, over each row.
// The first norm of a model has nothing to add: added and added_bias are null, sum unused.
template <class T>
struct NormForward {
  int64_t rows, width;
  const T *x, *added, *added_bias;  // [rows][width], the same, [width]
  T* sum;                           // [rows][width]; may be x itself
  const T *gain, *bias;             // [width]
  T* out;                           // [rows][width]
  T *mean, *inverse_deviation;      // [rows]
};

// From the gradient of `out` to that of `sum`, added to what reaches `sum` by the residual path.
template <class T>
struct NormBackward {
  int64_t rows, width;
  const T *sum, *mean, *inverse_deviation, *gain;  // of the forward
  const T* out_gradient;                           // [rows][width]
  T* sum_gradient;                                 // [rows][width] +=
  T *gain_gradient, *bias_gradient;                // [width] +=
  T* added_bias_gradient;                          // [width] +=, null if there was none
};

// In place: values = GELU(values + bias). slope: GELU' there, kept for backward, or null.
template <class T>
struct GeluForward {
  int64_t rows, width;
  const T* bias;  // [width]
  T *values, *slope;
};

// In place: gradient *= slope.
template <class T>
struct GeluBackward {
  int64_t rows, width;
  const T* slope;
  T* gradient;
  T* bias_gradient;  // [width] +=
};

// losses[r] = log(sum exp logits[r]) - logits[r][target]. In place, if wanted: logits becomes
// gradient_scale (softmax - one at the target). A row with a negative target: 0 and zeros.
template <class T>
struct CrossEntropy {
  int64_t rows, vocabulary, stride;  // stride of the rows of logits
  T* logits;
  const int32_t* targets;  // [rows]
  T* losses;               // [rows]
  bool gradient;
  T gradient_scale;
};

// One decoupled AdamW update (Loshchilov and Hutter 2019) of n numbers.
template <class T>
struct AdamWStep {
  int64_t n;
  T *value, *mean, *square;  // +=
  const T* gradient;
  T gradient_scale;               // clipping
  T beta1, beta2, epsilon;
  T mean_correction, square_correction;  // 1 / (1 - beta^t)
  T learning_rate, weight_decay;
};

template <class T>
struct Elementwise {
  void (*norm_forward)(const NormForward<T>&);
  void (*norm_backward)(const NormBackward<T>&);
  void (*gelu_forward)(const GeluForward<T>&);
  void (*gelu_backward)(const GeluBackward<T>&);
  void (*cross_entropy)(const CrossEntropy<T>&);
  void (*adamw)(const AdamWStep<T>&);
  // values[r][c] += bias[c], and its adjoint: sums[c] += values[r][c].
  void (*add_bias)(int64_t rows, int64_t width, const T* bias, T* values);
  void (*column_sums)(int64_t rows, int64_t width, const T* values, T* sums);
  // to[i] = sum over parts, in their order, of parts[p][i]; returns the sum of squares of to.
  double (*sum_parts)(int64_t n, const T* const* parts, int64_t count, T* to);
};

// Float: for the instruction set in use (simd/dispatch.h). Double: plain, for tests.
template <class T>
const Elementwise<T>& elementwise();
template <>
const Elementwise<float>& elementwise<float>();
template <>
const Elementwise<double>& elementwise<double>();

}  // namespace locant::train
