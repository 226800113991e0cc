// What `locant eval` and `locant sample` are given: a saved model, and --scheme, its own scheme with other options.
#pragma once

#include <filesystem>
#include <string>

#include "locant/base/check.h"
#include "locant/position/options.h"
#include "locant/position/registry.h"
#include "locant/train/model.h"

namespace locant::cli {

inline constexpr const char* kTestSchemeHelp =
    "Read with other options of the model's own scheme, as in rope(scaling=linear,factor=4,original=64). Another "
    "scheme is refused: the weights know no other, and what it gives would say nothing of it";

// Also of `locant train --from`. Throws std::invalid_argument where there is no such file.
inline void check_model_path(const char* command, const char* option, const std::string& path) {
  if (path.empty()) fail(command, option, " \"\" is empty; expected a file that `locant train` or `locant compare` saved");
  if (!std::filesystem::exists(path)) fail(command, path, ": there is no such file");
}

// Throws std::invalid_argument for another scheme, or options that do not exist.
inline void check_test_scheme(const char* command, const Model& model, const std::string& text) {
  if (text.empty()) return;
  const std::string own = parse_specification(model.config().scheme).name;
  if (make_scheme(text)->name() == own) return;
  fail(command, "--scheme ", text, ": the model was trained with ", model.config().scheme,
       "; expected other options of ", own, ", as another scheme than the trained one would say nothing of either");
}

}  // namespace locant::cli
