// Reading memory, and nothing else: what "share of the read bandwidth" refers to. Measure it in the run
// that it is compared with, over arrays as large.
#pragma once

#include <cstdint>

namespace locant::simd {

// Reads n floats once, in order, with the widest loads of the chosen instruction set, four a turn. The
// result keeps the compiler from dropping them.
float read_all(const float* data, int64_t n);

}  // namespace locant::simd
