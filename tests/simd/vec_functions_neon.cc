// Flags in CMakeLists.txt.
#define LOCANT_SIMD_NEON
#include "tests/simd/vec_functions-inl.h"
