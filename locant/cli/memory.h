// Whether there is memory for what is asked, and in which words that is said.
#pragma once

#include <fmt/format.h>

#include <string>

#include "locant/base/check.h"
#include "locant/measure/probe.h"
#include "locant/train/model.h"

namespace locant::cli {

inline std::string bytes_text(double bytes) {
  for (const char* unit : {"bytes", "kB", "MB", "GB"}) {
    if (bytes < 1000) return fmt::format("{:.3g} {}", bytes, unit);
    bytes /= 1000;
  }
  return fmt::format("{:.4g} TB", bytes);
}

// Throws std::invalid_argument when `what` needs more bytes than are free.
inline void require_memory(const char* operation, const std::string& what, double bytes) {
  const double free = measure::free_memory();
  if (bytes > free) fail(operation, what, " needs at least ", bytes_text(bytes), " of memory, ", bytes_text(free), " are free");
}

// For training: every learned number, its gradient and the two means of AdamW.
inline void require_memory_to_train(const char* operation, const ModelConfig& config) {
  const int64_t numbers = ParameterLayout(config).size();
  require_memory(operation, fmt::format("{} with its {} learned numbers", config.scheme, numbers), 16.0 * double(numbers));
}

}  // namespace locant::cli
