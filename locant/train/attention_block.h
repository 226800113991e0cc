// norm -> q, k, v -> attention with the scheme's terms -> projection; and backward, from the end.
#pragma once

#include <cstdint>

#include "locant/attention/attention.h"
#include "locant/train/arrays.h"
#include "locant/train/layer_norm.h"

namespace locant::train {

// Of one layer and one shard: batch sequences of `length` tokens, rows = batch * length.
template <class T>
struct AttentionShape {
  int64_t batch, length, width, heads;
  bool causal = true;
  const T* number_per_key = nullptr;  // [batch][length]: -inf where padding stands; null: none does
  int64_t rows() const { return batch * length; }
};

// Kept for backward.
template <class T>
struct AttentionMemory {
  NormMemory<T> norm;
  T* qkv;    // [rows][3 width]
  T* mixed;  // [rows][width], what attention gives
  T* lse;    // [batch][heads][length]
};

// out [rows][width] waits in `residual` afterwards.
template <class T>
void attention_block_forward(const AttentionShape<T>& shape, const SublayerArrays<const T>& weights,
                             const Terms<T>& terms, Residual<T>& residual,
                             AttentionMemory<T>& memory, T* out, attention::Workspace& workspace);

// The two linear layers apart, for evaluation, which walks long windows in blocks of rows.
template <class T>
void attention_block_in(int64_t rows, int64_t width, const SublayerArrays<const T>& weights,
                        Residual<T>& residual, NormMemory<T>& norm, T* qkv);
// Queries [first_query, length) only; mixed holds all rows.
template <class T>
void attention_block_mix(const AttentionShape<T>& shape, int64_t first_query, const Terms<T>& terms,
                         const T* qkv, T* mixed, T* lse, attention::Workspace& workspace);

template <class T>
struct AttentionBackward {
  SublayerArrays<const T> weights;
  const T *in_transposed, *out_transposed;
  const Terms<T>* terms;
  SublayerArrays<T> gradients;  // += for the small ones
  bool accumulate;              // += for the weights too, or the first to write
  T* added_bias_gradient;       // of what the norm added; null in the first layer
  Terms<T>* terms_gradient;     // overwritten; null: not wanted
  T *qkv_gradient, *mixed_gradient, *normed_gradient;  // scratch
};

// residual_gradient [rows][width]: in, of the stream after this block; out, before it.
template <class T>
void attention_block_backward(const AttentionShape<T>& shape, const AttentionBackward<T>& a,
                              const AttentionMemory<T>& memory, T* residual_gradient,
                              attention::Workspace& workspace);

}  // namespace locant::train
