#include "locant/study/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/data/tasks.h"
#include "locant/position/registry.h"
#include "locant/study/run.h"
#include "locant/study/unfinished.h"

namespace locant::study {
namespace {

namespace fs = std::filesystem;

bool wants(const ComparisonOptions& options, const std::string& task) {
  return std::count(options.tasks.begin(), options.tasks.end(), task) > 0;
}

// A folder is one comparison: what it holds at `path` of what is asked now, under other settings, is an error.
// A fine-tuned model has the settings of the one it tunes.
void require_settings(const Record& held, const std::vector<Run>& runs, const std::string& path, const char* what) {
  const std::string task = held.task == kFineTuning ? kLanguageModel : held.task;
  const auto asked = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.task == task; });
  if (asked == runs.end()) return;
  Settings settings = held.settings;
  settings.tuned_steps = settings.tuned_length = 0;
  if (settings.id() == asked->settings.id()) return;
  fail("compare", path, " holds ", what, " of other settings (", held.is_task() ? held.task + ": " : "",
       settings.difference(asked->settings), "); choose another --out");
}

// A training that was stopped here; where its file is damaged, its turn says so.
void require_settings_of_kept(const std::string& path, const std::vector<Run>& runs) {
  const Record held = holder(path);
  if (!held.scheme.empty()) require_settings(held, runs, path, "a training");
}

std::map<std::string, Record> recorded(const std::string& path, const std::vector<Run>& runs, Watcher& watcher) {
  std::map<std::string, Record> by_key;
  if (!fs::exists(path)) return by_key;
  RecordFile file = read_records(path);
  for (const std::string& note : file.notes) watcher.note(note);
  for (Record& record : file.records) {
    require_settings(record, runs, path, "records");
    by_key.emplace(record.key(), std::move(record));
  }
  return by_key;
}

// The next run would read the folder's files as text.
void check_outside(const std::string& out_path, const Corpus& corpus) {
  std::error_code error;
  const fs::path text = fs::weakly_canonical(corpus.path, error);
  const fs::path out = fs::weakly_canonical(out_path, error);
  if (!fs::is_directory(text, error)) return;
  const auto [end, unused] = std::mismatch(text.begin(), text.end(), out.begin(), out.end());
  if (end == text.end()) {
    fail("compare", "--out ", out_path, " lies inside the corpus ", corpus.path,
         ": its files would be read as text the next time; choose another --out");
  }
}

// The run of a scheme under position interpolation to twice the length; nothing for schemes that cannot.
std::optional<Run> fine_tuning_of(const Run& trained) {
  const int64_t length = trained.settings.train_length;
  for (const Variant& variant : make_scheme(trained.scheme)->test_time_variants(2, length)) {
    if (variant.label != "pi") continue;
    Run run = trained;
    run.task = kFineTuning;
    run.test_scaling = variant.label;
    run.tuned_scheme = variant.specification;
    run.label += " fine-tuned under pi";
    run.settings.tuned_length = 2 * length;
    run.settings.tuned_steps = std::max<int64_t>(1, run.settings.steps / 10);
    run.train_options().check_step(run.settings.tuned_length);
    return run;
  }
  return std::nullopt;
}

// What fine-tuning has nothing for is said once, not for each seed.
void say_untuned(const ComparisonOptions& options, const std::vector<Run>& runs, Watcher& watcher) {
  if (!wants(options, kFineTuning)) return;
  std::vector<std::string> labels;
  for (const Run& run : runs) {
    if (run.task == kLanguageModel && run.seed == runs.front().seed && !fine_tuning_of(run)) labels.push_back(run.label);
  }
  if (labels.empty()) return;
  watcher.note(fmt::format("fine_tuning: left out for {}: they have no position interpolation to train under",
                           fmt::join(labels, ", ")));
}

// A run's records are appended together, the trained one first. A crash within may have kept that one and
// lost its test-time scalings: then the run is made again, from its unfinished file if that is still there.
bool complete(const Run& run, const Record& trained, const std::map<std::string, Record>& known) {
  if (run.task != kLanguageModel || trained.diverged) return true;
  Record record = run.record();
  const auto scalings = test_scalings(*make_scheme(run.scheme), run.settings.train_length);
  return std::all_of(scalings.begin(), scalings.end(), [&](const auto& scaling) {
    record.test_scaling = scaling.first;
    return known.count(record.key()) > 0;
  });
}

}  // namespace

std::string records_path(const std::string& out) { return out + "/records.jsonl"; }

std::string model_path(const std::string& out, const Record& record) {
  return fmt::format("{}/models/{}-{}-seed{}{}.safetensors", out, record.name,
                     fingerprint_text(fnv1a(record.scheme)).substr(0, 6), record.seed,
                     record.task == kLanguageModel ? "" : "-" + record.task);
}

std::string fitted_specification(const std::string& text, int64_t train_length,
                                 double embedding_deviation) {
  return specification(*make_fitted_scheme(text, train_length, embedding_deviation), true);
}

Settings settings_of(const ComparisonOptions& options, const Corpus& corpus, const std::string& task) {
  if (task != kLanguageModel) return task_settings(task_named(task), options.effort);
  Settings settings = options.settings;
  settings.corpus = fs::path(corpus.path).filename().string();
  settings.corpus_fingerprint = fingerprint_text(corpus.fingerprint);
  return settings;
}

