// One run of a comparison: a scheme, a seed and what is learned, from the first number to its records.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/study/comparison.h"

namespace locant::study {

struct RunContext {
  const ComparisonOptions& options;
  const Corpus& corpus;
  Executor& executor;
  Watcher& watcher;
};

// Trains, tests and returns the records (the trained one first); empty when the watcher stopped it. The
// training is then kept in the folder's unfinished file and taken up by the same run.
std::vector<Record> make_run(const Run& run, const RunContext& at);

// A training that was stopped, beside what its record held so far. One file is enough: a comparison makes
// one run after the other.
std::string unfinished_path(const std::string& out);

}  // namespace locant::study
