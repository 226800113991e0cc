#include "locant/study/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "locant/base/median.h"
#include "locant/study/protocol.h"
#include "locant/study/variants.h"
#include "locant/study/words.h"

namespace locant::study {

Statistic statistic(const std::vector<double>& values) {
  Statistic s;
  for (double x : values) {
    if (std::isfinite(x)) s.mean += x, ++s.count;
  }
  if (s.count == 0) return {NAN, NAN, 0};
  s.mean /= s.count;
  double squares = 0;
  for (double x : values) {
    if (std::isfinite(x)) squares += (x - s.mean) * (x - s.mean);
  }
  s.deviation = s.count > 1 ? std::sqrt(squares / (s.count - 1)) : 0;
  return s;
}

double loss_in(const Losses& losses, const std::string& protocol, int64_t length) {
  const auto by_length = losses.find(protocol);
  if (by_length == losses.end()) return NAN;
  const auto at = by_length->second.find(length);
  return at == by_length->second.end() ? NAN : at->second;
}

std::string label_of(const Record& record, bool options) {
  std::string label = record.name;
  if (options) {
    try {
      label = shortest_specification(record);
    } catch (const std::invalid_argument&) {
      label = record.scheme;  // a scheme of another program
    }
  }
  if (record.task == kFineTuning) return label + " trained on under " + record.test_scaling;
  return record.test_scaling == "none" ? label : label + " + " + record.test_scaling + (options ? "" : " at test");
}

namespace {

SchemeSummary summarize_scheme(const std::vector<const Record*>& records) {
  const Record& first = *records.front();
  SchemeSummary s;
  s.name = first.name;
  s.scheme = first.scheme;
  s.test_scaling = first.test_scaling;
  s.label = label_of(first, false);
  s.parameters = first.parameters;
  s.position_parameters = first.position_parameters;
  std::map<std::string, std::map<int64_t, std::vector<double>>> losses;
  std::map<int64_t, std::vector<double>> exact;
  std::vector<double> speeds, shares;
  for (const Record* record : records) {
    if (record->diverged) {
      ++s.diverged;
      continue;
    }
    s.seeds.push_back(record->seed);
    s.by_seed[record->seed] = record->losses;
    for (const auto& [protocol, by_length] : record->losses) {
      for (const auto& [length, loss] : by_length) losses[protocol][length].push_back(loss);
    }
    if (record->is_task()) {
      s.not_learned += !record->learned();
      if (record->learned()) s.exact_by_seed[record->seed] = record->exact_match;
      for (const auto& [length, share] : record->exact_match) {
        if (record->learned()) exact[length].push_back(share);
      }
    }
    for (int64_t length : record->repeated_rows) s.repeated[length] = true;
    if (record->test_scaling == "none") {
      if (std::isfinite(record->tokens_per_second)) speeds.push_back(record->tokens_per_second);
      if (record->peak_share > 0) shares.push_back(record->peak_share);
      s.least_threads = s.least_threads ? std::min(s.least_threads, record->threads) : record->threads;
      s.most_threads = std::max(s.most_threads, record->threads);
    }
  }
  for (const auto& [protocol, by_length] : losses) {
    for (const auto& [length, values] : by_length) {
      s.losses[protocol][length] = statistic(values);
    }
  }
  for (const auto& [length, values] : exact) s.exact[length] = statistic(values);
  if (!speeds.empty()) s.tokens_per_second = median(speeds);
  if (!shares.empty()) s.peak_share = median(shares);
  return s;
}

// Room for the longest label.
int label_width(const Summary& summary) {
  size_t width = kLabelWidth;
  for (const SchemeSummary& scheme : summary.schemes) width = std::max(width, scheme.label.size() + 1);
  return static_cast<int>(width);
}

std::string task_table(const Summary& summary) {
  const int width = label_width(summary);
  std::string text = fmt::format("{}, exact matches of what learned it up to length {}\n{:<{}}", summary.task,
                                 summary.settings.train_length, "scheme", width);
  for (int64_t length : summary.lengths) text += fmt::format("{:>8}", length);
  text += "   seeds\n";
  for (const SchemeSummary& scheme : summary.schemes) {
    text += fmt::format("{:<{}}", scheme.label, width);
    if (scheme.exact.empty()) {
      text += scheme.seeds.empty() && scheme.diverged ? "diverged" : "not learned";
    } else {
      for (int64_t length : summary.lengths) {
        const auto at = scheme.exact.find(length);
        text += at == scheme.exact.end() ? fmt::format("{:>8}", "-") : fmt::format("{:>8.3f}", at->second.mean);
      }
      text += fmt::format("{:>8}", scheme.exact_by_seed.size());
      if (scheme.not_learned) text += fmt::format(", {} not learned", scheme.not_learned);
    }
    if (scheme.diverged) text += fmt::format(", {} diverged", scheme.diverged);
    text += "\n";
  }
  return text;
}

// Two rows of the same name need their options to be told apart, and have them then in every table.
void label_variants(std::vector<Summary>& summaries) {
  std::set<std::string> several;
  for (const Summary& summary : summaries) {
    std::map<std::string, std::string> first;  // scheme of each name
    for (const SchemeSummary& s : summary.schemes) {
      if (first.emplace(s.name, s.scheme).first->second != s.scheme) several.insert(s.name);
    }
  }
  for (Summary& summary : summaries) {
    for (SchemeSummary& s : summary.schemes) {
      if (!several.count(s.name)) continue;
      const auto of_it = std::find_if(summary.records.begin(), summary.records.end(), [&](const Record& r) {
        return r.scheme == s.scheme && r.test_scaling == s.test_scaling;
      });
      s.label = label_of(*of_it, true);
    }
  }
}

}  // namespace

std::string table(const Summary& summary) {
  if (summary.is_task()) return task_table(summary);
  bool deviations = false;
  for (const SchemeSummary& scheme : summary.schemes) deviations |= scheme.seeds.size() > 1;
  const int width = label_width(summary);
  std::string text = table_header(summary.settings, summary.lengths, deviations, width) + "\n";
  for (const SchemeSummary& scheme : summary.schemes) {
    text += table_row(scheme, summary.lengths, deviations, width) + "\n";
  }
  return text;
}

std::vector<Summary> summarize(const std::vector<Record>& records) {
  std::vector<Summary> summaries;
  std::set<std::string> seen;
  for (const Record& record : records) {
    if (!seen.insert(record.key()).second) continue;
    const std::string id = record.settings.id();
    auto at = std::find_if(summaries.begin(), summaries.end(),
                           [&](const Summary& s) { return s.settings.id() == id && s.task == record.task; });
    if (at == summaries.end()) at = summaries.insert(at, Summary{record.settings, record.task, {}, {}, {}});
    at->records.push_back(record);
  }
  for (Summary& summary : summaries) {
    // A scheme is known by its full specification: two sets of options are two rows.
    std::vector<std::pair<std::string, std::vector<const Record*>>> groups;
    for (const Record& record : summary.records) {
      const std::string key = record.scheme + "|" + record.test_scaling;
      auto at = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& group) { return group.first == key; });
      if (at == groups.end()) at = groups.insert(at, {key, {}});
      at->second.push_back(&record);
    }
    std::set<int64_t> lengths;
    for (const auto& [key, group] : groups) {
      summary.schemes.push_back(summarize_scheme(group));
      for (const auto& [protocol, by_length] : summary.schemes.back().losses) {
        for (const auto& [length, loss] : by_length) lengths.insert(length);
      }
    }
    // Also where nothing was learned: a task is asked at the same lengths in every run.
    for (const Record& record : summary.records) {
      for (const auto& [length, share] : record.exact_match) lengths.insert(length);
    }
    // Where every run diverged, its rows say so at the lengths it would have been tested at.
    if (lengths.empty() && summary.is_text()) {
      for (int64_t length : test_lengths(summary.settings.train_length)) lengths.insert(length);
    }
    if (lengths.empty() && summary.task == kFineTuning) lengths.insert(summary.settings.tuned_length);
    // Scalings behind the scheme they belong to.
    std::vector<SchemeSummary> ordered;
    for (const SchemeSummary& s : summary.schemes) {
      if (s.test_scaling != "none") continue;
      ordered.push_back(s);
      for (const SchemeSummary& t : summary.schemes) {
        if (t.test_scaling != "none" && t.scheme == s.scheme) ordered.push_back(t);
      }
    }
    for (const SchemeSummary& t : summary.schemes) {
      const bool has_base = std::any_of(ordered.begin(), ordered.end(), [&](const auto& s) {
        return s.scheme == t.scheme && s.test_scaling == t.test_scaling;
      });
      if (!has_base) ordered.push_back(t);
    }
    summary.schemes = std::move(ordered);
    summary.lengths.assign(lengths.begin(), lengths.end());
  }
  label_variants(summaries);
  return summaries;
}

