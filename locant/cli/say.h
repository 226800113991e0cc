// Words for a person, on standard error, behind what was printed before: both may go to one file. A closed
// or full standard error is no reason to fail.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace locant::cli {

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
  std::fflush(stdout);
  std::fputs(fmt::format(text, std::forward<Args>(args)...).c_str(), stderr);
}

}  // namespace locant::cli
