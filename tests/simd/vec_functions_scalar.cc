// Flags in CMakeLists.txt.
#define LOCANT_SIMD_SCALAR
#include "tests/simd/vec_functions-inl.h"
