// locant eval: a saved model at the lengths and in the three ways of the protocol.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/preset.h"
#include "locant/cli/progress.h"
#include "locant/cli/say.h"
#include "locant/cli/test_options.h"
#include "locant/cli/whole.h"
#include "locant/data/corpus.h"
#include "locant/data/tasks.h"
#include "locant/study/json.h"
#include "locant/study/protocol.h"
#include "locant/study/summary.h"
#include "locant/train/model.h"

namespace locant::cli {
namespace {

struct EvalArguments {
  std::string model, corpus, scheme, part = "test";
  int64_t threads = 0;
  bool json = false;
};

// Read with the model's own bytes: one it never saw is an error that names it. What the model was trained on, where
// that is no text, is told too.
Corpus corpus_for(const Model& model, const EvalArguments& args) {
  const ModelConfig& config = model.config();
  const std::vector<std::string> answers = tasks_learned(config);
  Question question;
  std::string prompt;
  if (!answers.empty()) {
    const Task& task = task_named(answers.back());
    question = test_questions(task, task.test_lengths.front(), 1).front();
    prompt = task.text(question.prompt);
  }
  std::string trained;
  if (!answers.empty() || config.encoder) {
    trained = fmt::format("{} was trained on a task ({}), not on a text: its shares of right answers are in the records "
                          "of the comparison that made it (`locant report FOLDER`)",
                          args.model, answers.empty() ? "an encoder's" : fmt::format("{}", fmt::join(answers, " or ")));
    if (!config.encoder) {
      trained += fmt::format(", and `locant sample {} --prompt '{}' --length {} --temperature 0` lets it answer", args.model,
                             prompt, question.answer.size());
    }
  }
  if (config.encoder) fail("eval", trained);
  CorpusOptions options;
  options.vocabulary = config.bytes;
  try {
    return load_corpus(args.corpus, options);
  } catch (const std::invalid_argument&) {
    if (trained.empty()) throw;
    fail("eval", trained);  // whatever is wrong with the text, no other would do
  }
}

// Losses of another text than that of the training are no error, but nobody should take them for the model's own.
void say_other_text(const Model& model, const Corpus& corpus, const EvalArguments& args) {
  const std::vector<uint64_t>& texts = model.config().texts;
  if (texts.empty() || std::count(texts.begin(), texts.end(), corpus.fingerprint)) return;
  std::vector<std::string> learned;
  for (const uint64_t text : texts) learned.push_back(fingerprint_text(text));
  say("locant: [eval] {} (fingerprint {}) is not the text that {} was trained on ({}): these are losses of another text\n",
      args.corpus, fingerprint_text(corpus.fingerprint), args.model, fmt::join(learned, " and "));
}

int eval_action(const EvalArguments& args) {
  check_model_path("eval", "model", args.model);
  const Model model = load_model(args.model);
  check_test_scheme("eval", model, args.scheme);
  const Corpus corpus = corpus_for(model, args);
  const int64_t length = model.config().length;
  if (static_cast<int64_t>(corpus.vocabulary.size()) != model.config().vocabulary) {
    fail("eval", args.model, " knows ", model.config().vocabulary, " byte values, ", args.corpus, " has ",
         corpus.vocabulary.size(), "; evaluate on the text it was trained on");
  }
  require_length(corpus, length);
  say_other_text(model, corpus, args);
  const auto text = args.part == "train" ? corpus.train() : args.part == "validation" ? corpus.validation() : corpus.test();
  const std::string name = parse_specification(model.config().scheme).name;

  study::Record record;
  record.name = name;
  record.scheme = model.config().scheme;
  record.test_scaling = args.scheme.empty() ? "none" : args.scheme;
  record.settings = preset_named("quick").settings;
  scale_to_length(record.settings, length);
  catch_signals();
  const std::unique_ptr<Executor> executor = make_executor(args.threads);
  Progress progress(name);
  const size_t count = study::protocol_count(length);
  const auto scheme_at = [&](int64_t) { return args.scheme; };
  const bool went_on = study::evaluate_protocols(
      model, text, *executor, args.scheme.empty() ? std::function<std::string(int64_t)>() : scheme_at,
      [&](size_t done) {
        progress.update(int64_t(done), int64_t(count), fmt::format("{} of {} lengths", done, count));
        return !stop_requested();
      },
      record);
  progress.clear();
  for (const auto& [protocol, by_length] : record.losses) {
    for (const auto& [test_length, loss] : by_length) {
      if (std::isfinite(loss)) continue;
      say("locant: [eval] {}: its loss at length {} is not finite; such weights are good for nothing\n", args.model, test_length);
      return kFailed;
    }
  }
  if (args.json) {
    for (const auto& [protocol, by_length] : record.losses) {
      for (const auto& [test_length, loss] : by_length) {
        study::JsonObject json;
        json.text("model", args.model).text("scheme", args.scheme.empty() ? record.scheme : args.scheme);
        json.text("protocol", protocol).integer("length", test_length).real("loss", loss);
        const auto& repeated = record.repeated_rows;
        if (std::count(repeated.begin(), repeated.end(), test_length)) json.raw("repeated_rows", "true");
        fmt::print("{}\n", json.str());
      }
    }
  } else {
    fmt::print("{}\n{:<16}", args.scheme.empty() ? record.scheme : args.scheme, "loss at length");
    for (int64_t at : study::test_lengths(length)) fmt::print("{:>10}", at);
    fmt::print("\n");
    for (const char* protocol : {study::kWindows, study::kSameTargets, study::kSliding}) {
      fmt::print("{:<16}", protocol);
      for (int64_t at : study::test_lengths(length)) {
        const auto& by_length = record.losses[protocol];
        fmt::print("{:>10}", by_length.count(at) ? fmt::format("{:.4f}", by_length.at(at)) : "-");
      }
      fmt::print("\n");
    }
    if (!record.repeated_rows.empty()) {
      fmt::print("Past {} tokens the last row of the table was repeated, whatever its option `beyond` says.\n", length);
    }
  }
  return went_on ? kDone : kStopped;
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  auto args = std::make_shared<EvalArguments>();
  CLI::App* command = app.add_subcommand(
      "eval", "Test a saved model at 1 to 16 times its training length, in the three ways of the protocol.");
  command->add_option("model", args->model, "A file that `locant train` or `locant compare` saved")->required();
  command->add_option("--corpus", args->corpus, "The text it was trained on")->required();
  command->add_option("--scheme", args->scheme, kTestSchemeHelp);
  command->add_option("--part", args->part, "Part of the text")
      ->check(CLI::IsMember({"train", "validation", "test"}))->capture_default_str();
  add_whole(command, "--threads", args->threads, 0, 1024, "0 = all; results do not depend on it")->capture_default_str();
  command->add_flag("--json", args->json, "Print a line of JSON for each loss");
  command->footer("Example: locant eval rope.safetensors --corpus book.txt --scheme 'rope(scaling=ntk,factor=4)'");
  command->callback([args, &action] { action = [args] { return eval_action(*args); }; });
}

}  // namespace locant::cli