std::vector<Record> with_tasks(const Summary& text, const std::vector<Summary>& all) {
  std::vector<Record> records = text.records;
  for (const Summary& other : all) {
    if (!other.is_text()) records.insert(records.end(), other.records.begin(), other.records.end());
  }
  return records;
}

std::string size_text(const Settings& s) {
  return fmt::format("L = {}, {} of {}, {}, width {}, {}", s.train_length, counted(s.steps, "step"),
                     counted(s.batch, "sequence"), counted(s.layers, "layer"), s.width, counted(s.heads, "head"));
}

std::string loss_text(const SchemeSummary& scheme, const std::string& protocol, int64_t length) {
  const auto by_length = scheme.losses.find(protocol);
  if (by_length == scheme.losses.end() || !by_length->second.count(length)) {
    return scheme.seeds.empty() && scheme.diverged ? "diverged" : "-";
  }
  const Statistic& s = by_length->second.at(length);
  std::string text = decimals(s.mean);
  if (s.count > 1) text += " ± " + decimals(s.deviation);
  if (scheme.repeated.count(length)) text += "*";
  return text;
}

std::string exact_text(const SchemeSummary& scheme, int64_t length) {
  if (scheme.exact.empty()) {
    if (scheme.seeds.empty() && scheme.diverged) return "diverged";
    return scheme.not_learned ? "not learned" : "-";
  }
  const auto at = scheme.exact.find(length);
  if (at == scheme.exact.end()) return "-";
  return at->second.count > 1 ? fmt::format("{:.3f} ± {:.3f}", at->second.mean, at->second.deviation)
                              : fmt::format("{:.3f}", at->second.mean);
}

