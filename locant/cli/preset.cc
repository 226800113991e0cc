#include "locant/cli/preset.h"

#include <fmt/format.h>

#include <algorithm>

#include "locant/base/check.h"
#include "locant/position/registry.h"
#include "locant/train/trainer.h"

namespace locant::cli {
namespace {

// The schemes of the founding papers; the rest of the registry came after them.
const std::vector<std::string> kEleven{"sinusoidal", "learned", "nope", "shaw", "music_transformer",
                                       "transformer_xl", "t5", "scalar_table", "deberta", "rope", "alibi"};

}  // namespace

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

Preset preset_named(const std::string& name) {
  Preset preset;
  study::Settings& s = preset.settings;
  s.targets_windows = 49152;
  s.targets_same = 8192;
  s.targets_sliding = 12288;
  if (name == "smoke") {
    preset.schemes = scheme_names();
    preset.seeds = {0};
    s.train_length = 32;
    s.steps = 12;
    s.batch = 8;
    s.layers = 2;
    s.width = 32;
    s.heads = 2;
    s.feed_forward = 64;
    s.targets_windows = 1536;
    s.targets_same = 256;
    s.targets_sliding = 768;
    preset.tasks = {study::kLanguageModel, study::kFineTuning, "recall", "copy", "reverse_encoder"};
    preset.effort = {.steps = 3, .batch = 4, .layers = 1, .width = 16, .examples = 2};
  } else if (name == "quick") {
    preset.schemes = kEleven;
    preset.seeds = {0};
    preset.tasks = {study::kLanguageModel, study::kFineTuning, "recall"};
  } else if (name == "full") {
    preset.schemes = scheme_names();
    preset.seeds = {0, 1, 2};
    s.steps = 3000;
    preset.tasks = {study::kLanguageModel, study::kFineTuning, "recall", "reverse_encoder"};
  } else {
    fail("compare", "unknown preset ", name, "; there are: smoke, quick, full");
  }
  set_steps(s, s.steps);
  return preset;
}

void set_steps(study::Settings& settings, int64_t steps) {
  TrainOptions options;
  options.steps = settings.steps = steps;
  settings.warmup = options.warmup();
}

std::string preset_help() {
  return "smoke (every scheme, a few steps, under two minutes), quick (the eleven founding schemes, "
         "700 steps, one seed) or full (every scheme, 3000 steps, 3 seeds)";
}

void scale_to_length(study::Settings& settings, int64_t length) {
  if (length < 2 || length > 65536) fail("compare", "--length must be 2 to 65536, got ", length);
  settings.train_length = length;
  const int64_t longest = 16 * length;
  settings.targets_windows = std::max(settings.targets_windows, 3 * longest);
  settings.targets_sliding = std::max(settings.targets_sliding, longest + longest / 2);
  settings.targets_same = std::max(settings.targets_same, 8 * length);
}

}  // namespace locant::cli
