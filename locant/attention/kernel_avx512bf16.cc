// The kernel for one instruction set; its flags stand in CMakeLists.txt. It serves bf16 calls only.
#define LOCANT_SIMD_AVX512BF16
#include "locant/attention/kernel-inl.h"
