// What one instruction set offers: plain functions over plain data, chosen once a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/attention/plan.h"

namespace locant::attention {

struct KernelSet {
  int lanes;  // floats in a vector
  // Transposes the panels of the row terms for head h of the tables.
  void (*transpose_panels)(const Plan& plan, RowsTerm& term, int64_t h);
  // Scratch of one worker: its size, making it ready, one part of the work.
  size_t (*forward_bytes)(const Plan& plan);
  void (*open_forward)(const Plan& plan, char* scratch);
  void (*forward)(const Plan& plan, const Part& part, char* scratch);
  size_t (*backward_bytes)(const Plan& plan);
  void (*open_backward)(const Plan& plan, char* scratch);
  // Query tiles [first, last) of a unit, numbered through its query heads; then, when all of a unit
  // are done, the end of its keys.
  void (*backward)(const Plan& plan, const KeyUnit& unit, int64_t first, int64_t last, char* scratch);
  void (*finish_keys)(const Plan& plan, const KeyUnit& unit, char* scratch);
};

namespace scalar {
extern const KernelSet kKernelSet;
}
namespace neon {
extern const KernelSet kKernelSet;
}
namespace avx2 {
extern const KernelSet kKernelSet;
}
namespace avx512 {
extern const KernelSet kKernelSet;
}
namespace avx512bf16 {
extern const KernelSet kKernelSet;  // for bf16 calls only
}

}  // namespace locant::attention
