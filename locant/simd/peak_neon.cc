#define LOCANT_PEAK_NAMESPACE peak_neon
#define LOCANT_PEAK_LANES 4
#define LOCANT_PEAK_TWICE
#include "locant/simd/peak-inl.h"
