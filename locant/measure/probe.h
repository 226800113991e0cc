// What this machine can do at best, and what a call takes: clocks, the multiply-add peak, memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "locant/base/executor.h"

namespace locant::measure {

enum class Clock {
  kWall,
  kOwn,  // processor time of the calling thread: other programs disturb it less
};
double seconds(Clock clock);

// f32 GFLOP/s of all threads of the executor together, in the chosen instruction set. bf16: of its dot
// product of bf16 numbers, or where it has none, of f32.
double fma_peak(Executor& executor, double seconds = 0.02, bool bf16 = false);

// Bytes that this process can still take: of the machine, its control group and its own limit. Infinity
// where the system does not tell.
double free_memory();

// How fast this machine reads memory, in GB/s of all threads of an executor together: the best of
// some passes over as many bytes as are asked for, in ascending order. kOwn: one thread only.
class ReadProbe {
 public:
  explicit ReadProbe(size_t bytes);
  double measure(Executor& executor, Clock clock = Clock::kWall) const;

 private:
  std::vector<uint64_t> numbers_;
};

// Watches by how much the process's memory grows at most, from here on:
//   MemoryMark mark; work(); mark.growth();
// Memory that the C library had kept is given back first, so that its reuse counts. 0 where the
// system does not tell (anything but Linux with /proc/self/clear_refs).
class MemoryMark {
 public:
  MemoryMark();
  size_t growth() const;  // bytes

 private:
  size_t before_ = 0;
  bool told_ = false;
};

}  // namespace locant::measure
