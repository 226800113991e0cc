// locant train: one model, kept as a safetensors file.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/memory.h"
#include "locant/cli/output_path.h"
#include "locant/cli/preset.h"
#include "locant/cli/progress.h"
#include "locant/cli/say.h"
#include "locant/cli/test_options.h"
#include "locant/cli/whole.h"
#include "locant/data/corpus.h"
#include "locant/position/registry.h"
#include "locant/study/comparison.h"
#include "locant/study/json.h"
#include "locant/study/training.h"
#include "locant/study/words.h"
#include "locant/train/trainer.h"

namespace locant::cli {
namespace {

struct TrainArguments {
  std::string scheme, corpus, out = "model.safetensors", from, scaling = "none";
  ModelConfig model;
  TrainOptions train;
  int64_t threads = 0;
  bool json = false, length_given = false;
};

// The scheme of `model` when it reads factor times its length: its own, or a scaling that it names.
std::string scaled_scheme(const Model& model, int64_t length, const std::string& scaling) {
  const int64_t original = model.config().length;
  if (scaling == "none") return model.config().scheme;
  std::vector<std::string> labels;
  for (const Variant& variant : model.scheme().test_time_variants(2, original)) labels.push_back(variant.label);
  if (labels.empty() && !make_scheme(std::string(model.scheme().name()))->test_time_variants(2, original).empty()) {
    fail("train", "--scaling ", scaling, ": the model is scaled already, ", specification(model.scheme()),
         "; expected the model that was not, or no --scaling (it goes on with its own)");
  }
  if (std::count(labels.begin(), labels.end(), scaling) == 0) {
    fail("train", "--scaling ", scaling, ": ", model.scheme().name(),
         labels.empty() ? " has no scalings" : " has " + join(labels));
  }
  if (length <= original) {
    fail("train", "--scaling ", scaling, " is for texts longer than the model was trained on: --length must be above ",
         original, ", got ", length);
  }
  for (const Variant& variant : model.scheme().test_time_variants(double(length) / double(original), original)) {
    if (variant.label == scaling) return variant.specification;
  }
  fail("train", "--scaling ", scaling, ": ", model.scheme().name(), " has none from length ", original, " to ", length);
}

// A new model, or a trained one that goes on.
Model begin_model(TrainArguments& args, Corpus& corpus) {
  if (!args.from.empty()) {
    if (!args.scheme.empty()) fail("train", "--from goes on with the scheme of its model; leave out ", args.scheme);
    check_model_path("train", "--from", args.from);
    const Model trained = load_model(args.from);
    if (trained.config().encoder) fail("train", args.from, " is an encoder: it cannot learn a text");
    if (const auto learned = tasks_learned(trained.config()); !learned.empty()) {
      fail("train", args.from, " was trained on a task (", fmt::format("{}", fmt::join(learned, " or ")),
           "): it knows no other bytes; expected a model of a text");
    }
    CorpusOptions options;
    options.vocabulary = trained.config().bytes;
    corpus = load_corpus(args.corpus, options);
    if (static_cast<int64_t>(corpus.vocabulary.size()) != trained.config().vocabulary) {
      fail("train", args.from, " knows ", trained.config().vocabulary, " byte values, ", args.corpus, " has ",
           corpus.vocabulary.size());
    }
    const int64_t length = args.length_given ? args.model.length : trained.config().length;
    return stretched(trained, length, scaled_scheme(trained, length, args.scaling));
  }
  if (args.scheme.empty()) fail("train", "a scheme or --from MODEL is needed; `locant schemes` lists them");
  if (args.scaling != "none") fail("train", "--scaling goes with --from MODEL");
  corpus = load_corpus(args.corpus);
  args.model.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
  args.model.bytes = corpus.vocabulary;
  args.model.scheme =
      study::fitted_specification(args.scheme, args.model.length, args.model.initial_deviation);
  args.model.check();
  require_memory_to_train("train", args.model);
  return Model(args.model);
}

// Where a training that did not come to its end leaves its model: beside `out` if something is there by now, under
// a name that nothing has yet (model.stopped.safetensors), so that no finished model is lost.
std::string place_of_stopped(const std::string& out) {
  if (!std::filesystem::exists(out)) return out;
  const std::filesystem::path path(out);
  const std::filesystem::path stem = path.parent_path() / path.stem();
  for (int n = 1;; ++n) {
    const std::string place =
        stem.string() + (n == 1 ? ".stopped" : fmt::format(".stopped{}", n)) + path.extension().string();
    if (!std::filesystem::exists(place)) return place;
  }
}

int train_action(TrainArguments args) {
  args.train.check();
  std::vector<NamedPath> inputs{{"--corpus", args.corpus}};
  if (!args.from.empty()) inputs.push_back({"--from", args.from});
  check_outputs("train", {{"--out", args.out}}, inputs);
  catch_signals();
  const std::unique_ptr<Executor> executor = make_executor(args.threads);
  Corpus corpus;
  Model model = begin_model(args, corpus);
  model.add_text(corpus.fingerprint);
  const ModelConfig& config = model.config();
  require_length(corpus, config.length, 1);
  Trainer trainer(model, args.train, *executor);

  Progress progress(model.scheme().name());
  study::Lesson lesson = study::lesson_of_text(corpus, args.train.batch, config.length, args.model.seed);
  lesson.stop = stop_requested;
  double last_loss = 0;
  lesson.step_done = [&](int64_t step, int64_t steps, double loss, double rate) {
    last_loss = loss;
    progress.update(step, steps, fmt::format("loss {:.3f}, {:.0f} tokens/s", loss, rate));
  };
  study::Course course;
  const bool finished = study::follow(lesson, trainer, config, course);
  progress.clear();
  if (course.spoiled || !trainer.finite()) {
    say("locant: diverged: {}; nothing is saved, as such a model is good for nothing (a lower --learning-rate may help)\n",
        course.error.empty() ? "weights not finite" : course.error);
    return kFailed;
  }
  if (!course.error.empty()) say("locant: diverged: {}; the model before it is saved\n", course.error);
  const bool whole = finished && course.error.empty();
  const std::string out = whole ? args.out : place_of_stopped(args.out);
  save_model(model, out);
  if (args.json) {
    study::JsonObject json;
    json.text("model", out).text("scheme", config.scheme).integer("steps", trainer.steps_done());
    json.real("loss", last_loss).integer("parameters", model.parameters());
    json.raw("stopped", finished ? "false" : "true");
    fmt::print("{}\n", json.str());
  } else {
    const std::string done = study::counted(trainer.steps_done(), "step");
    fmt::print("{}: {} {}, loss of the last batch {:.3f}{}\n", out, config.scheme,
               whole ? "after " + done : fmt::format("stopped after {} of {}", done, args.train.steps), last_loss,
               out == args.out ? "" : fmt::format("; {}, which was there before, is as it was", args.out));
  }
  return !course.error.empty() ? kFailed : !finished ? kStopped : kDone;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto args = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train one model on a text and save it.");
  command->add_option("scheme", args->scheme, "As in alibi or t5(buckets=32); the rest is fitted to --length");
  command->add_option("--corpus", args->corpus, "UTF-8 text file, or a folder of them")->required();
  command->add_option("--out", args->out, "The model, a safetensors file; one that is there gives way to a finished model alone")->capture_default_str();
  CLI::Option* from = command->add_option("--from", args->from, "Go on with a saved model in place of a new one");
  command->add_option("--scaling", args->scaling, "With --from: none, or a scaling of its scheme to --length (pi, ntk, yarn)")
      ->capture_default_str();
  add_whole(command, "--length", args->model.length, 2, 1 << 24, "Training length in bytes")->capture_default_str();
  add_whole(command, "--steps", args->train.steps, 1, 1000000000, "")->capture_default_str();
  add_whole(command, "--batch", args->train.batch, 1, 1000000, "Sequences a step")->capture_default_str();
  add_whole(command, "--layers", args->model.layers, 1, 1024, "")->excludes(from)->capture_default_str();
  add_whole(command, "--width", args->model.width, 1, 65536, "")->excludes(from)->capture_default_str();
  add_whole(command, "--heads", args->model.heads, 1, 4096, "Divides the width")->excludes(from)->capture_default_str();
  add_whole(command, "--feed-forward", args->model.feed_forward, 0, 1 << 20, "Hidden width, 0 = 4 times the width")
      ->excludes(from)->capture_default_str();
  command->add_option("--learning-rate", args->train.learning_rate)->capture_default_str();
  command->add_option("--table-rate", args->train.table_learning_rate_multiplier,
                      "Learning rate of position tables, as a multiple")->capture_default_str();
  add_whole(command, "--seed", args->model.seed, 0, UINT64_MAX, "")->capture_default_str();
  add_whole(command, "--threads", args->threads, 0, 1024, "0 = all; results do not depend on it")->capture_default_str();
  command->add_flag("--json", args->json, "Print the result as a line of JSON");
  command->footer("Examples:\n  locant train rope --corpus book.txt --out rope.safetensors\n"
                  "  locant train --from rope.safetensors --length 128 --scaling pi --steps 70 --corpus book.txt --out rope-128.safetensors");
  command->callback([args, command, &action] {
    args->length_given = command->count("--length") > 0;
    action = [args] { return train_action(*args); }; });
}

}  // namespace locant::cli
