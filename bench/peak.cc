// The FMA peak of this machine, for every instruction set, on one thread and on all of them.
// Where there is a dot product of bf16 numbers, its peak too.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "locant/simd/peak.h"

int main() {
  using namespace locant;
  const auto threads = static_cast<int>(std::thread::hardware_concurrency());
  for (simd::Set set : simd::available()) {
    const double one = simd::measure_fma_peak(set, 0.3);
    std::vector<double> each(static_cast<size_t>(threads));
    std::vector<std::thread> workers;
    for (double& peak : each) workers.emplace_back([&peak, set] { peak = simd::measure_fma_peak(set, 0.3); });
    for (std::thread& worker : workers) worker.join();
    double all = 0;
    for (double peak : each) all += peak;
    const double bf16 = simd::measure_bf16_peak(set, 0.3);
    std::printf("%-10s f32  1 thread %8.1f GF/s  %d threads %8.1f GF/s\n",
                std::string(simd::name(set)).c_str(), one, threads, all);
    if (bf16 > 0) {
      std::printf("%-10s bf16 1 thread %8.1f GF/s\n", std::string(simd::name(set)).c_str(), bf16);
    }
  }
}
