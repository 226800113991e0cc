// A stretch of text that a model reads, and which of its predictions count.
#pragma once

#include <cstdint>

namespace locant {

// The model reads tokens [start, start + length) at positions 0 .. length-1; its output at place p
// predicts token start + p + 1. The outputs at places [first_target, first_target + n_targets) count.
struct Window {
  int64_t start = 0;
  int64_t length = 0;
  int64_t first_target = 0;
  int64_t n_targets = 0;

  // Index in the text of the t-th counted target, and how many tokens are read before it.
  int64_t target(int64_t t) const { return start + first_target + t + 1; }
  int64_t context(int64_t t) const { return first_target + t + 1; }

  bool operator==(const Window&) const = default;
};

}  // namespace locant
