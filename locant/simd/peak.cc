#include "locant/simd/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace locant::simd {

#define LOCANT_DECLARE_PEAK(name)                                  \
  namespace peak_##name {                                          \
  float fma_rounds(int64_t rounds, float factor, float addend);    \
  extern const int lanes, chains;                                  \
  }
LOCANT_DECLARE_PEAK(baseline)
#ifdef LOCANT_PEAK_X86
LOCANT_DECLARE_PEAK(avx2)
LOCANT_DECLARE_PEAK(avx512)
namespace peak_avx512bf16 {
float dot_rounds(int64_t rounds, float factor);
extern const int lanes;
}
#elif defined(LOCANT_PEAK_ARM)
LOCANT_DECLARE_PEAK(neon)
#endif

namespace {

// The best rate of `rounds_of(rounds)` over about `seconds`, in 10^9 operations a second.
template <class Rounds>
double best_rate(double seconds, double operations, Rounds rounds_of) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kRounds = 100000;
  volatile float keep = 0;
  double best = 0;
  const auto begin = Clock::now();
  do {
    const auto from = Clock::now();
    keep = keep + rounds_of(kRounds);
    const double took = std::chrono::duration<double>(Clock::now() - from).count();
    best = std::max(best, operations * double(kRounds) / took / 1e9);
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return best;
}

}  // namespace

double measure_fma_peak(Set set, double seconds) {
  auto* rounds_of = &peak_baseline::fma_rounds;
  int lanes = peak_baseline::lanes, chains = peak_baseline::chains;
#ifdef LOCANT_PEAK_X86
  if (set == Set::kAvx2) rounds_of = &peak_avx2::fma_rounds, lanes = peak_avx2::lanes;
  if (set == Set::kAvx512 || set == Set::kAvx512Bf16) {
    rounds_of = &peak_avx512::fma_rounds, lanes = peak_avx512::lanes;
  }
#elif defined(LOCANT_PEAK_ARM)
  if (set == Set::kNeon) {
    rounds_of = &peak_neon::fma_rounds, lanes = peak_neon::lanes, chains = peak_neon::chains;
  }
#else
  (void)set;
#endif
  return best_rate(seconds, 2.0 * chains * lanes,
                   [&](int64_t rounds) { return rounds_of(rounds, 0.9999f, 1e-4f); });
}

double measure_bf16_peak(Set set, double seconds) {
#ifdef LOCANT_PEAK_X86
  if (set == Set::kAvx512Bf16) {
    return best_rate(seconds, 4.0 * 12 * peak_avx512bf16::lanes, [](int64_t rounds) {
      return peak_avx512bf16::dot_rounds(rounds, 0.01f);
    });
  }
#endif
  (void)set, (void)seconds;
  return 0;
}

}  // namespace locant::simd
