// Where a command writes: held against what it reads and against the disk before the work begins.
#pragma once

#include <string>
#include <vector>

#include "locant/cli/command.h"

namespace locant::cli {

// An option or argument and the path it was given: "--out", "page.html".
struct NamedPath {
  std::string option, path;
};

// What a comparison needs in its folder to go on.
inline constexpr const char* kComparisonFiles[] = {"records.jsonl", "asked.json", "lock", "unfinished.safetensors"};

// What was given for these options of a command, or their default; nothing for an option with neither.
std::vector<NamedPath> paths_of(const CLI::App& command, const std::vector<std::string>& options);

// Each output must be a file that can be made: in a folder that is there and can be written, no folder itself,
// not one of `inputs` (by whatever name or link) nor of the other outputs, no records.jsonl, not inside an input
// that is a folder. Throws std::invalid_argument with command, option, path and what was expected. A file that is
// there stays as it is.
void check_outputs(const std::string& command, const std::vector<NamedPath>& outputs,
                   const std::vector<NamedPath>& inputs);

// A comparison's folder, there or to be made; nothing is made yet. No file it writes there may be an input.
void check_output_folder(const std::string& command, const NamedPath& folder, const std::vector<NamedPath>& inputs);

}  // namespace locant::cli