namespace {
constexpr int kNumberWidth = 10;
// "1.943 ± 0.011*" needs more room than "1.943*".
int cell_width(bool deviations) { return deviations ? 16 : kNumberWidth; }
// Pads by characters, not bytes ("±" is two bytes).
std::string padded(const std::string& text, int width) {
  int shown = 0;
  for (const char c : text) shown += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return std::string(static_cast<size_t>(std::max(0, width - shown)), ' ') + text;
}
}  // namespace

std::string table_header(const Settings& settings, const std::vector<int64_t>& lengths,
                         bool deviations, int width) {
  std::string line = fmt::format("{:<{}}", "scheme", width);
  for (int64_t length : lengths) {
    line += padded(ratio_number(length, settings.train_length) + "L", cell_width(deviations));
  }
  return line + padded("tokens/s", kNumberWidth) + padded("of peak", 9);
}

std::string table_row(const SchemeSummary& scheme, const std::vector<int64_t>& lengths,
                      bool deviations, int width) {
  std::string line = fmt::format("{:<{}}", scheme.label, width);
  for (int64_t length : lengths) {
    line += padded(loss_text(scheme, kWindows, length), cell_width(deviations));
  }
  if (std::isfinite(scheme.tokens_per_second)) {
    line += padded(fmt::format("{:.0f}", scheme.tokens_per_second), kNumberWidth);
    line += padded(std::isfinite(scheme.peak_share) ? fmt::format("{:.0f} %", 100 * scheme.peak_share) : "-", 9);
  }
  return line;
}

}  // namespace locant::study
