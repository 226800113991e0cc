// One run of a comparison: a scheme, a seed and what is learned, from the first number to its records.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "locant/position/scheme.h"
#include "locant/study/comparison.h"

namespace locant::study {

struct RunContext {
  const ComparisonOptions& options;
  const Corpus& corpus;
  Executor& executor;
  Watcher& watcher;
};

// What a run needs of an earlier one is not there. It says what to do; other runs can go on.
struct LeftOut : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// Trains, tests and returns the records (the trained one first); empty when the watcher stopped it. The
// training is then kept in the folder's unfinished file and taken up by the same run. Throws LeftOut.
std::vector<Record> make_run(const Run& run, const RunContext& at);

// What else a trained language model is tested as: specifications by test-time scaling and test length, a
// record for each scaling.
std::map<std::string, std::map<int64_t, std::string>> test_scalings(const Scheme& scheme, int64_t train_length);

}  // namespace locant::study
