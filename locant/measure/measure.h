// Measures a case: interleaved with the plain case of the same shape, with other cases it is to be
// compared with, and with the multiply-add peak (decode: and the read bandwidth) before and after, so that a machine that is busy for
// a while slows all of them alike.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "locant/base/executor.h"
#include "locant/measure/case.h"
#include "locant/simd/dispatch.h"

namespace locant::measure {

// The instruction set of a case, while this lives.
class UsingSet {
 public:
  explicit UsingSet(const Case& c);
  ~UsingSet();
  UsingSet(const UsingSet&) = delete;

 private:
  simd::Set before_;
};

std::unique_ptr<Executor> make_executor(int threads);

struct Settings {
  int rounds = 7;
  bool plain = true;         // false: vs_plain is not measured (NaN)
  std::vector<Case> beside{};  // others to interleave with, for Result::vs
};

struct Result {
  Case measured;
  double median_ms = 0, best_ms = 0;
  double gflops = 0;      // Case::flops over the median
  double peak_share = 0;  // of the multiply-add peak of all threads (bf16: of its dot product's): median of the rounds
  // Memory that the call took beyond its arguments and results, at most: what the process grew by in
  // the first call, and no less than the workspace.
  double extra_mb = 0;
  double bandwidth_share = 0;  // decode: bytes of the cache read, of the bandwidth of reading as many; else NaN
  double vs_plain = 0;     // time against the plain case: median of the rounds; 1 for the plain one itself
  std::vector<double> vs;  // the same against each of Settings::beside
};

// One thread is measured by its own processor time, several (and what is compared with several) by
// the clock. Throws std::invalid_argument where the scheme refuses the case.
Result measure(const Case& c, const Settings& settings = {});

}  // namespace locant::measure
