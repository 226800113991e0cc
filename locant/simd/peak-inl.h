// Independent chains of multiply-adds: twelve hide a latency of 5 on two units. A set with 32 registers
// may define LOCANT_PEAK_TWICE and take twenty-four, for four units and a latency of 4 and more.
// Compiled once for each instruction set with LOCANT_PEAK_LANES lanes; no include guard on purpose.
#include <cstdint>

namespace locant::simd {
namespace LOCANT_PEAK_NAMESPACE {

typedef float Lanes __attribute__((vector_size(4 * LOCANT_PEAK_LANES)));

// Does `rounds` x `chains` vector multiply-adds; the result keeps the compiler from dropping them.
float fma_rounds(int64_t rounds, float factor, float addend) {
  const Lanes a = Lanes{} + factor, b = Lanes{} + addend;
  // Named and not an array, so that all of them stay in registers.
  Lanes c0 = a, c1 = a + 1, c2 = a + 2, c3 = a + 3, c4 = a + 4, c5 = a + 5, c6 = a + 6, c7 = a + 7,
        c8 = a + 8, c9 = a + 9, c10 = a + 10, c11 = a + 11;
#ifdef LOCANT_PEAK_TWICE
  Lanes d0 = a, d1 = b + 1, d2 = b + 2, d3 = b + 3, d4 = b + 4, d5 = b + 5, d6 = b + 6, d7 = b + 7,
        d8 = b + 8, d9 = b + 9, d10 = b + 10, d11 = b + 11;
#endif
  for (int64_t r = 0; r < rounds; ++r) {
    c0 = c0 * a + b, c1 = c1 * a + b, c2 = c2 * a + b, c3 = c3 * a + b;
    c4 = c4 * a + b, c5 = c5 * a + b, c6 = c6 * a + b, c7 = c7 * a + b;
    c8 = c8 * a + b, c9 = c9 * a + b, c10 = c10 * a + b, c11 = c11 * a + b;
#ifdef LOCANT_PEAK_TWICE
    d0 = d0 * a + b, d1 = d1 * a + b, d2 = d2 * a + b, d3 = d3 * a + b;
    d4 = d4 * a + b, d5 = d5 * a + b, d6 = d6 * a + b, d7 = d7 * a + b;
    d8 = d8 * a + b, d9 = d9 * a + b, d10 = d10 * a + b, d11 = d11 * a + b;
#endif
  }
  Lanes all = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
#ifdef LOCANT_PEAK_TWICE
  all += d0 + d1 + d2 + d3 + d4 + d5 + d6 + d7 + d8 + d9 + d10 + d11;
#endif
  float sum = 0;
  for (int lane = 0; lane < LOCANT_PEAK_LANES; ++lane) sum += all[lane];
  return sum;
}

extern const int lanes, chains;
const int lanes = LOCANT_PEAK_LANES;
#ifdef LOCANT_PEAK_TWICE
const int chains = 24;
#else
const int chains = 12;
#endif

}  // namespace LOCANT_PEAK_NAMESPACE
}  // namespace locant::simd
