// Flags in CMakeLists.txt.
#define LOCANT_SIMD_AVX2
#include "tests/simd/vec_functions-inl.h"
