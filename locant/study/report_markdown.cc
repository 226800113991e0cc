#include "locant/study/report_markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

#include "locant/study/claims.h"
#include "locant/study/paired.h"
#include "locant/study/recommendation.h"
#include "locant/study/report_tables.h"
#include "locant/study/summary.h"
#include "locant/study/words.h"

namespace locant::study {
namespace {

// Text in a cell, or in a sentence: what Markdown or HTML would take for its own is marked.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '&') {
      out += c == '<' ? "&lt;" : "&amp;";
      continue;
    }
    if (std::string_view("|*_`\\[~").find(c) != std::string_view::npos) out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

// A file's name where a link leads.
std::string address(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("-._/").find(c) != std::string_view::npos;
    out += safe ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

using Cell = std::function<std::string(const SchemeSummary&, int64_t)>;

std::string by_length(const Summary& summary, const std::vector<std::string>& heads,
                      const std::vector<int64_t>& lengths, const Cell& cell) {
  std::string text = "| scheme |", line = "|---|";
  for (const std::string& head : heads) text += fmt::format(" {} |", head), line += "---|";
  text += "\n" + line + "\n";
  for (const SchemeSummary& scheme : summary.schemes) {
    text += fmt::format("| {} |", plain(scheme.label));
    for (int64_t length : lengths) text += fmt::format(" {} |", plain(cell(scheme, length)));
    text += "\n";
  }
  return text + "\n";
}

std::vector<std::string> ratios(const Summary& summary) {
  std::vector<std::string> heads;
  for (int64_t length : summary.lengths) heads.push_back(ratio_text(length, summary.settings.train_length));
  return heads;
}

std::string seeds_of(const Summary& summary) {
  std::set<uint64_t> seeds;
  for (const Record& record : summary.records) seeds.insert(record.seed);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

std::string losses(const Summary& summary) {
  std::string text;
  for (const auto& [protocol, title] : {std::pair(kWindows, "Windows that do not overlap"),
                                        {kSameTargets, "The same targets, seen with more and more context"},
                                        {kSliding, "A sliding window, nearly the full context for every target"}}) {
    text += fmt::format("## {}\n\n", title) +
            by_length(summary, ratios(summary), summary.lengths, [&, protocol = protocol](const auto& scheme, int64_t length) {
              return loss_text(scheme, protocol, length);
            });
  }
  const size_t reference = reference_scheme(summary);
  const SchemeSummary& other = summary.schemes[reference];
  text += fmt::format("## Each scheme against {}\n\nPaired by seed, mean with its 95 % interval; below zero is better.\n\n",
                      plain(other.label));
  return text + by_length(summary, ratios(summary), summary.lengths, [&](const auto& scheme, int64_t length) -> std::string {
           if (&scheme == &other) return "0";
           const Interval apart = difference(scheme, other, kWindows, length);
           return apart.count ? interval_text(apart) : "-";
         });
}

std::string runs(const Summary& summary) {
  size_t trained = 0;
  int diverged = 0;
  for (const SchemeSummary& scheme : summary.schemes) {
    if (summary.is_text() && scheme.test_scaling != "none") continue;
    trained += scheme.seeds.size() + size_t(scheme.diverged);
    diverged += scheme.diverged;
  }
  return fmt::format("{} trained, {} of them diverged.\n\n", counted(int64_t(trained), "run"), diverged);
}

std::string task(const Summary& summary) {
  std::string text = fmt::format(
      "## Task: {}\n\nShare of exact answers by length, trained to {}, {}, of the runs that passed the gate there. "
      "Seeds {}. {}",
      plain(summary.task), summary.settings.train_length, counted(summary.settings.steps, "step"), seeds_of(summary), runs(summary));
  std::vector<std::string> heads;
  for (int64_t length : summary.lengths) heads.push_back(std::to_string(length));
  std::vector<int64_t> lengths = summary.lengths;
  constexpr int64_t kNotLearned = -1;
  heads.push_back("not learned");
  lengths.push_back(kNotLearned);
  return text + by_length(summary, heads, lengths, [](const auto& scheme, int64_t length) {
           return length == kNotLearned ? std::to_string(scheme.not_learned) : exact_text(scheme, length);
         });
}

std::string tuning(const Summary& summary) {
  const Settings& s = summary.settings;
  const std::string where = ratio_text(s.tuned_length, s.train_length);
  std::string text = fmt::format("## Further training at {}\n\n{}. Seeds {}. {}", where, counted(s.tuned_steps, "more step"),
                                 seeds_of(summary), runs(summary));
  return text + by_length(summary, {"loss at " + where}, {s.tuned_length}, [](const auto& scheme, int64_t length) {
           return loss_text(scheme, kWindows, length);
         });
}

std::string claims(const Summary& summary, const std::vector<Summary>& all) {
  std::string text = "## Claims\n\n| # | claim | bar | verdict | numbers: mean (each seed) |\n|---|---|---|---|---|\n";
  for (const ClaimResult& claim : judge_claims(with_tasks(summary, all))) {
    const std::string verdict = verdict_text(claim.verdict);
    text += fmt::format("| {} | {} | {} | {} | {} |\n", claim.number, plain(claim.claim), plain(claim.bar),
                        claim.verdict == Verdict::kFails ? "**" + verdict + "**" : verdict, plain(claim.evidence));
  }
  return text + "\n";
}

std::string advice(const Summary& summary, const std::vector<Summary>& all) {
  std::string text = "## What these numbers advise\n\nFrom these numbers and nothing else: this text, this size of model, this "
                     "many steps and seeds.\n\n";
  for (const Advice& one : recommend(summary, all)) {
    text += fmt::format("- {}: **{}**", plain(one.use), one.choice.empty() ? "these records cannot say" : plain(one.choice));
    for (const std::string& reason : one.reasons) text += "\n  - " + plain(reason);
    text += "\n";
  }
  return text;
}

}  // namespace

std::string report_markdown(const std::vector<Record>& records, const std::vector<std::string>& files) {
  const std::vector<Summary> summaries = summarize(records);
  std::vector<std::string> links;
  for (const std::string& file : files) links.push_back(fmt::format("[{}]({})", plain(file), address(file)));
  std::string text = fmt::format("# Results of a comparison\n\nMade by `locant report` from {}.\n\n", fmt::join(links, ", "));
  for (const Summary& summary : summaries) {
    if (!summary.is_text()) continue;
    const Settings& s = summary.settings;
    text += fmt::format(
        "Text {} (fingerprint {}), {}; seeds {}; losses in nats "
        "per byte. ± is the deviation over the seeds; `*`: the table has no rows there, its last was repeated. {}",
        plain(s.corpus), plain(s.corpus_fingerprint), size_text(s), seeds_of(summary), runs(summary));
    text += losses(summary);
  }
  for (const Summary& summary : summaries) {
    if (summary.is_task()) text += task(summary);
    if (summary.task == kFineTuning) text += tuning(summary);
  }
  for (const Summary& summary : summaries) {
    if (summary.is_text()) text += claims(summary, summaries) + advice(summary, summaries);
  }
  return text;
}

}  // namespace locant::study
