// Flags in CMakeLists.txt.
#define LOCANT_SIMD_AVX512
#include "tests/simd/vec_functions-inl.h"
