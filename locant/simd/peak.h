// The fused multiply-add rate of this machine: what every "share of peak" refers to. Measure it in the
// run that it is compared with, since machines are shared and clocks move.
#pragma once

#include "locant/simd/dispatch.h"

namespace locant::simd {

// f32 GFLOP/s of one thread with the widest multiply-adds of `set`, two operations each: the best of
// several rounds over about `seconds` (registers only, no memory).
double measure_fma_peak(Set set, double seconds = 0.1);

// The same for the bf16 dot product, four operations a lane; 0 where `set` has none.
double measure_bf16_peak(Set set, double seconds = 0.1);

}  // namespace locant::simd
