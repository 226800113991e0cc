// locant sample: text by a saved model, token by token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/say.h"
#include "locant/cli/test_options.h"
#include "locant/cli/whole.h"
#include "locant/study/json.h"
#include "locant/train/generate.h"

namespace locant::cli {
namespace {

struct SampleArguments {
  std::string model, prompt, scheme;
  int64_t length = 200;
  Sampling sampling;
  uint64_t seed = 0;
  bool recompute = false, json = false;
};

// The prompt's bytes as tokens; one that the model never saw is named.
std::vector<int32_t> tokens_of(const std::string& prompt, const Model& model, const std::string& path) {
  const std::string& bytes = model.config().bytes;
  if (bytes.empty()) fail("sample", path, " does not say which bytes its tokens are");
  if (prompt.empty()) fail("sample", "--prompt is empty: the model needs at least a byte to go on from");
  const std::vector<std::string> learned = tasks_learned(model.config());
  std::vector<int32_t> tokens;
  for (size_t n = 0; n < prompt.size(); ++n) {
    const size_t token = bytes.find(prompt[n]);
    if (token == std::string::npos) {
      const auto byte = static_cast<unsigned char>(prompt[n]);
      const bool shown = byte > 0x20 && byte < 0x7f;
      fail("sample", "byte ", fmt::format("0x{:02x}", byte), shown ? fmt::format(" ('{}')", prompt[n]) : "",
           " at offset ", n, " of the prompt was not in ", learned.empty() ? "the text the model was trained on"
           : fmt::format("the questions of the task the model was trained on ({})", fmt::join(learned, " or ")));
    }
    tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

int sample_action(const SampleArguments& args) {
  check_model_path("sample", "model", args.model);
  args.sampling.check();
  const Model model = load_model(args.model);
  if (model.config().encoder) {
    const std::vector<std::string> learned = tasks_learned(model.config());
    fail("sample", args.model, " is an encoder", learned.empty() ? "" : fmt::format(" ({})", fmt::join(learned, " or ")),
         ": it answers at every place at once and writes no text; expected a model that reads from left to right. Its shares of "
         "right answers are in the records of the comparison that made it (`locant report FOLDER`)");
  }
  check_test_scheme("sample", model, args.scheme);
  std::vector<int32_t> tokens = tokens_of(args.prompt, model, args.model);
  catch_signals();
  const auto capacity = static_cast<int64_t>(tokens.size()) + args.length;
  Generator generator(model, 1, capacity, {.reading = {.scheme = args.scheme, .repeat_last_row = true},
                                           .cached = !args.recompute});
  if (!args.json) fmt::print("{}", args.prompt);
  std::fflush(stdout);
  Random random(args.seed, stream_of("sample"));
  std::string text;
  for (int64_t n = 0; n < args.length && !stop_requested(); ++n) {
    const std::span<const float> logits = generator.read(tokens);
    if (std::any_of(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); })) {
      say("{}locant: [sample] {}: its scores are not finite; such weights are good for nothing\n", args.json ? "" : "\n", args.model);
      return kFailed;
    }
    const int32_t token = choose(logits, args.sampling, random);
    tokens.assign(1, token);
    const char byte = model.config().bytes[static_cast<size_t>(token)];
    text += byte;
    if (args.json) continue;
    std::fputc(byte, stdout);
    std::fflush(stdout);
  }
  const int64_t rows = make_scheme(args.scheme.empty() ? model.config().scheme : args.scheme)->table_length();
  // The last byte that is written is not read.
  const bool past_rows = rows >= 0 && static_cast<int64_t>(args.prompt.size() + text.size()) - 1 > rows;
  if (args.json) {
    study::JsonObject json;
    json.text("prompt", args.prompt).text("text", text).raw("seed", std::to_string(args.seed));
    json.raw("stopped", static_cast<int64_t>(text.size()) < args.length ? "true" : "false");
    if (past_rows) json.raw("repeated_rows", "true");
    fmt::print("{}\n", json.str());
  } else {
    fmt::print("\n");
  }
  if (past_rows) say("locant: [sample] past {} tokens the table has no rows; its last was repeated\n", rows);
  return stop_requested() ? kStopped : kDone;
}

}  // namespace

void add_sample(CLI::App& app, Action& action) {
  auto args = std::make_shared<SampleArguments>();
  CLI::App* command = app.add_subcommand(
      "sample", "Let a saved model go on with a text, byte by byte; positions go on past its training length.");
  command->add_option("model", args->model, "A file that `locant train` or `locant compare` saved")->required();
  command->add_option("--prompt", args->prompt, "The text to go on with")->required();
  add_whole(command, "--length", args->length, 1, 1 << 20, "Bytes to write")->capture_default_str();
  command->add_option("--temperature", args->sampling.temperature, "0: always the likeliest byte")
      ->capture_default_str();
  add_whole(command, "--top-k", args->sampling.top_k, 0, 256, "Only the k likeliest bytes, 0 = all")->capture_default_str();
  add_whole(command, "--seed", args->seed, 0, UINT64_MAX, "The same seed writes the same text")->capture_default_str();
  command->add_option("--scheme", args->scheme, kTestSchemeHelp);
  command->add_flag("--recompute", args->recompute, "Read everything again for every byte, without a cache: the same text, slower");
  command->add_flag("--json", args->json, "Print a line of JSON");
  command->footer("Example: locant sample rope.safetensors --prompt 'In the beginning ' --temperature 0.8");
  command->callback([args, &action] { action = [args] { return sample_action(*args); }; });
}

}  // namespace locant::cli
