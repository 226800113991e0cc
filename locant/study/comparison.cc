#include "locant/study/comparison.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/data/batches.h"
#include "locant/position/registry.h"
#include "locant/simd/dispatch.h"
#include "locant/study/distance_view.h"
#include "locant/study/json.h"
#include "locant/study/protocol.h"
#include "locant/study/version.h"
#include "locant/train/evaluate.h"
#include "locant/train/trainer.h"

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

ModelConfig model_config(const Settings& s, const Corpus& corpus, const std::string& scheme,
                         uint64_t seed) {
  ModelConfig config;
  config.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
  config.bytes = corpus.vocabulary;
  config.layers = s.layers;
  config.width = s.width;
  config.heads = s.heads;
  config.feed_forward = s.feed_forward;
  config.length = s.train_length;
  config.scheme = scheme;
  config.seed = seed;
  return config;
}

TrainOptions train_options(const Settings& s) {
  TrainOptions options;
  options.steps = s.steps;
  options.batch = s.batch;
  options.learning_rate = s.learning_rate;
  options.warmup_steps = s.warmup;
  options.weight_decay = s.weight_decay;
  options.clip = s.clip;
  options.table_learning_rate_multiplier = s.table_rate;
  return options;
}

// The settings name the text they are for.
ComparisonOptions named_after(ComparisonOptions options, const Corpus& corpus) {
  options.settings.corpus = fs::path(corpus.path).filename().string();
  options.settings.corpus_fingerprint = fingerprint_text(corpus.fingerprint);
  return options;
}

