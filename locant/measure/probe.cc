#include "locant/measure/probe.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#if defined(__unix__)
#include <sys/resource.h>
#endif

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "locant/simd/peak.h"

namespace locant::measure {
namespace {

// A field "NAME: N kB" of such a file, in bytes; 0 when it is not there.
size_t field_bytes(const char* path, const std::string& field) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind(field + ":", 0) == 0) return std::stoull(line.substr(field.size() + 1)) * 1024;
  }
  return 0;
}

// Of this process: "VmRSS" now and "VmHWM" at most.
size_t status_bytes(const std::string& field) { return field_bytes("/proc/self/status", field); }

// What the limit of the control group leaves; what only caches files can be given back.
double group_memory() {
  double most = 0, taken = 0;
  std::ifstream limit("/sys/fs/cgroup/memory.max"), statistics("/sys/fs/cgroup/memory.stat");
  if (!(limit >> most)) return std::numeric_limits<double>::infinity();  // no such file, or "max"
  std::string name;
  for (double bytes = 0; statistics >> name >> bytes;) {
    if (name == "anon") taken = bytes;
  }
  return most - taken;
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

double free_memory() {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const size_t available = field_bytes("/proc/meminfo", "MemAvailable");
  double free = available ? double(available) + double(field_bytes("/proc/meminfo", "SwapFree")) : kAny;
  free = std::min(free, group_memory());
#if defined(RLIMIT_AS)
  rlimit own{};
  if (getrlimit(RLIMIT_AS, &own) == 0 && own.rlim_cur != RLIM_INFINITY) {
    free = std::min(free, double(own.rlim_cur) - double(status_bytes("VmSize")));
  }
#endif
  return std::max(free, 0.0);
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
