#define LOCANT_PEAK_NAMESPACE peak_avx512
#define LOCANT_PEAK_LANES 16
#include "locant/simd/peak-inl.h"
