// Decode for one instruction set; its flags stand in CMakeLists.txt.
#define LOCANT_SIMD_AVX512BF16
#include "locant/attention/decode-inl.h"
