// What was asked of a comparison: from the words of the command line to lists and numbers, and kept in the
// comparison's folder, so that --resume goes on with everything asked for there so far.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "locant/cli/preset.h"

namespace locant::cli {

// As given; empty and 0: what the preset brings.
struct AskedWords {
  std::string schemes, corpus, preset = "quick", seeds, tasks;
  int64_t length = 0, steps = 0, task_steps = 0;
};

// All that decides the numbers.
struct Asked {
  std::string corpus, preset;  // absolute, empty for tasks alone; a name
  std::vector<std::string> schemes;
  std::vector<uint64_t> seeds;
  std::vector<std::string> tasks;
  int64_t length = 0, steps = 0, task_steps = 0;  // task_steps 0: as the task has it
  bool operator==(const Asked&) const = default;
};

// What --tasks takes.
std::vector<std::string> all_tasks();

// Throws std::invalid_argument.
Asked asked_from(const AskedWords& words);
study::ComparisonOptions options_of(const Asked& asked, const std::string& out);

// Where both ask for a task under different settings, how they differ: "recall: steps 3, here 4"; one folder cannot
// hold that. Empty: it can.
std::string difference(const Asked& before, const Corpus& its_corpus, const Asked& now, const Corpus& corpus);

// The one request that asks for the runs of both and nothing else; nothing where there is none (schemes and
// seeds differ: every scheme with every seed would be more).
std::optional<Asked> joined(const Asked& a, const Asked& b);
// `list` with one more, joined to others where that can be run.
std::vector<Asked> with(std::vector<Asked> list, Asked asked, const std::function<bool(const Asked&)>& can_run);

// OUT/asked.json. load_asked throws std::invalid_argument when it is broken; empty when there is none.
void save_asked(const std::string& out, const std::vector<Asked>& list);
std::vector<Asked> load_asked(const std::string& out);
std::string asked_path(const std::string& out);

}  // namespace locant::cli
