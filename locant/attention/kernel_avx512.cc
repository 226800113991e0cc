// The kernel for one instruction set; its flags stand in CMakeLists.txt.
#define LOCANT_SIMD_AVX512
#include "locant/attention/kernel-inl.h"
