// Twelve independent chains of multiply-adds: enough to hide a latency of 5 on two units.
// Compiled once for each instruction set with LOCANT_PEAK_LANES lanes; no include guard on purpose.
#include <cstdint>

namespace locant::simd {
namespace LOCANT_PEAK_NAMESPACE {

typedef float Lanes __attribute__((vector_size(4 * LOCANT_PEAK_LANES)));

// Does `rounds` x 12 vector multiply-adds; the result keeps the compiler from dropping them.
float fma_rounds(int64_t rounds, float factor, float addend) {
  const Lanes a = Lanes{} + factor, b = Lanes{} + addend;
  // Named and not an array, so that all of them stay in registers.
  Lanes c0 = a, c1 = a + 1, c2 = a + 2, c3 = a + 3, c4 = a + 4, c5 = a + 5, c6 = a + 6, c7 = a + 7,
        c8 = a + 8, c9 = a + 9, c10 = a + 10, c11 = a + 11;
  for (int64_t r = 0; r < rounds; ++r) {
    c0 = c0 * a + b, c1 = c1 * a + b, c2 = c2 * a + b, c3 = c3 * a + b;
    c4 = c4 * a + b, c5 = c5 * a + b, c6 = c6 * a + b, c7 = c7 * a + b;
    c8 = c8 * a + b, c9 = c9 * a + b, c10 = c10 * a + b, c11 = c11 * a + b;
  }
  const Lanes all = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
  float sum = 0;
  for (int lane = 0; lane < LOCANT_PEAK_LANES; ++lane) sum += all[lane];
  return sum;
}

extern const int lanes;
const int lanes = LOCANT_PEAK_LANES;

}  // namespace LOCANT_PEAK_NAMESPACE
}  // namespace locant::simd
