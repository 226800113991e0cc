// One run of a comparison: training, testing, its records.
#include "locant/study/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <sstream>

#include "locant/base/check.h"
#include "locant/data/tasks.h"
#include "locant/position/registry.h"
#include "locant/simd/dispatch.h"
#include "locant/study/distance_view.h"
#include "locant/study/protocol.h"
#include "locant/study/task_test.h"
#include "locant/study/training.h"
#include "locant/study/unfinished.h"
#include "locant/study/version.h"
#include "locant/train/evaluate.h"

namespace locant::study {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

int64_t peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// FLOPs of training on one token, forward and backward: 6 per weight of a linear layer (the tied head
// among them), and 3.5 times the forward of causal attention, 2 L width multiply-adds a layer halved.
double flops_per_token(const ModelConfig& c) {
  const double weights = double(c.layers) * (4.0 * double(c.width * c.width) +
                                             2.0 * double(c.width * c.hidden())) +
                         double(c.vocabulary * c.width);
  const double attention = double(c.layers) * 4.0 * double(c.length * c.width) / (c.encoder ? 1 : 2);
  return 6 * weights + 3.5 * attention;
}

// About 8000 targets of the validation part in windows of the training length.
std::vector<Window> validation_sample(const Corpus& corpus, const Settings& s) {
  const auto n_tokens = static_cast<int64_t>(corpus.validation().size());
  const int64_t count = std::max<int64_t>(1, std::min<int64_t>(8192, n_tokens - 1) / s.train_length);
  std::vector<Window> windows;
  for (int64_t n = 0; n < count; ++n) {
    windows.push_back({n * s.train_length, s.train_length, 0, s.train_length});
  }
  return windows;
}

// Trains `model` on `lesson`, to which stopping, keeping and showing are added. False when the watcher
// stopped it; the training is then kept, and one that was kept before is taken up.
bool train(Model& model, Lesson lesson, const TrainOptions& train_options, const RunContext& at,
           Record& record) {
  const std::string unfinished = unfinished_path(at.options.out);
  Trainer trainer(model, train_options, at.executor);
  Course course;
  const auto keep = [&](const Course& now) {
    Record so_far = record;
    so_far.curve = now.curve;
    so_far.validation = now.validation;
    trainer.save(unfinished, fmt::format("{} {} {} {} {}\n{}", now.sum, now.seconds, now.summed, now.rated_seconds,
                                         now.rated_steps, to_json(so_far)));
  };
  // Goes on from a stopped training if it was this one.
  const auto take_up = [&] {
    if (!fs::exists(unfinished)) return false;
    Record before;
    try {
      before = kept_record(unfinished);
    } catch (const std::invalid_argument& problem) {
      at.watcher.note(fmt::format("{} is damaged, the training it held begins again: {}", unfinished, problem.what()));
      std::error_code error;
      fs::remove(unfinished, error);
      return false;
    }
    if (before.key() != record.key()) return false;
    std::string note;
    try {
      note = trainer.load(unfinished);
    } catch (const std::invalid_argument& problem) {
      at.watcher.note(fmt::format("{}: begun again: {}", record.name, problem.what()));
      return false;
    }
    std::istringstream numbers(note.substr(0, note.find('\n')));
    numbers >> course.sum >> course.seconds >> course.summed >> course.rated_seconds >> course.rated_steps;
    if (before.threads != record.threads) {  // a rate is of one number of threads
      if (trainer.steps_done() == train_options.steps) {
        record.threads = before.threads;
      } else {
        course.rated_seconds = 0;
        course.rated_steps = 0;
      }
    }
    course.curve = before.curve;
    course.validation = before.validation;
    record.started = before.started;
    return true;
  };
  if (take_up()) {
    at.watcher.note(fmt::format("{}: taken up after step {}", record.name, trainer.steps_done()));
  }
  lesson.stop = [&] { return at.watcher.stop(); };
  lesson.keep = keep;
  lesson.step_done = [&](int64_t step, int64_t steps, double loss, double rate) {
    at.watcher.step_done(step, steps, loss, rate);
  };
  if (!follow(lesson, trainer, model.config(), course)) return false;
  record.curve = course.curve;
  record.validation = course.validation;
  record.diverged = !course.error.empty();
  record.error = course.error;
  if (!record.diverged) keep(course);  // testing can be stopped too
  const int64_t batch_tokens = train_options.batch * model.config().length;
  record.train_seconds = course.seconds;
  record.tokens_per_second = double(batch_tokens) * course.steps_per_second(trainer.steps_done());
  record.gflops = record.tokens_per_second * flops_per_token(model.config()) / 1e9;
  if (at.options.peak_gflops > 0) {
    record.peak_share = record.gflops / (at.options.peak_gflops * record.threads);
  }
  return true;
}

// Runs test(progress) on a trained model and notes its time; false when the watcher stopped it.
template <class Test>
bool run_test(Watcher& watcher, size_t count, Record& record, const Test& test) {
  const auto begin = Clock::now();
  const bool went_on = test([&](size_t done) {
    watcher.evaluation(done, count);
    return !watcher.stop();
  });
  if (went_on) record.evaluate_seconds = seconds_since(begin);
  return went_on;
}

// A number that is not finite makes the run a diverged one.
void find_infinite(Record& record) {
  for (const auto& [protocol, by_length] : record.losses) {
    for (const auto& [length, loss] : by_length) {
      if (std::isfinite(loss) || record.diverged) continue;
      record.diverged = true;
      record.error = fmt::format("{} loss at length {} not finite", protocol, length);
    }
  }
}

// The same weights under each test-time scaling the scheme names: a record for each.
bool evaluate_variants(const Model& model, const Record& trained, const Corpus& corpus,
                       Executor& executor, Watcher& watcher, std::vector<Record>& records) {
  for (const auto& [label, specifications] : test_scalings(model.scheme(), trained.settings.train_length)) {
    const auto& by_length = specifications;
    Record record = trained;
    record.test_scaling = label;
    record.losses.clear();
    record.repeated_rows.clear();
    record.curve.clear();
    record.validation.clear();
    record.tables.clear();
    const auto scheme_at = [&](int64_t length) {
      const auto at = by_length.find(length);
      return at == by_length.end() ? std::string() : at->second;
    };
    const bool went_on = run_test(watcher, 3 * by_length.size(), record, [&](const auto& progress) {
      return evaluate_protocols(model, corpus.test(), executor, scheme_at, progress, record);
    });
    if (!went_on) return false;
    find_infinite(record);
    records.push_back(std::move(record));
  }
  return true;
}

Record begun_record(const Run& run, const RunContext& at) {
  Record record = run.record();
  record.threads = at.executor.threads();
  record.machine = at.options.machine;
  record.instruction_set = simd::name(simd::chosen());
  record.version = version();
  record.started = now_text();
  return record;
}

void count_parameters(const Model& model, Record& record) {
  record.parameters = model.parameters();
  record.position_parameters = model.position_parameters();
}

std::vector<Record> run_language_model(const Run& run, const RunContext& at) {
  Record record = begun_record(run, at);
  Model model(run.model_config(at.corpus));
  model.add_text(at.corpus.fingerprint);
  count_parameters(model, record);
  const Settings& s = run.settings;
  Lesson lesson = lesson_of_text(at.corpus, s.batch, s.train_length, run.seed);
  const auto windows = validation_sample(at.corpus, s);
  const std::vector<int32_t> validation(at.corpus.validation().begin(), at.corpus.validation().end());
  lesson.validate = [&] { return evaluate(model, validation, windows, {}, at.executor).mean; };
  if (!train(model, lesson, run.train_options(), at, record)) return {};
  std::vector<Record> records;
  if (!record.diverged) {
    const bool went_on =
        run_test(at.watcher, protocol_count(s.train_length), record, [&](const auto& progress) {
          return evaluate_protocols(model, at.corpus.test(), at.executor, {}, progress, record);
        });
    if (!went_on) return {};
    record.tables = learned_tables(model, 2 * s.train_length);
    find_infinite(record);
    if (!record.diverged) save_model(model, model_path(at.options.out, record));
  }
  record.memory_mb = peak_memory_mb();
  records.push_back(record);
  if (!record.diverged &&
      !evaluate_variants(model, record, at.corpus, at.executor, at.watcher, records)) {
    return {};
  }
  return records;
}

// What a language model's run left for further training.
Model trained_model(const std::string& path, const Run& run, const RunContext& at) {
  std::string problem = "is missing";
  try {
    if (fs::exists(path)) return load_model(path, run.model_config(at.corpus));
  } catch (const std::invalid_argument& damage) {
    problem = fmt::format("is damaged ({})", damage.what());
  }
  throw LeftOut(fmt::format("the trained model {} {}; bring it back, or take its line out of {} and it is trained again",
                            path, problem, records_path(at.options.out)));
}

// The trained model goes on at a longer length under a test-time scaling, and is tested there.
std::vector<Record> run_fine_tuning(const Run& run, const RunContext& at) {
  Record record = begun_record(run, at);
  Record trained = record;
  trained.task = kLanguageModel;
  const std::string path = model_path(at.options.out, trained);
  const int64_t length = run.settings.tuned_length;
  Model model = stretched(trained_model(path, run, at), length, run.tuned_scheme);
  model.add_text(at.corpus.fingerprint);
  count_parameters(model, record);
  TrainOptions options = run.train_options();
  options.steps = run.settings.tuned_steps;
  options.warmup_steps = -1;
  const Lesson lesson = lesson_of_text(at.corpus, run.settings.batch, length, run.seed);
  if (!train(model, lesson, options, at, record)) return {};
  if (!record.diverged) {
    const auto scheme_at = [&](int64_t tested) {
      return tested == length ? model.config().scheme : std::string();
    };
    const bool went_on = run_test(at.watcher, 3, record, [&](const auto& progress) {
      return evaluate_protocols(model, at.corpus.test(), at.executor, scheme_at, progress, record);
    });
    if (!went_on) return {};
    find_infinite(record);
    if (!record.diverged) save_model(model, model_path(at.options.out, record));
  }
  record.memory_mb = peak_memory_mb();
  return {record};
}

std::vector<Record> run_task(const Run& run, const RunContext& at) {
  const Task& task = task_named(run.task);
  Record record = begun_record(run, at);
  record.gate = task.gate;
  Model model(run.model_config(at.corpus));
  count_parameters(model, record);
  Lesson lesson;
  lesson.fill = [&](uint64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) {
    fill_training(task, run.seed, step, run.settings.batch, inputs, targets);
  };
  if (!train(model, lesson, run.train_options(), at, record)) return {};
  if (!record.diverged) {
    const bool went_on =
        run_test(at.watcher, task.test_lengths.size(), record, [&](const auto& progress) {
          return test_task(model, task, at.executor, progress, record);
        });
    if (!went_on) return {};
    save_model(model, model_path(at.options.out, record));
  }
  record.memory_mb = peak_memory_mb();
  return {record};
}

}  // namespace

