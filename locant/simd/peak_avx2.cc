#define LOCANT_PEAK_NAMESPACE peak_avx2
#define LOCANT_PEAK_LANES 8
#include "locant/simd/peak-inl.h"