// FLOPs of training on one token, forward and backward: 6 per weight of a linear layer (the tied head
// among them), and 3.5 times the forward of causal attention, 2 L width multiply-adds a layer halved.
double flops_per_token(const Settings& s, int64_t vocabulary) {
  const double weights = double(s.layers) * (4.0 * double(s.width * s.width) +
                                             2.0 * double(s.width * s.feed_forward)) +
                         double(vocabulary * s.width);
  const double attention = double(s.layers) * 4.0 * double(s.train_length * s.width) / 2;
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

// A training that was stopped, beside what its record held so far. One file is enough: a comparison
// makes one run after the other.
std::string unfinished_path(const std::string& out) { return out + "/unfinished.safetensors"; }

// What the loop of one training carries from step to step.
struct Course {
  double sum = 0, seconds = 0;  // of losses since the last point of the curve; of steps
  int64_t summed = 0;
};

void keep_unfinished(const std::string& out, const Trainer& trainer, const Course& course,
                     const Record& record) {
  trainer.save(unfinished_path(out), fmt::format("{} {} {}\n{}", course.sum, course.seconds,
                                                 course.summed, to_json(record)));
}

// Goes on from a stopped training if it was this one; any other file there is left alone.
bool take_up_unfinished(const std::string& out, Trainer& trainer, Course& course, Record& record) {
  if (!fs::exists(unfinished_path(out))) return false;
  std::string note;
  try {
    note = trainer.load(unfinished_path(out));
  } catch (const std::invalid_argument&) {
    return false;
  }
  const size_t line = note.find('\n');
  std::istringstream numbers(note.substr(0, line));
  numbers >> course.sum >> course.seconds >> course.summed;
  const Record before = record_from_json(note.substr(line + 1), unfinished_path(out));
  record.curve = before.curve;
  record.validation = before.validation;
  record.started = before.started;
  return true;
}

// Training of one run. False when the watcher stopped it; the training is then kept.
bool train(Model& model, const ComparisonOptions& options, const Corpus& corpus, uint64_t seed,
           Executor& executor, Watcher& watcher, Record& record) {
  const Settings& s = options.settings;
  Trainer trainer(model, train_options(s), executor);
  const BatchSampler sampler(corpus.train(), s.batch, s.train_length, seed);
  std::vector<int32_t> inputs(static_cast<size_t>(s.batch * s.train_length)), targets(inputs.size());
  const int64_t every = std::max<int64_t>(1, s.steps / 100);  // a hundred points a curve,
  const int64_t check_every = std::max<int64_t>(1, s.steps / 10);  // ten of validation
  const auto validation_windows = validation_sample(corpus, s);
  const std::vector<int32_t> validation(corpus.validation().begin(), corpus.validation().end());

  constexpr double kKeepSeconds = 30;
  Course course;
  if (take_up_unfinished(options.out, trainer, course, record)) {
    watcher.note(fmt::format("{}: taken up after step {}", record.name, trainer.steps_done()));
  }
  auto kept = Clock::now();
  for (int64_t step = trainer.steps_done(); step < s.steps; ++step) {
    const bool stop = watcher.stop();
    if (stop || seconds_since(kept) > kKeepSeconds) {
      keep_unfinished(options.out, trainer, course, record);
      kept = Clock::now();
    }
    if (stop) return false;
    const auto begin = Clock::now();
    sampler.fill(static_cast<uint64_t>(step), inputs, targets);
    const StepResult result = trainer.step(inputs, targets);
    course.seconds += seconds_since(begin);
    if (!result.finite) {
      record.diverged = true;
      record.error = fmt::format("loss or gradient not finite at step {}", step + 1);
      break;
    }
    course.sum += result.loss;
    ++course.summed;
    if ((step + 1) % every == 0 || step + 1 == s.steps) {
      record.curve.emplace_back(step + 1, course.sum / double(course.summed));
      course.sum = 0;
      course.summed = 0;
    }
    if ((step + 1) % check_every == 0 || step + 1 == s.steps) {
      const Evaluation at = evaluate(model, validation, validation_windows, {}, executor);
      record.validation.emplace_back(step + 1, at.mean);
    }
    watcher.step_done(step + 1, s.steps, result.loss,
                      double((step + 1) * s.batch * s.train_length) / course.seconds);
  }
  // Testing can be stopped too.
  if (!record.diverged) keep_unfinished(options.out, trainer, course, record);
  const auto tokens = double(std::max<int64_t>(1, trainer.steps_done()) * s.batch * s.train_length);
  record.train_seconds = course.seconds;
  record.tokens_per_second = tokens / course.seconds;
  record.gflops =
      record.tokens_per_second * flops_per_token(s, int64_t(corpus.vocabulary.size())) / 1e9;
  if (options.peak_gflops > 0) {
    record.peak_share = record.gflops / (options.peak_gflops * executor.threads());
  }
  return true;
}

// The same weights under each test-time scaling the scheme names: a record for each.
bool evaluate_variants(const Model& model, const Record& trained, const Corpus& corpus,
                       Executor& executor, Watcher& watcher, std::vector<Record>& records) {
  const int64_t L = trained.settings.train_length;
  std::map<std::string, std::map<int64_t, std::string>> variants;  // [label][length]
  for (int64_t length : test_lengths(L)) {
    if (length == L) continue;
    for (const Variant& v : model.scheme().test_time_variants(double(length) / double(L), L)) {
      variants[v.label][length] = v.specification;
    }
  }
  for (const auto& [label, by_length] : variants) {
    Record record = trained;
    record.test_scaling = label;
    record.losses.clear();
    record.repeated_rows.clear();
    record.curve.clear();
    record.validation.clear();
    record.tables.clear();
    const auto begin = Clock::now();
    const size_t count = 3 * by_length.size();
    const bool went_on = evaluate_protocols(
        model, corpus.test(), executor,
        [&](int64_t length) {
          const auto at = by_length.find(length);
          return at == by_length.end() ? std::string() : at->second;
        },
        [&](size_t done) {
          watcher.evaluation(done, count);
          return !watcher.stop();
        },
        record);
    if (!went_on) return false;
    record.evaluate_seconds = seconds_since(begin);
    records.push_back(std::move(record));
  }
  return true;
}

// Everything about one run; empty when the watcher stopped it.
std::vector<Record> run_one(const Run& run, const ComparisonOptions& options, const Corpus& corpus,
                            Executor& executor, Watcher& watcher) {
  Record record;
  record.scheme = run.scheme;
  record.name = run.name;
  record.seed = run.seed;
  record.settings = options.settings;
  record.threads = executor.threads();
  record.machine = options.machine;
  record.instruction_set = simd::name(simd::chosen());
  record.version = version();
  record.started = now_text();

  Model model(model_config(options.settings, corpus, run.scheme, run.seed));
  record.parameters = model.parameters();
  record.position_parameters = model.position_parameters();
  if (!train(model, options, corpus, run.seed, executor, watcher, record)) return {};
  std::vector<Record> records;
  if (!record.diverged) {
    const auto begin = Clock::now();
    const size_t count = protocol_count(options.settings.train_length);
    const bool went_on = evaluate_protocols(
        model, corpus.test(), executor, {},
        [&](size_t done) {
          watcher.evaluation(done, count);
          return !watcher.stop();
        },
        record);
    if (!went_on) return {};
    record.evaluate_seconds = seconds_since(begin);
    record.tables = learned_tables(model, 2 * options.settings.train_length);
    for (const auto& [protocol, by_length] : record.losses) {
      for (const auto& [length, loss] : by_length) {
        if (!std::isfinite(loss) && !record.diverged) {
          record.diverged = true;
          record.error = fmt::format("{} loss at length {} not finite", protocol, length);
        }
      }
    }
    save_model(model, model_path(options.out, record));
  }
  record.memory_mb = peak_memory_mb();
  records.push_back(record);
  if (!record.diverged &&
      !evaluate_variants(model, record, corpus, executor, watcher, records)) {
    return {};
  }
  return records;
}

// Records of these settings in the folder; others there are an error, since a folder is one
// comparison.
std::map<std::string, Record> recorded(const ComparisonOptions& options, Watcher& watcher) {
  std::map<std::string, Record> by_key;
  const std::string path = records_path(options.out);
  if (!fs::exists(path)) return by_key;
  RecordFile file = read_records(path);
  for (const std::string& note : file.notes) watcher.note(note);
  for (Record& record : file.records) {
    if (record.settings.id() != options.settings.id()) {
      fail("compare", path, " holds records of other settings (",
           record.settings.difference(options.settings), "); choose another --out");
    }
    by_key.emplace(record.key(), std::move(record));
  }
  return by_key;
}

}  // namespace

