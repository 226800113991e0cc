// Decode for one instruction set; its flags stand in CMakeLists.txt.
#define LOCANT_SIMD_NEON
#include "locant/attention/decode-inl.h"
