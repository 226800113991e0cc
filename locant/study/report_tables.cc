#include "locant/study/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "locant/study/claims.h"
#include "locant/study/paired.h"
#include "locant/study/report_page.h"
#include "locant/study/words.h"

namespace locant::study {
namespace {

// A table with a row for each scheme and a column for each length; what may scroll, scrolls in itself.
std::string by_length(const Summary& summary, const std::vector<int64_t>& lengths,
                      const std::function<std::string(const SchemeSummary&, int64_t)>& cell) {
  std::string html = "<div class=\"wide\"><table><thead><tr><th>scheme</th>";
  for (int64_t length : lengths) {
    html += fmt::format("<th>{}<br><small>{}</small></th>", ratio_text(length, summary.settings.train_length), length);
  }
  html += "</tr></thead><tbody>";
  for (const SchemeSummary& scheme : summary.schemes) {
    html += fmt::format("<tr><th title=\"{}\">{}</th>", escaped(scheme.scheme), escaped(scheme.label));
    for (int64_t length : lengths) html += fmt::format("<td>{}</td>", cell(scheme, length));
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

// The mean above, its interval below it in small; grey where zero lies inside.
std::string interval_cell(const Interval& i) {
  if (i.count == 0) return "-";
  if (i.count == 1) return decimals(i.mean, true);
  const std::string text = fmt::format("{}<br><small>{} to {}</small>", decimals(i.mean, true),
                                       decimals(i.mean - i.half, true), decimals(i.mean + i.half, true));
  return i.apart() ? text : fmt::format("<span class=\"unsure\">{}</span>", text);
}

std::vector<int64_t> past(const Summary& summary) {
  std::vector<int64_t> lengths;
  for (int64_t length : summary.lengths) {
    if (length > summary.settings.train_length) lengths.push_back(length);
  }
  return lengths;
}

}  // namespace

std::string ratio_text(int64_t length, int64_t train_length) {
  return ratio_number(length, train_length) + " L";
}

std::string loss_table(const Summary& summary, const std::string& protocol) {
  return by_length(summary, summary.lengths, [&](const SchemeSummary& scheme, int64_t length) {
    return loss_text(scheme, protocol, length);
  });
}

std::string change_table(const Summary& summary, const std::string& protocol) {
  const int64_t L = summary.settings.train_length;
  return by_length(summary, past(summary), [&](const SchemeSummary& scheme, int64_t length) {
    Interval own = change(scheme, protocol, L, length);
    if (own.count || scheme.test_scaling == "none") return interval_cell(own);
    // A scaling has no loss at L of its own: there it is the plain scheme.
    std::vector<double> differences;
    for (const SchemeSummary& plain : summary.schemes) {
      if (plain.scheme != scheme.scheme || plain.test_scaling != "none") continue;
      for (const auto& [seed, losses] : scheme.by_seed) {
        const auto base = plain.by_seed.find(seed);
        if (base == plain.by_seed.end()) continue;
        differences.push_back(loss_in(losses, protocol, length) - loss_in(base->second, protocol, L));
      }
    }
    return interval_cell(interval(differences));
  });
}

size_t reference_scheme(const Summary& summary) {
  for (size_t n = 0; n < summary.schemes.size(); ++n) {
    if (summary.schemes[n].name == "rope" && summary.schemes[n].test_scaling == "none") return n;
  }
  return 0;
}

std::string difference_table(const Summary& summary, size_t reference) {
  const SchemeSummary& other = summary.schemes[reference];
  return by_length(summary, summary.lengths, [&](const SchemeSummary& scheme, int64_t length) -> std::string {
    if (&scheme == &other) return "0";
    return interval_cell(difference(scheme, other, kWindows, length));
  });
}

std::string task_table_html(const Summary& task) {
  std::string html = "<div class=\"wide\"><table><thead><tr><th>scheme</th>";
  for (int64_t length : task.lengths) {
    html += fmt::format("<th>{}<br><small>{}</small></th>", length,
                        length <= task.settings.train_length ? "trained" : "longer");
  }
  html += "<th>learned</th><th>not learned</th><th>diverged</th></tr></thead><tbody>";
  for (const SchemeSummary& scheme : task.schemes) {
    html += fmt::format("<tr><th title=\"{}\">{}</th>", escaped(scheme.scheme), escaped(scheme.label));
    if (scheme.exact.empty() && !task.lengths.empty()) {  // the same words at every length
      html += fmt::format("<td class=\"unsure\" colspan=\"{}\">{}</td>", task.lengths.size(),
                          exact_text(scheme, task.lengths.front()));
    } else {
      for (int64_t length : task.lengths) html += fmt::format("<td>{}</td>", exact_text(scheme, length));
    }
    html += fmt::format("<td>{}</td><td>{}</td><td>{}</td></tr>", scheme.exact_by_seed.size(), scheme.not_learned,
                        scheme.diverged);
  }
  return html + "</tbody></table></div>";
}

std::string loss_and_recall_table(const Summary& text, const std::vector<Summary>& all) {
  const Summary* recall = nullptr;
  for (const Summary& summary : all) {
    if (summary.task == "recall" && !recall) recall = &summary;
  }
  if (!recall || recall->lengths.empty() || text.lengths.empty()) return "";
  const int64_t L = text.settings.train_length, far = text.lengths.back();
  std::string html = fmt::format(
      "<div class=\"wide\"><table><thead><tr><th>scheme</th><th>loss<br><small>at L</small></th>"
      "<th>loss<br><small>at {}</small></th><th>change<br><small>from L</small></th>", ratio_text(far, L));
  for (int64_t length : recall->lengths) {
    if (length < recall->settings.train_length) continue;
    html += fmt::format("<th>recall<br><small>{} back{}</small></th>", length,
                        length == recall->settings.train_length ? ", trained" : "");
  }
  html += "</tr></thead><tbody>";
  for (const SchemeSummary& scheme : text.schemes) {
    if (scheme.test_scaling != "none") continue;
    html += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td>", escaped(scheme.label),
                        loss_text(scheme, kWindows, L), loss_text(scheme, kWindows, far),
                        interval_cell(change(scheme, kWindows, L, far)));
    // By name: a scheme's options are fitted to each training length.
    const auto same = std::find_if(recall->schemes.begin(), recall->schemes.end(),
                                   [&](const SchemeSummary& s) { return s.name == scheme.name; });
    for (int64_t length : recall->lengths) {
      if (length < recall->settings.train_length) continue;
      html += fmt::format("<td>{}</td>", same == recall->schemes.end() ? "-" : exact_text(*same, length));
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string claims_table(const std::vector<Record>& records) {
  std::string html =
      "<table class=\"claims\"><thead><tr><th>#</th><th>claim</th><th>bar</th><th>verdict</th>"
      "<th>numbers (mean over seeds, each seed in brackets)</th></tr></thead><tbody>";
  for (const ClaimResult& claim : judge_claims(records)) {
    const char* css = claim.verdict == Verdict::kHolds   ? "holds"
                      : claim.verdict == Verdict::kFails ? "fails"
                                                         : "untested";
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td></tr>", claim.number,
        escaped(claim.claim), escaped(claim.bar), css, verdict_text(claim.verdict),
        escaped(claim.evidence));
  }
  return html + "</tbody></table>";
}

std::string runs_table(const Summary& summary) {
  std::string html =
      "<div class=\"wide\"><table><thead><tr><th>scheme</th><th>seeds</th><th>diverged</th><th>parameters</th>"
      "<th>of these positions</th><th>threads</th><th>training tokens/s</th><th>share of FMA peak</th></tr></thead>"
      "<tbody>";
  int64_t memory = 0;
  size_t seeds = 0;
  int diverged = 0;
  for (const Record& record : summary.records) memory = std::max(memory, record.memory_mb);
  for (const SchemeSummary& scheme : summary.schemes) {
    if (scheme.test_scaling != "none") continue;
    seeds += scheme.seeds.size();
    diverged += scheme.diverged;
    html += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        escaped(scheme.label), scheme.seeds.size(), scheme.diverged, scheme.parameters,
        scheme.position_parameters,
        scheme.least_threads == scheme.most_threads
            ? fmt::format("{}", scheme.most_threads)
            : fmt::format("{} to {}", scheme.least_threads, scheme.most_threads),
        std::isfinite(scheme.tokens_per_second) ? fmt::format("{:.0f}", scheme.tokens_per_second) : "-",
        std::isfinite(scheme.peak_share) ? fmt::format("{:.0f} %", 100 * scheme.peak_share) : "not measured");
  }
  return html + fmt::format("</tbody></table></div><p>{} trained, {} of them diverged. Largest memory of a "
                            "whole comparison's process: {} MB. Speeds are medians of the runs.{}</p>",
                            counted(int64_t(seeds) + diverged, "run"), diverged, memory,
                            summary.settings.steps < 100 ? " So few steps say little about speed." : "");
}

}  // namespace locant::study