ModelConfig Run::model_config(const Corpus& corpus) const {
  ModelConfig config;
  config.bytes = settings.task.empty() ? corpus.vocabulary : task_named(settings.task).bytes;
  config.vocabulary = static_cast<int64_t>(config.bytes.size());
  config.layers = settings.layers;
  config.width = settings.width;
  config.heads = settings.heads;
  config.feed_forward = settings.feed_forward;
  config.length = settings.task.empty() ? settings.train_length : settings.sequence;
  config.scheme = scheme;
  config.seed = seed;
  config.encoder = settings.encoder;
  return config;
}

TrainOptions Run::train_options() const {
  TrainOptions options;
  options.steps = settings.steps;
  options.batch = settings.batch;
  options.learning_rate = settings.learning_rate;
  options.warmup_steps = settings.warmup;
  options.weight_decay = settings.weight_decay;
  options.clip = settings.clip;
  options.table_learning_rate_multiplier = settings.table_rate;
  return options;
}

Record Run::record() const {
  Record record;
  record.task = task;
  record.scheme = scheme;
  record.name = name;
  record.seed = seed;
  record.settings = settings;
  record.test_scaling = test_scaling;
  return record;
}

Settings task_settings(const Task& task, const TaskEffort& effort) {
  const auto or_else = [](int64_t given, int64_t otherwise) { return given > 0 ? given : otherwise; };
  Settings s;
  s.task = task.name;
  s.encoder = task.encoder;
  s.train_length = task.longest;
  s.sequence = task.sequence;
  s.steps = or_else(effort.steps, task.steps);
  s.batch = or_else(effort.batch, 64);
  s.layers = or_else(effort.layers, 3);
  s.width = or_else(effort.width, 64);
  s.heads = 4;
  s.feed_forward = 4 * s.width;
  s.examples = or_else(effort.examples, 256);
  // With the language models' 30 a learned table of rows drowns the symbols it is added to (recall: not
  // learned in 500 steps, in 200 with 3).
  s.table_rate = 3;
  s.learning_rate = task.learning_rate;
  TrainOptions options;
  options.steps = s.steps;
  s.warmup = options.warmup();
  return s;
}

std::vector<Record> make_run(const Run& run, const RunContext& at) {
  if (run.task == kLanguageModel) return run_language_model(run, at);
  if (run.task == kFineTuning) return run_fine_tuning(run, at);
  return run_task(run, at);
}

std::map<std::string, std::map<int64_t, std::string>> test_scalings(const Scheme& scheme,
                                                                    int64_t train_length) {
  std::map<std::string, std::map<int64_t, std::string>> scalings;
  for (int64_t length : test_lengths(train_length)) {
    if (length == train_length) continue;
    const double factor = double(length) / double(train_length);
    for (const Variant& v : scheme.test_time_variants(factor, train_length)) {
      scalings[v.label][length] = v.specification;
    }
  }
  return scalings;
}

}  // namespace locant::study
