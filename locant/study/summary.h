// Records of one comparison, gathered by scheme: means and deviations over seeds.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "locant/study/record.h"

namespace locant::study {

struct Statistic {
  double mean = 0, deviation = 0;  // sample deviation; 0 for one seed
  int count = 0;
};
Statistic statistic(const std::vector<double>& values);  // of the finite ones

using Losses = std::map<std::string, std::map<int64_t, double>>;  // [protocol][test length]
// NaN where there is none.
double loss_in(const Losses& losses, const std::string& protocol, int64_t length);

// One scheme, or one scheme under a test-time scaling.
struct SchemeSummary {
  std::string label;   // label_of its records; with options where another of its name stands beside it
  std::string name, scheme, test_scaling;
  std::vector<uint64_t> seeds;
  int diverged = 0;
  std::map<std::string, std::map<int64_t, Statistic>> losses;  // [protocol][test length]
  std::map<uint64_t, Losses> by_seed;                          // of runs that did not diverge
  // Tasks: exact matches by test length, of the runs that learned the task in range.
  std::map<int64_t, Statistic> exact;
  std::map<uint64_t, std::map<int64_t, double>> exact_by_seed;
  int not_learned = 0;
  std::map<int64_t, bool> repeated;                            // lengths read with a repeated row
  int64_t position_parameters = 0, parameters = 0;
  // Medians of the runs: a run that other work disturbed does not speak for the others.
  double tokens_per_second = NAN, peak_share = NAN;  // NaN where not measured
  int least_threads = 0, most_threads = 0;       // of these runs
};

// The records that share settings: of a language model, or of a task, or of fine-tuning, which have
// settings of their own and belong to every language model they are given with.
struct Summary {
  Settings settings;
  std::string task;                    // as in Record
  std::vector<SchemeSummary> schemes;  // in the order they first appear, scalings after their scheme
  std::vector<int64_t> lengths;        // every test length, ascending
  std::vector<Record> records;

  bool is_text() const { return task == kLanguageModel; }
  bool is_task() const { return task != kLanguageModel && task != kFineTuning; }
};

// "rope", "rope + ntk at test"; with `options` those that a comparison does not make of the
// bare name: "rope(base=500) + ntk".
std::string label_of(const Record& record, bool options);

// "L = 64, 700 steps of 32 sequences, 4 layers, width 128, 4 heads".
std::string size_text(const Settings& settings);

// Groups records by their settings, in order of appearance; of equal keys the first counts.
std::vector<Summary> summarize(const std::vector<Record>& records);

// What claims about a language model are judged on: its records, then those of every task and fine-tuning.
std::vector<Record> with_tasks(const Summary& text, const std::vector<Summary>& all);

// "1.234", "1.234 ± 0.012" with several seeds, "diverged", or "-"; a '*' marks a repeated last row.
std::string loss_text(const SchemeSummary& scheme, const std::string& protocol, int64_t length);

// "0.953", "0.953 ± 0.02", "not learned" when no seed passed the gate, "diverged", or "-".
std::string exact_text(const SchemeSummary& scheme, int64_t length);

// The terminal's table: one line a scheme, losses of protocol (i) by length, or exact matches. With deviations the cells
// are wide enough for them; `width` is that of the labels.
inline constexpr int kLabelWidth = 24;
std::string table_header(const Settings& settings, const std::vector<int64_t>& lengths, bool deviations,
                         int width = kLabelWidth);
std::string table_row(const SchemeSummary& scheme, const std::vector<int64_t>& lengths, bool deviations,
                      int width = kLabelWidth);
std::string table(const Summary& summary);

}  // namespace locant::study
