// locant train: one model, kept as a safetensors file.
#include <fmt/format.h>

#include <chrono>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/progress.h"
#include "locant/cli/say.h"
#include "locant/data/batches.h"
#include "locant/data/corpus.h"
#include "locant/study/comparison.h"
#include "locant/study/json.h"
#include "locant/train/trainer.h"

namespace locant::cli {
namespace {

struct TrainArguments {
  std::string scheme, corpus, out = "model.safetensors";
  ModelConfig model;
  TrainOptions train;
  int64_t threads = 0;
  bool json = false;
};

int train_action(TrainArguments args) {
  if (args.model.length < 2) {
    fail("train", "--length must be at least 2 (at one token there is no distance), got ", args.model.length);
  }
  const Corpus corpus = load_corpus(args.corpus);
  require_length(corpus, args.model.length, 1);
  args.model.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
  args.model.bytes = corpus.vocabulary;
  args.model.scheme =
      study::fitted_specification(args.scheme, args.model.length, args.model.initial_deviation);
  args.model.check();
  args.train.check();
  catch_signals();
  const std::unique_ptr<Executor> executor = make_executor(args.threads);
  Model model(args.model);
  Trainer trainer(model, args.train, *executor);
  const BatchSampler sampler(corpus.train(), args.train.batch, args.model.length, args.model.seed);
  std::vector<int32_t> inputs(static_cast<size_t>(args.train.batch * args.model.length));
  std::vector<int32_t> targets(inputs.size());

  Progress progress(args.scheme);
  const auto begin = std::chrono::steady_clock::now();
  StepResult result;
  for (int64_t step = 0; step < args.train.steps && !stop_requested(); ++step) {
    sampler.fill(static_cast<uint64_t>(step), inputs, targets);
    result = trainer.step(inputs, targets);
    if (!result.finite) {
      progress.clear();
      say("locant: loss or gradient not finite at step {}; the model before it is saved\n", step + 1);
      break;
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    progress.update(step + 1, args.train.steps,
                    fmt::format("loss {:.3f}, {:.0f} tokens/s", result.loss,
                                double((step + 1) * args.train.batch * args.model.length) / seconds));
  }
  progress.clear();
  save_model(model, args.out);
  if (args.json) {
    study::JsonObject json;
    json.text("model", args.out).text("scheme", args.model.scheme).integer("steps", trainer.steps_done());
    json.real("loss", result.loss).integer("parameters", model.parameters());
    fmt::print("{}\n", json.str());
  } else {
    fmt::print("{}: {} after {} steps, loss of the last batch {:.3f}\n", args.out, args.model.scheme,
               trainer.steps_done(), result.loss);
  }
  return !result.finite ? kFailed : trainer.steps_done() < args.train.steps ? kStopped : kDone;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto args = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train one model on a text and save it.");
  command->add_option("scheme", args->scheme, "As in alibi or t5(buckets=32); the rest is fitted to --length")->required();
  command->add_option("--corpus", args->corpus, "UTF-8 text file, or a folder of them")->required();
  command->add_option("--out", args->out, "The model, a safetensors file")->capture_default_str();
  command->add_option("--length", args->model.length, "Training length in bytes")->capture_default_str();
  command->add_option("--steps", args->train.steps)->capture_default_str();
  command->add_option("--batch", args->train.batch, "Sequences a step")->capture_default_str();
  command->add_option("--layers", args->model.layers)->capture_default_str();
  command->add_option("--width", args->model.width)->capture_default_str();
  command->add_option("--heads", args->model.heads, "Divides the width")->capture_default_str();
  command->add_option("--feed-forward", args->model.feed_forward, "Hidden width, 0 = 4 times the width")->capture_default_str();
  command->add_option("--learning-rate", args->train.learning_rate)->capture_default_str();
  command->add_option("--table-rate", args->train.table_learning_rate_multiplier,
                      "Learning rate of position tables, as a multiple")->capture_default_str();
  command->add_option("--seed", args->model.seed)->check(CLI::NonNegativeNumber)->capture_default_str();
  command->add_option("--threads", args->threads, "0 = all; results do not depend on it")->capture_default_str();
  command->add_flag("--json", args->json, "Print the result as a line of JSON");
  command->footer("Example: locant train rope --corpus book.txt --out rope.safetensors");
  command->callback([args, &action] { action = [args] { return train_action(*args); }; });
}

}  // namespace locant::cli