std::vector<Run> plan(const ComparisonOptions& options, const Corpus& corpus) {
  std::vector<Run> runs;
  std::map<std::string, std::string> seen;  // how it was named
  if (wants(options, kFineTuning) && !wants(options, kLanguageModel)) {
    fail("compare", "fine_tuning needs language_model among the tasks");
  }
  for (uint64_t seed : options.seeds) {
    for (const std::string& task : options.tasks) {
      if (task == kFineTuning) continue;  // right behind the model it tunes
      const bool text = task == kLanguageModel;
      const Settings settings = settings_of(options, corpus, task);
      if (text) require_length(corpus, settings.train_length);
      for (const std::string& scheme : options.schemes) {
        Run run;
        run.task = task;
        run.label = text ? scheme : task + " " + scheme;
        run.name = parse_specification(scheme).name;
        run.settings = settings;
        run.seed = seed;
        run.scheme = fitted_specification(scheme, text ? settings.train_length : settings.sequence,
                                          ModelConfig().initial_deviation);
        try {
          run.train_options().check();
          run.train_options().check_step(run.model_config(corpus).length);
          run.model_config(corpus).check();
        } catch (const std::invalid_argument& refusal) {
          // A scheme for causal attention alone has no encoder: its refusal is the result.
          if (!settings.encoder) throw;
          run.refusal = refusal.what();
        }
        const auto [first, added] = seen.emplace(task + "|" + run.scheme + "|" + std::to_string(seed), scheme);
        if (!added) {
          fail("compare", first->second == scheme ? text_of("scheme ", scheme)
                                                  : text_of("the same scheme, as ", first->second, " and as ", scheme, ","),
               " with seed ", seed, " is named twice (", run.scheme, ")");
        }
        runs.push_back(run);
        if (text && wants(options, kFineTuning)) {
          if (const auto tuned = fine_tuning_of(run)) runs.push_back(*tuned);
        }
      }
    }
  }
  if (runs.empty()) fail("compare", "no scheme, no seed or no task was named");
  if (std::all_of(runs.begin(), runs.end(), [](const Run& run) { return !run.refusal.empty(); })) {
    fail("compare", "nothing is left to do: ", runs.front().label, ": ", runs.front().refusal);
  }
  return runs;
}

ComparisonResult compare(const ComparisonOptions& options, const Corpus& corpus, Executor& executor,
                         Watcher& watcher) {
  const std::vector<Run> runs = plan(options, corpus);
  check_outside(options.out, corpus);
  std::error_code error;
  fs::create_directories(fs::path(options.out) / "models", error);
  if (error) fail("compare", options.out, ": cannot be made a folder: ", error.message());
  const std::optional<FileLock> lock = FileLock::try_acquire(options.out + "/lock");
  if (!lock) fail("compare", options.out, ": another comparison is at work in this folder");
  const std::map<std::string, Record> known = recorded(records_path(options.out), runs, watcher);
  require_settings_of_kept(unfinished_path(options.out), runs);
  for (const Run& run : runs) require_settings_of_kept(set_aside_path(options.out, run.record()), runs);
  watcher.comparison_begins();
  say_untuned(options, runs, watcher);

  ComparisonResult result;
  for (size_t n = 0; n < runs.size(); ++n) {
    const Run& run = runs[n];
    if (!run.refusal.empty()) {
      watcher.note(fmt::format("{}: left out: {}", run.label, run.refusal));
      continue;
    }
    const auto at = known.find(run.record().key());
    if (at != known.end() && complete(run, at->second, known)) {
      std::vector<Record> kept{at->second};
      for (const auto& [key, record] : known) {
        if (run.task == kLanguageModel && record.task == run.task && record.scheme == run.scheme &&
            record.seed == run.seed && record.test_scaling != "none") {
          kept.push_back(record);
        }
      }
      forget_unfinished(options.out, run.record());
      watcher.run_kept(kept);
      result.records.insert(result.records.end(), kept.begin(), kept.end());
      continue;
    }
    const auto diverged = [&](const Record& record) {
      return record.task == kLanguageModel && record.scheme == run.scheme && record.seed == run.seed &&
             record.diverged;
    };
    if (run.task == kFineTuning &&
        std::any_of(result.records.begin(), result.records.end(), diverged)) {
      watcher.note(run.label + ": left out, its training diverged");
      continue;
    }
    watcher.run_begins(n + 1, runs.size(), run.label, run.seed);
    make_room(options.out, run.record());
    std::vector<Record> records;
    try {
      records = make_run(run, {options, corpus, executor, watcher});
    } catch (const LeftOut& problem) {
      watcher.note(fmt::format("{} seed {}: left out: {}", run.label, run.seed, problem.what()));
      ++result.left_out;
      continue;
    }
    if (records.empty()) {
      result.finished = false;
      break;
    }
    std::vector<Record> added;
    std::copy_if(records.begin(), records.end(), std::back_inserter(added),
                 [&](const Record& record) { return known.count(record.key()) == 0; });
    append_records(records_path(options.out), added);
    forget_unfinished(options.out, run.record());
    watcher.run_ends(records);
    result.records.insert(result.records.end(), records.begin(), records.end());
  }
  return result;
}

}  // namespace locant::study
