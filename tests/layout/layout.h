// The rules of the house, as a function from a source tree to a list of complaints:
// which folder may include which, no third-party header in the core, instruction sets only in simd/,
// nothing of std:: in code compiled for one of them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace locant::layout {

// Each complaint reads "path:line: what is wrong".
std::vector<std::string> complaints_about_includes(const std::filesystem::path& root);

// The standard library in code compiled once for each instruction set (*-inl.h and what it includes):
// the linker could keep such a copy for everybody. Types that make no code are fine. And the compiler's
// own bf16 type, whose constants g++ 12 gets wrong on AArch64 (tests/arm/).
std::vector<std::string> complaints_about_instruction_set_code(const std::filesystem::path& root);

// Paths of somebody's machine and merge leftovers in any text file of the project.
std::vector<std::string> complaints_about_words(const std::filesystem::path& root);

}  // namespace locant::layout
