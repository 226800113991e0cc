#include "locant/study/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "locant/checkpoint/atomic_file.h"
#include "locant/study/claims.h"
#include "locant/study/plot.h"
#include "locant/study/report_page.h"
#include "locant/study/summary.h"

namespace locant::study {
namespace {

const char* protocol_title(const std::string& protocol) {
  if (protocol == kWindows) return "(i) Windows that do not overlap, every target counts";
  if (protocol == kSameTargets) return "(ii) The same targets, seen with more and more context";
  return "(iii) Sliding window, every target with nearly the full context";
}

const char* protocol_meaning(const std::string& protocol) {
  if (protocol == kWindows) {
    return "A longer window has fewer targets near its beginning, so this loss falls a little even "
           "for a model that looks no further back than before.";
  }
  if (protocol == kSameTargets) {
    return "Only the context grows, the predicted bytes stay the same: this shows whether more "
           "context helps or harms.";
  }
  return "What a reader who keeps the window full would meet.";
}

std::string ratio_text(int64_t length, int64_t train_length) {
  return fmt::format("{:g} L", double(length) / double(train_length));
}

std::string loss_table(const Summary& summary, const std::string& protocol) {
  std::string html = "<table><thead><tr><th>scheme</th>";
  for (int64_t length : summary.lengths) {
    html += fmt::format("<th>{}<br><small>{}</small></th>",
                        ratio_text(length, summary.settings.train_length), length);
  }
  html += "</tr></thead><tbody>";
  for (const SchemeSummary& scheme : summary.schemes) {
    html += fmt::format("<tr><th title=\"{}\">{}</th>", escaped(scheme.scheme), escaped(scheme.label));
    for (int64_t length : summary.lengths) {
      html += fmt::format("<td>{}</td>", loss_text(scheme, protocol, length));
    }
    html += "</tr>";
  }
  return html + "</tbody></table>";
}

// One colour for a scheme in all plots: its place in the table.
int colour_of(const Summary& summary, const std::string& scheme, const std::string& scaling) {
  for (size_t n = 0; n < summary.schemes.size(); ++n) {
    if (summary.schemes[n].scheme == scheme && summary.schemes[n].test_scaling == scaling) return int(n);
  }
  return -1;
}

Plot length_plot(const Summary& summary, const std::string& protocol) {
  Plot plot;
  plot.x_label = "tokens read (L = training length)";
  plot.y_label = "loss, nats per byte";
  plot.log2_x = true;
  for (int64_t length : summary.lengths) {
    plot.x_ticks.emplace_back(double(length), ratio_text(length, summary.settings.train_length));
  }
  for (const SchemeSummary& scheme : summary.schemes) {
    Line line;
    line.title = scheme.label;
    line.dashed = scheme.test_scaling != "none";
    line.colour = colour_of(summary, scheme.scheme, scheme.test_scaling);
    const auto losses = scheme.losses.find(protocol);
    if (losses == scheme.losses.end()) continue;
    for (const auto& [length, s] : losses->second) line.points.emplace_back(double(length), s.mean);
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

// Curves of the first seed of every scheme: means over seeds would hide a run that stumbled.
Plot curve_plot(const Summary& summary, bool validation) {
  Plot plot;
  plot.x_label = "step";
  plot.y_label = validation ? "validation loss, nats per byte" : "training loss, nats per byte";
  std::set<std::string> drawn;
  double low = INFINITY, at_tenth = 0;
  for (const Record& record : summary.records) {
    if (record.task != kLanguageModel || record.test_scaling != "none") continue;
    if (!drawn.insert(record.scheme).second) continue;
    Line line;
    line.title = record.name;
    line.colour = colour_of(summary, record.scheme, "none");
    for (const auto& [step, loss] : validation ? record.validation : record.curve) {
      line.points.emplace_back(double(step), loss);
      if (std::isfinite(loss)) low = std::min(low, loss);
      if (step <= summary.settings.steps / 10 && std::isfinite(loss)) at_tenth = std::max(at_tenth, loss);
    }
    plot.lines.push_back(std::move(line));
  }
  // The first steps fall steeply and would press the rest flat.
  if (std::isfinite(low) && at_tenth > low) {
    plot.y_low = std::floor(low * 10) / 10;
    plot.y_high = std::min(at_tenth, low * 2.2);
  }
  return plot;
}

std::string figure(const Plot& plot, const std::string& caption) {
  const Drawing drawing = draw(plot);
  if (drawing.svg.empty()) {
    return fmt::format("<p class=\"missing\">No picture ({}): {}</p>", escaped(caption),
                       escaped(drawing.reason));
  }
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>",
                     picture(drawing.svg, caption), escaped(caption));
}

std::string tables_section(const Summary& summary) {
  std::string html;
  std::set<std::string> shown;
  for (const Record& record : summary.records) {
    if (record.tables.empty() || !shown.insert(record.scheme).second) continue;
    html += fmt::format("<details><summary>{} <small>seed {}</small></summary>",
                        escaped(record.name), record.seed);
    for (const LearnedTable& table : record.tables) {
      Plot plot;
      plot.x_label = "distance, key position minus query position";
      plot.y_label = table.title;
      plot.height = 320;
      for (size_t h = 0; h < table.heads.size(); ++h) {
        Line line;
        line.title = table.heads.size() == 1 ? "all heads" : fmt::format("head {}", h);
        for (size_t n = 0; n < table.distances.size(); ++n) {
          line.points.emplace_back(double(table.distances[n]), table.heads[h][n]);
        }
        plot.lines.push_back(std::move(line));
      }
      html += figure(plot, fmt::format("{}, {}. Distances past -{} were never trained.", record.name,
                                       table.title, summary.settings.train_length - 1));
    }
    html += "</details>";
  }
  return html.empty() ? "<p>No scheme of this run learns a table over distances.</p>" : html;
}

std::string claims_section(const Summary& summary) {
  std::string html =
      "<table class=\"claims\"><thead><tr><th>#</th><th>claim</th><th>bar</th><th>verdict</th>"
      "<th>numbers (mean over seeds, each seed in brackets)</th></tr></thead><tbody>";
  for (const ClaimResult& claim : judge_claims(summary.records)) {
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

std::string speed_table(const Summary& summary) {
  std::string html =
      "<table><thead><tr><th>scheme</th><th>seeds</th><th>diverged</th><th>parameters</th>"
      "<th>of these positions</th><th>training tokens/s</th><th>share of FMA peak</th>"
      "</tr></thead><tbody>";
  int64_t memory = 0;
  for (const Record& record : summary.records) memory = std::max(memory, record.memory_mb);
  for (const SchemeSummary& scheme : summary.schemes) {
    if (scheme.test_scaling != "none") continue;
    html += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0f}</td><td>{}</td></tr>",
        escaped(scheme.label), scheme.seeds.size(), scheme.diverged, scheme.parameters,
        scheme.position_parameters, scheme.tokens_per_second.mean,
        scheme.peak_share.mean > 0 ? fmt::format("{:.0f} %", 100 * scheme.peak_share.mean)
                                   : "not measured");
  }
  return html + fmt::format("</tbody></table><p>Largest memory of a whole comparison's process: {} MB.{}</p>", memory,
                            summary.settings.steps < 100 ? " So few steps say little about speed." : "");
}

std::string all_of(const std::set<std::string>& words) {
  return escaped(fmt::format("{}", fmt::join(words, ", ")));
}

std::string how_made(const Summary& summary) {
  const Settings& s = summary.settings;
  std::set<std::string> machines, sets, versions, threads, seeds;
  for (const Record& r : summary.records) {
    machines.insert(r.machine);
    sets.insert(r.instruction_set);
    versions.insert(r.version);
    threads.insert(std::to_string(r.threads));
    seeds.insert(std::to_string(r.seed));
  }
  std::string html = fmt::format(
      "<p>Text {} (fingerprint {}), bytes as tokens; first 90 % for training, the next 5 % for "
      "validation curves, the last 5 % for all tables. Model: {} layers, width {}, {} heads, "
      "feed-forward {}; trained {} steps of {} sequences of L = {} bytes, AdamW, learning rate {:g}, "
      "position tables {:g} times that and without weight decay. Same seed: same initial trunk and "
      "same batches for every scheme. Seeds {}. Locant {}, {} threads, {}, instruction set {}.</p>",
      escaped(s.corpus), escaped(s.corpus_fingerprint), s.layers, s.width, s.heads, s.feed_forward, s.steps,
      s.batch, s.train_length, s.learning_rate, s.table_rate, fmt::join(seeds, ", "),
      all_of(versions), all_of(threads), all_of(machines), all_of(sets));
  html += "<details><summary>Full specification of every scheme</summary><ul>";
  for (const SchemeSummary& scheme : summary.schemes) {
    if (scheme.test_scaling == "none") html += fmt::format("<li><code>{}</code></li>", escaped(scheme.scheme));
  }
  return html + "</ul></details>";
}

std::string section(const Summary& summary) {
  std::string html;
  if (summary.settings.steps < 500) {
    html += fmt::format(
        "<p class=\"warning\">Only {} steps: this run shows that everything works, not how the "
        "schemes behave.</p>",
        summary.settings.steps);
  }
  html += "<h2>Loss against length</h2>";
  html += figure(length_plot(summary, kWindows), protocol_title(kWindows));
  html += figure(length_plot(summary, kSameTargets), protocol_title(kSameTargets));
  for (const char* protocol : {kWindows, kSameTargets, kSliding}) {
    html += fmt::format("<h3>{}</h3><p>{}</p><div class=\"wide\">{}</div>", protocol_title(protocol),
                        protocol_meaning(protocol), loss_table(summary, protocol));
  }
  html +=
      "<p><small>Nats per byte; ± is the deviation over seeds. * the table has no rows past L, so its "
      "last row was repeated. Differences under 0.02 between single seeds mean nothing.</small></p>";
  html += "<h2>Claims</h2><p>Bars were taken from the literature and a pilot before these runs, and "
          "are not moved to fit.</p><div class=\"wide\">" +
          claims_section(summary) + "</div>";
  html += "<h2>Training</h2>" + figure(curve_plot(summary, false), "Training loss, first seed") +
          figure(curve_plot(summary, true), "Validation loss, first seed");
  html += "<h2>What was learned about distance</h2>" + tables_section(summary);
  html += "<h2>Speed and memory</h2><div class=\"wide\">" + speed_table(summary) + "</div>";
  html += "<h2>How it was made</h2>" + how_made(summary);
  return html;
}

constexpr const char* kCannotShow = R"(<h2>What a run of this size cannot show</h2><ul>
<li>That ALiBi is better within the training length: at short lengths RoPE usually is, in the literature too.</li>
<li>That position interpolation works without fine-tuning: for small models it is worse than plain RoPE.</li>
<li>Which scheme is best at retrieving from far away: flat loss can hide short sight.</li>
<li>That NoPE is best overall: where it wins, models are a hundred times larger and the tasks are others.</li>
<li>Anything from differences under 0.02 nats in one seed.</li>
<li>Speed of a scheme in other programs: that is a matter of their code.</li></ul>)";

}  // namespace

std::string report_html(const std::vector<Record>& records, const std::string& source) {
  std::string body = fmt::format("<h1>Positions past the training length</h1><p>Made from {}.</p>",
                                 escaped(source));
  const std::vector<Summary> summaries = summarize(records);
  if (summaries.empty()) body += "<p>There are no records yet.</p>";
  for (const Summary& summary : summaries) {
    if (summaries.size() > 1) {
      body += fmt::format("<h1>Settings {}</h1><p><code>{}</code></p>", summary.settings.id(),
                          escaped(summary.settings.text()));
    }
    body += section(summary);
  }
  return page("Locant: positions past the training length", body + kCannotShow);
}

Drawing length_picture(const std::vector<Record>& records) {
  const std::vector<Summary> summaries = summarize(records);
  if (summaries.empty()) return {"", "there are no records"};
  return draw(length_plot(summaries.front(), kWindows));
}

void write_report(const std::string& path, const std::vector<Record>& records,
                  const std::string& source) {
  write_atomically(path, report_html(records, source));
}

}  // namespace locant::study
