#include "locant/cli/preset.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/position/registry.h"
#include "locant/study/json.h"
#include "locant/train/trainer.h"

namespace locant::cli {
namespace {

// The schemes of the founding papers; the rest of the registry came after them.
const std::vector<std::string> kEleven{"sinusoidal", "learned", "nope", "shaw", "music_transformer",
                                       "transformer_xl", "t5", "scalar_table", "deberta", "rope", "alibi"};

std::string asked_path(const std::string& out) { return out + "/asked.json"; }

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

void save_asked(const std::string& out, const Asked& asked) {
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) fail("compare", out, ": cannot be made a folder: ", error.message());
  study::JsonObject json;
  json.text("schemes", asked.schemes);
  json.text("corpus", asked.corpus.empty() ? "" : std::filesystem::absolute(asked.corpus).string());
  json.text("preset", asked.preset).text("seeds", asked.seeds);
  json.integer("length", asked.length).integer("steps", asked.steps);
  json.text("tasks", asked.tasks).integer("task_steps", asked.task_steps);
  write_atomically(asked_path(out), json.str() + "\n");
}

Asked load_asked(const std::string& out) {
  const std::string path = asked_path(out);
  if (!std::filesystem::exists(path)) {
    fail("compare", "--resume: there is no comparison in ", out, " (", path, " is missing)");
  }
  simdjson::dom::parser parser;
  simdjson::dom::element json;
  if (const auto error = parser.load(path).get(json)) {
    fail("compare", path, ": ", simdjson::error_message(error));
  }
  Asked asked;
  const auto text = [&](const char* name) {
    std::string_view value;
    if (json[name].get(value)) fail("compare", path, ": field ", name, " is missing");
    return std::string(value);
  };
  const auto integer = [&](const char* name) {
    int64_t value;
    if (json[name].get(value)) fail("compare", path, ": field ", name, " is missing");
    return value;
  };
  asked.schemes = text("schemes");
  asked.corpus = text("corpus");
  asked.preset = text("preset");
  asked.seeds = text("seeds");
  asked.length = integer("length");
  asked.steps = integer("steps");
  if (std::string_view tasks; !json["tasks"].get(tasks)) {  // since 0.2: what the preset brings
    asked.tasks = tasks;
    asked.task_steps = integer("task_steps");
  }
  return asked;
}

}  // namespace locant::cli
