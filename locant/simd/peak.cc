#include "locant/simd/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace locant::simd {

#define LOCANT_DECLARE_PEAK(name)                                  \
  namespace peak_##name {                                          \
  float fma_rounds(int64_t rounds, float factor, float addend);    \
  extern const int lanes;                                          \
  }
LOCANT_DECLARE_PEAK(baseline)
#ifdef LOCANT_PEAK_X86
LOCANT_DECLARE_PEAK(avx2)
LOCANT_DECLARE_PEAK(avx512)
#endif

double measure_fma_peak(Set set, double seconds) {
  using Clock = std::chrono::steady_clock;
  auto* rounds_of = &peak_baseline::fma_rounds;
  int lanes = peak_baseline::lanes;
#ifdef LOCANT_PEAK_X86
  if (set == Set::kAvx2) rounds_of = &peak_avx2::fma_rounds, lanes = peak_avx2::lanes;
  if (set == Set::kAvx512 || set == Set::kAvx512Bf16) {
    rounds_of = &peak_avx512::fma_rounds, lanes = peak_avx512::lanes;
  }
#else
  (void)set;
#endif
  constexpr int64_t kRounds = 100000;
  volatile float keep = 0;
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto from = Clock::now();
    keep = keep + rounds_of(kRounds, 0.9999f, 1e-4f);
    const double took = std::chrono::duration<double>(Clock::now() - from).count();
    best = std::max(best, 2.0 * 12 * lanes * double(kRounds) / took / 1e9);
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return best;
}

}  // namespace locant::simd
