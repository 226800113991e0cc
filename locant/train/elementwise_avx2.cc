// Compiled with AVX2 and FMA (CMakeLists.txt).
#define LOCANT_TRAIN_ISA avx2
#define LOCANT_VECTOR_BYTES 32
#include "locant/train/elementwise-inl.h"
