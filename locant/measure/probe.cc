#include "locant/measure/probe.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "locant/simd/peak.h"

namespace locant::measure {
namespace {

// A field of /proc/self/status in bytes, "VmRSS" now and "VmHWM" at most; 0 when it is not there.
size_t status_bytes(const std::string& field) {
  std::ifstream in("/proc/self/status");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(field + ":", 0) == 0) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace

double seconds(Clock clock) {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  if (clock == Clock::kOwn) {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  }
#endif
  (void)clock;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double fma_peak(Executor& executor, double seconds, bool bf16) {
  std::vector<double> peaks(static_cast<size_t>(executor.threads()));
  executor.run(executor.threads(), [&](int64_t index, int) {
    double& peak = peaks[static_cast<size_t>(index)];
    if (bf16) peak = simd::measure_bf16_peak(simd::chosen(), seconds);
    if (!(peak > 0)) peak = simd::measure_fma_peak(simd::chosen(), seconds);
  });
  double sum = 0;
  for (double peak : peaks) sum += peak;
  return sum;
}

ReadProbe::ReadProbe(size_t bytes) : numbers_(std::max<size_t>(bytes / 8, 1024), 1) {}

double ReadProbe::measure(Executor& executor, Clock clock) const {
  constexpr int kPasses = 3;
  const int64_t pieces = executor.threads(), each = int64_t(numbers_.size()) / pieces / 8 * 8;
  std::vector<uint64_t> sums(static_cast<size_t>(pieces));
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double from = seconds(clock);
    executor.run(pieces, [&](int64_t piece, int) {
      uint64_t lanes[8] = {};
      const uint64_t* at = numbers_.data() + piece * each;
      for (int64_t n = 0; n < each; n += 8) {
        for (int lane = 0; lane < 8; ++lane) lanes[lane] += at[n + lane];
      }
      for (uint64_t lane : lanes) sums[size_t(piece)] += lane;
    });
    best = std::max(best, 8e-9 * double(each * pieces) / (seconds(clock) - from));
  }
  volatile uint64_t keep = 0;  // so that nothing is dropped
  for (uint64_t sum : sums) keep = keep + sum;
  return best;
}

MemoryMark::MemoryMark() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
  before_ = status_bytes("VmRSS");
  std::ofstream reset("/proc/self/clear_refs");
  reset << "5" << std::flush;  // the highest mark starts again from here
  told_ = before_ > 0 && reset.good();
}

size_t MemoryMark::growth() const {
  const size_t most = told_ ? status_bytes("VmHWM") : 0;
  return most > before_ ? most - before_ : 0;
}

}  // namespace locant::measure
