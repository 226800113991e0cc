// The bodies for one instruction set. The including file defines LOCANT_TRAIN_ISA (a namespace) and
// LOCANT_VECTOR_BYTES, and is compiled with the set's flags.
#include "locant/train/elementwise.h"

#include "locant/train/vector-inl.h"

#include "locant/train/adamw-inl.h"
#include "locant/train/cross_entropy-inl.h"
#include "locant/train/gelu-inl.h"
#include "locant/train/layer_norm-inl.h"

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
constexpr Elementwise<T> make_table() {
  return {.norm_forward = norm_forward<T>, .norm_backward = norm_backward<T>,
          .gelu_forward = gelu_forward<T>, .gelu_backward = gelu_backward<T>,
          .cross_entropy = cross_entropy<T>, .adamw = adamw<T>, .add_bias = add_bias<T>,
          .column_sums = column_sums<T>, .sum_parts = sum_parts<T>};
}

extern const Elementwise<float> kFloatTable;
constexpr Elementwise<float> kFloatTable = make_table<float>();

}  // namespace locant::train::LOCANT_TRAIN_ISA
