// Sizes of a comparison that have names.
#pragma once

#include <string>
#include <vector>

#include "locant/study/comparison.h"

namespace locant::cli {

struct Preset {
  std::vector<std::string> schemes;
  std::vector<uint64_t> seeds;
  std::vector<std::string> tasks;
  study::Settings settings;
  study::TaskEffort effort;
};

// "smoke", "quick" or "full"; throws std::invalid_argument.
Preset preset_named(const std::string& name);
std::string preset_help();

// Another training length under the same preset: the evaluation budgets grow with it where the longest
// test window would not fit. Throws std::invalid_argument unless 2 <= length <= 65536.
void scale_to_length(study::Settings& settings, int64_t length);

// Steps, and the warm-up that goes with them.
void set_steps(study::Settings& settings, int64_t steps);

std::string join(const std::vector<std::string>& words);  // "a, b, c"

}  // namespace locant::cli
