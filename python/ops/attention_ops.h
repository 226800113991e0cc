// The attention operators: their schemas, and their boxed kernels for library.cc. Their Python side
// is python/locant/_ops.py.
#pragma once

#include <cstdint>
#include <string>

#include "python/ops/arguments.h"

namespace locant::python {

// What both directions take, in this order. cu_seqlens: int64 [S + 1] of a packed batch.
inline std::string attention_arguments() {
  return std::string(
             "Tensor q, Tensor k, Tensor v, Tensor? number_per_key, Tensor? q_positions, "
             "Tensor? k_positions, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, ") +
         TermArguments::kTensors + ", Tensor? dropout_seed, " + TermArguments::kNumbers + ", " +
         kOptions + ", float dropout";
}

// (arguments) -> (out, lse)
void attention_forward(StableIValue* stack, uint64_t inputs, uint64_t outputs);
// (out_gradient, out, lse, wanted, arguments) -> Tensor[]. Bit n of `wanted` asks for the gradient of
// argument number n of: q, k, v, number_per_key, number, number_left, number_right, query_rows,
// key_rows, value_rows, content_bias, scheme_parameters. The list holds those asked for, in order.
void attention_backward(StableIValue* stack, uint64_t inputs, uint64_t outputs);

}  // namespace locant::python