std::string records_path(const std::string& out) { return out + "/records.jsonl"; }

std::string model_path(const std::string& out, const Record& record) {
  return fmt::format("{}/models/{}-{}-seed{}.safetensors", out, record.name,
                     fingerprint_text(fnv1a(record.scheme)).substr(0, 6), record.seed);
}

std::string fitted_specification(const std::string& text, int64_t train_length,
                                 double embedding_deviation) {
  const ParsedSpecification parsed = parse_specification(text);
  const std::unique_ptr<Scheme> scheme = make_scheme(parsed.name);
  scheme->fit(train_length, embedding_deviation);
  set_options(*scheme, parsed.options);
  return specification(*scheme, true);
}

std::vector<Run> plan(const ComparisonOptions& options, const Corpus& corpus) {
  train_options(options.settings).check();
  require_length(corpus, options.settings.train_length);
  std::vector<Run> runs;
  std::set<std::string> seen;
  for (uint64_t seed : options.seeds) {
    for (const std::string& text : options.schemes) {
      Run run;
      run.label = text;
      run.name = parse_specification(text).name;
      run.scheme = fitted_specification(text, options.settings.train_length,
                                        ModelConfig().initial_deviation);
      run.seed = seed;
      model_config(options.settings, corpus, run.scheme, seed).check();
      if (!seen.insert(run.scheme + "|" + std::to_string(seed)).second) {
        fail("compare", "scheme ", text, " with seed ", seed, " is named twice");
      }
      runs.push_back(std::move(run));
    }
  }
  if (runs.empty()) fail("compare", "no scheme or no seed was named");
  return runs;
}

void check_folder(const ComparisonOptions& given, const Corpus& corpus) {
  const ComparisonOptions options = named_after(given, corpus);
  Watcher silent;
  recorded(options, silent);
  std::error_code error;
  const fs::path text = fs::weakly_canonical(corpus.path, error);
  const fs::path out = fs::weakly_canonical(options.out, error);
  if (!fs::is_directory(text, error)) return;
  const auto [end, unused] = std::mismatch(text.begin(), text.end(), out.begin(), out.end());
  if (end == text.end()) {
    fail("compare", "--out ", options.out, " lies inside the corpus ", corpus.path,
         ": its files would be read as text the next time; choose another --out");
  }
}

ComparisonResult compare(const ComparisonOptions& given, const Corpus& corpus, Executor& executor,
                         Watcher& watcher) {
  const ComparisonOptions options = named_after(given, corpus);
  const std::vector<Run> runs = plan(options, corpus);
  check_folder(options, corpus);
  std::error_code error;
  fs::create_directories(fs::path(options.out) / "models", error);
  if (error) fail("compare", options.out, ": cannot be made a folder: ", error.message());
  const std::optional<FileLock> lock = FileLock::try_acquire(options.out + "/lock");
  if (!lock) fail("compare", options.out, ": another comparison is at work in this folder");
  const std::map<std::string, Record> known = recorded(options, watcher);

  ComparisonResult result;
  for (size_t n = 0; n < runs.size(); ++n) {
    const Run& run = runs[n];
    // A run's records are appended together, the trained one first: if it is there, the run is done
    // unless a crash fell between them.
    Record sought;
    sought.settings = options.settings;
    sought.scheme = run.scheme;
    sought.seed = run.seed;
    if (const auto at = known.find(sought.key()); at != known.end()) {
      std::vector<Record> kept{at->second};
      for (const auto& [key, record] : known) {
        if (record.scheme == run.scheme && record.seed == run.seed && record.test_scaling != "none") {
          kept.push_back(record);
        }
      }
      watcher.run_kept(kept);
      result.records.insert(result.records.end(), kept.begin(), kept.end());
      continue;
    }
    watcher.run_begins(n + 1, runs.size(), run.label, run.seed);
    std::vector<Record> records = run_one(run, options, corpus, executor, watcher);
    if (records.empty()) {
      result.finished = false;
      break;
    }
    append_records(records_path(options.out), records);
    fs::remove(unfinished_path(options.out), error);
    watcher.run_ends(records);
    result.records.insert(result.records.end(), records.begin(), records.end());
  }
  return result;
}

}  // namespace locant::study
