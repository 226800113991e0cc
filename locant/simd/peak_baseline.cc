#define LOCANT_PEAK_NAMESPACE peak_baseline
#define LOCANT_PEAK_LANES 4
#include "locant/simd/peak-inl.h"
