// The rules of the house, as a function from a source tree to a list of complaints:
// which folder may include which, no third-party header in the core, instruction sets only in simd/.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace locant::layout {

// Each complaint reads "path:line: what is wrong".
std::vector<std::string> complaints_about_includes(const std::filesystem::path& root);

// Paths of somebody's machine and merge leftovers in any text file of the project.
std::vector<std::string> complaints_about_words(const std::filesystem::path& root);

}  // namespace locant::layout
