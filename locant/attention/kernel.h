// The fast path for float and bf16, below the checks of attention.cc. Internal: not installed.
// Picks the body compiled for simd::chosen() (simd/dispatch.h).
#pragma once

#include "locant/attention/attention.h"

namespace locant::attention {

// One checked call. Nothing here may be wrong any more: the kernel only has debug asserts.
template <class T>
struct KernelCall {
  // q, k, v with last stride 1; q_positions and k_positions are always given ([B or 1, Q] and
  // [B or 1, K], last stride 1); number_per_key may be empty, any strides.
  Inputs<T> inputs;
  // Packed: [sequences + 1] first tokens; null: not packed.
  const int64_t *q_start = nullptr, *k_start = nullptr;
  int64_t sequences = 0;
  const Terms<float>* terms = nullptr;  // checked against the shapes: widths, heads, row numbers
  bool causal = false;
  Window window;       // negative: unlimited
  double scale = 1;    // the call's scale times Terms::scale_factor
  double softcap = 0;  // none when 0
  Dropout dropout;
};

// Writes out and, where it is given, lse. T: float, Bf16.
template <class T>
void kernel_forward(const KernelCall<T>& call, const Outputs<T>& outputs, Workspace& workspace,
                    Executor& executor);

// Overwrites what is given in `gradients`.
template <class T>
void kernel_backward(const KernelCall<T>& call, const Outputs<const T>& outputs,
                     View<const T, 4> out_gradient, const Gradients<T>& gradients,
                     Workspace& workspace, Executor& executor);

// Whether LOCANT_ISA=scalar asks for the twin; a machine without vector units gets the kernel's
// portable body.
bool twin_is_asked_for();

}  // namespace locant::attention
