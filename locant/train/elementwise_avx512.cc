// Compiled with AVX-512F, DQ, BW, VL and FMA (CMakeLists.txt).
#define LOCANT_TRAIN_ISA avx512
#define LOCANT_VECTOR_BYTES 64
#include "locant/train/elementwise-inl.h"
