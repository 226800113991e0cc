// The main job: train every scheme short, test it long, leave one record for each run.
//
// A comparison lives in a folder: records.jsonl, models/ (weights),
// report.html (study/report.h). Runs already recorded are not trained again, and a run that was
// stopped or killed in its middle is taken up from unfinished.safetensors (study/unfinished.h), so a comparison
// continues where it was, to the same numbers. A run whose loss is not finite is recorded as diverged.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "locant/base/executor.h"
#include "locant/data/corpus.h"
#include "locant/data/tasks.h"
#include "locant/study/record.h"
#include "locant/train/trainer.h"

namespace locant::study {

// How much is spent on a task. 0: what the task asks for (task_settings).
struct TaskEffort {
  int64_t steps = 0, batch = 0, layers = 0, width = 0, examples = 0;
};
// The settings of a task: model, steps, batch.
Settings task_settings(const Task& task, const TaskEffort& effort);

struct ComparisonOptions {
  std::vector<std::string> schemes;  // specifications; options not named are fitted to the length
  std::vector<uint64_t> seeds{0};
  // What each scheme learns: kLanguageModel, kFineTuning (of the language model, where the scheme has
  // position interpolation), and tasks of data/tasks.h.
  std::vector<std::string> tasks{kLanguageModel};
  TaskEffort effort;
  Settings settings;  // corpus and its fingerprint are filled in from the corpus
  std::string out;    // folder, made if missing
  double peak_gflops = 0;  // of one thread, for the shares of peak; 0 if not measured
  std::string machine;
};
// Of the runs of one task, kLanguageModel or of data/tasks.h.
Settings settings_of(const ComparisonOptions& options, const Corpus& corpus, const std::string& task);

// Who watches a comparison. Every function may be left out. Called from the comparing thread.
class Watcher {
 public:
  virtual ~Watcher() = default;
  // Everything is checked and the folder is held; nothing has been trained yet.
  virtual void comparison_begins() {}
  virtual void run_begins(size_t number, size_t count, const std::string& label, uint64_t seed) {
    (void)number, (void)count, (void)label, (void)seed;
  }
  // Found among the records: the trained one, then its test-time scalings.
  virtual void run_kept(const std::vector<Record>& records) { (void)records; }
  virtual void step_done(int64_t step, int64_t steps, double loss, double tokens_per_second) {
    (void)step, (void)steps, (void)loss, (void)tokens_per_second;
  }
  virtual void evaluation(size_t done, size_t count) { (void)done, (void)count; }
  virtual void run_ends(const std::vector<Record>& records) { (void)records; }
  virtual void note(const std::string& text) { (void)text; }
  // Asked between steps; true ends the comparison, keeping all that is recorded.
  virtual bool stop() { return false; }
};

// A scheme as a comparison runs it: the options that `text` leaves out are fitted to the training length and
// to those it names.
// Returns its full specification. Throws std::invalid_argument.
std::string fitted_specification(const std::string& text, int64_t train_length,
                                 double embedding_deviation);

// One training of a comparison. A seed's come together, in the order of the tasks and in these of the
// schemes.
struct Run {
  std::string task = kLanguageModel;
  std::string label, name, scheme;  // as given; in the registry; full specification
  uint64_t seed = 0;
  Settings settings;
  std::string test_scaling = "none", tuned_scheme;  // fine-tuning: "pi", and its specification
  std::string refusal;  // why the scheme cannot do this (an encoder); such a run is left out
  ModelConfig model_config(const Corpus& corpus) const;
  TrainOptions train_options() const;
  Record record() const;  // what its record says of the run itself; its key() finds the finished one
};
// Checks everything that can be checked beforehand; throws std::invalid_argument.
std::vector<Run> plan(const ComparisonOptions& options, const Corpus& corpus);

// Runs what is missing and returns all records of these options in order; false in `finished` after a
// stop. One comparison at a time works on a folder; another one is refused.
// Throws std::invalid_argument before anything is trained if the options, the corpus or the folder do not
// fit: it holds records, or a stopped training, of what is asked under other settings, or lies inside the corpus (whose next reading would
// take its files for text).
struct ComparisonResult {
  std::vector<Record> records;
  bool finished = true;
  int left_out = 0;  // runs that could not be made because a file of an earlier one is missing or damaged
};
ComparisonResult compare(const ComparisonOptions& options, const Corpus& corpus,
                         Executor& executor, Watcher& watcher);

// Paths inside the folder of a comparison.
std::string records_path(const std::string& out);
std::string model_path(const std::string& out, const Record& record);

}  // namespace locant::study
