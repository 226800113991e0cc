// Records of one comparison, gathered by scheme: means and deviations over seeds.
#pragma once

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

// One scheme, or one scheme under a test-time scaling.
struct SchemeSummary {
  std::string label;   // "rope", "rope + ntk at test"
  std::string name, scheme, test_scaling;
  std::vector<uint64_t> seeds;
  int diverged = 0;
  std::map<std::string, std::map<int64_t, Statistic>> losses;  // [protocol][test length]
  std::map<int64_t, bool> repeated;                            // lengths read with a repeated row
  int64_t position_parameters = 0, parameters = 0;
  Statistic tokens_per_second, peak_share;
};

// A comparison: the language-model records that share settings. Records of tasks and of fine-tuning have
// settings of their own; they belong to every comparison they are given with.
struct Summary {
  Settings settings;
  std::vector<SchemeSummary> schemes;  // in the order they first appear, scalings after their scheme
  std::vector<int64_t> lengths;        // every test length, ascending
  std::vector<Record> records;         // the language models', then the others
};

// Groups records by their settings, in order of appearance; of equal keys the first counts.
std::vector<Summary> summarize(const std::vector<Record>& records);

// "1.234", "1.234 ± 0.012" with several seeds, "diverged", or "-"; a '*' marks a repeated last row.
std::string loss_text(const SchemeSummary& scheme, const std::string& protocol, int64_t length);

// The terminal's table: one line a scheme, losses of protocol (i) by length. With deviations the cells
// are wide enough for them.
std::string table_header(const Settings& settings, const std::vector<int64_t>& lengths, bool deviations);
std::string table_row(const SchemeSummary& scheme, const std::vector<int64_t>& lengths, bool deviations);
std::string table(const Summary& summary);

}  // namespace locant::study
