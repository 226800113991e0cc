// Records: what a run left behind, one JSON object a line, everything needed to make it again.
//
// Lines are appended durably and whole. Files of several machines merge by `cat`. A record of another version is an error that
// names it; fields that are not known are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace locant::study {

// The three ways of evaluating (data/windows.h).
inline constexpr const char* kWindows = "windows";            // (i) non-overlapping
inline constexpr const char* kSameTargets = "same_targets";   // (ii) last L of common ends
inline constexpr const char* kSliding = "sliding";            // (iii) stride L/2

// What a record is of. Tasks of data/tasks.h have their own names ("copy", "recall", ...).
inline constexpr const char* kLanguageModel = "language_model";
// A language model trained a little further at a longer length under a test-time scaling.
inline constexpr const char* kFineTuning = "fine_tuning";

// A learned table against distance, as the report draws it: one line for each head.
struct LearnedTable {
  std::string title;                         // "layer 0, added to scores"
  std::vector<int64_t> distances;            // j - i
  std::vector<std::vector<double>> heads;    // [heads][distances]
};

// Everything that decides the numbers, apart from scheme and seed. Records of one comparison have
// equal settings; settings_id() is what they are matched by.
struct Settings {
  std::string corpus;              // file name, without folders
  std::string corpus_fingerprint;  // 16 hexadecimal digits
  int64_t train_length = 64, steps = 700, batch = 32;
  int64_t layers = 4, width = 128, heads = 4, feed_forward = 512;
  double learning_rate = 1e-3, table_rate = 30, weight_decay = 0.01, clip = 1;
  int64_t warmup = 0;
  int64_t targets_windows = 0, targets_same = 0, targets_sliding = 0;  // wanted, at evaluation
  // Tasks only. A task has no corpus, and train_length is the longest length it was trained at (symbols
  // of a string; tokens between a pair and its question). sequence: tokens of a training sequence.
  std::string task;  // empty: a language model
  bool encoder = false;
  int64_t sequence = 0, examples = 0;  // strings tested at each length
  // Fine-tuning only: further steps at a longer length.
  int64_t tuned_steps = 0, tuned_length = 0;
  std::string text() const;  // canonical: "key=value key=value"
  std::string id() const;    // 16 hexadecimal digits of it
  // "steps 700, here 12; corpus ...": what differs from `other`, its value second.
  std::string difference(const Settings& other) const;
};

struct Record {
  std::string task = kLanguageModel;
  std::string scheme;  // full specification, every option
  std::string name;    // of the scheme in the registry
  uint64_t seed = 0;
  std::string test_scaling = "none";  // or "pi", "ntk", "yarn": evaluated so, trained without
  Settings settings;
  // losses[protocol][test length] in nats; specifications used where they differ from `scheme`.
  std::map<std::string, std::map<int64_t, double>> losses;
  std::map<int64_t, std::string> test_schemes;
  // Tasks: share of the strings (of the symbols) that were answered right, by test length. Lengths up to
  // settings.train_length are in range. A run whose share at train_length is below the gate has not
  // learned the task: what it does further out says nothing of its positions.
  std::map<int64_t, double> exact_match, symbol_match;
  double gate = 0;
  bool learned() const;  // of a task
  std::vector<int64_t> repeated_rows;  // test lengths at which the table's last row was repeated
  bool diverged = false;               // a loss was not finite; losses may be empty
  std::string error;                   // why there are no losses, if so
  std::vector<std::pair<int64_t, double>> curve;       // step, training loss (mean since the last)
  std::vector<std::pair<int64_t, double>> validation;  // step, validation loss at the train length
  std::vector<LearnedTable> tables;
  int64_t parameters = 0, position_parameters = 0;
  // Of training steps alone (not of validation and saving), over every process that made some. The first step
  // of each process, which pays for its start, is left out, unless there are no others.
  double tokens_per_second = 0, gflops = 0, peak_share = 0;
  double train_seconds = 0;  // of all training steps, first ones included
  double evaluate_seconds = 0;
  int64_t memory_mb = 0;  // peak of the process so far
  int threads = 1;        // of the training; the last ones, when they changed within
  std::string machine, instruction_set, version, started;

  bool is_task() const { return task != kLanguageModel && task != kFineTuning; }
  // One record for each key: a comparison never trains it twice.
  std::string key() const;
};

inline constexpr int64_t kRecordVersion = 1;
std::string to_json(const Record& record);  // one line, no newline
// Records come from anywhere: a field that is missing, of another type or out of range, and a scheme that
// this program does not know, throw std::invalid_argument with `where`, the field, what was expected and what
// came. Losses are 0 or more; null (not finite) only where the run diverged.
Record record_from_json(const std::string& line, const std::string& where);

// A line that ends within its JSON was cut by a crash (more may have been appended since): it is left
// out and said in `notes`, with file and line. Any other line that is no record of this version, and a cut
// one with the next record behind it, throws std::invalid_argument.
struct RecordFile {
  std::vector<Record> records;
  std::vector<std::string> notes;
};
RecordFile read_records(const std::string& path);

// Adds one line for each record in one write, on the disk before it returns. A kill within may leave the
// first of them alone.
void append_records(const std::string& path, const std::vector<Record>& records);

}  // namespace locant::study
