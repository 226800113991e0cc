#include "locant/study/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "locant/checkpoint/atomic_file.h"
#include "locant/study/distance_view.h"
#include "locant/study/figure.h"
#include "locant/study/plot.h"
#include "locant/study/recommendation.h"
#include "locant/study/report_page.h"
#include "locant/study/report_tables.h"
#include "locant/study/summary.h"
#include "locant/study/words.h"

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
    if (record.test_scaling != "none") continue;
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

std::string tables_section(const Summary& summary) {
  std::string html;
  std::set<std::string> shown;
  for (const Record& record : summary.records) {
    if (record.tables.empty() || !shown.insert(record.scheme).second) continue;
    html += fmt::format("<details><summary>{} <small>seed {}</small></summary>",
                        escaped(record.name), record.seed);
    for (const LearnedTable& table : record.tables) {
      html += figure(plot_of(table, 320),
                     fmt::format("{}, {}. Distances past -{} were never trained.", record.name, table.title,
                                 summary.settings.train_length - 1));
    }
    html += "</details>";
  }
  return html.empty() ? "<p>No scheme of this run learns a table over distances.</p>" : html;
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
      "validation curves, the last 5 % for all tables. Model: {}, width {}, {}, "
      "feed-forward {}; trained {} of {} of L = {} bytes, AdamW, learning rate {:g}, "
      "position tables {:g} times that and without weight decay. Same seed: same initial trunk and "
      "same batches for every scheme. Seeds {}. Locant {}, {} threads, {}, instruction set {}.</p>",
      escaped(s.corpus), escaped(s.corpus_fingerprint), counted(s.layers, "layer"), s.width,
      counted(s.heads, "head"), s.feed_forward, counted(s.steps, "step"), counted(s.batch, "sequence"), s.train_length, s.learning_rate, s.table_rate, fmt::join(seeds, ", "),
      all_of(versions), all_of(threads), all_of(machines), all_of(sets));
  html += "<details><summary>Full specification of every scheme</summary><ul>";
  for (const SchemeSummary& scheme : summary.schemes) {
    if (scheme.test_scaling == "none") html += fmt::format("<li><code>{}</code></li>", escaped(scheme.scheme));
  }
  return html + "</ul></details>";
}

std::string differences(const Summary& summary) {
  const size_t reference = reference_scheme(summary);
  size_t seeds = 0;
  for (const SchemeSummary& scheme : summary.schemes) seeds = std::max(seeds, scheme.seeds.size());
  std::string html = "<p>Runs of one seed begin with the same trunk and see the same batches, so differences are taken "
                     "seed by seed. ";
  html += seeds > 1
              ? fmt::format("Below each mean: its 95 % interval by Student's t, up to {} seeds. Grey: the interval holds "
                            "zero, these runs show no difference.</p>", seeds)
              : "There is one seed, so there are no intervals: differences under 0.02 mean nothing.</p>";
  html += "<h3>Each scheme against itself at L</h3><p>Windows that do not overlap; below zero means that a longer text "
          "is read better.</p>" + change_table(summary, kWindows);
  html += "<h3>The same, for the same targets</h3>" + change_table(summary, kSameTargets);
  html += fmt::format("<h3>Each scheme against {}</h3><p>At the same length; below zero is better than {}.</p>",
                      escaped(summary.schemes[reference].label), escaped(summary.schemes[reference].label)) +
          difference_table(summary, reference);
  return html;
}

std::string advice_list(const Summary& summary, const std::vector<Summary>& all) {
  std::string html = "<p>This follows from the numbers above and from nothing else: this text, this size of model, this "
                     "many steps and seeds.</p><dl class=\"advice\">";
  for (const Advice& advice : recommend(summary, all)) {
    html += fmt::format("<dt>{}</dt><dd><strong{}>{}</strong><ul>", escaped(advice.use),
                        advice.choice.empty() ? " class=\"untested\"" : "",
                        advice.choice.empty() ? "These records cannot say." : escaped(advice.choice) + ".");
    for (const std::string& reason : advice.reasons) html += fmt::format("<li>{}</li>", escaped(reason));
    html += "</ul></dd>";
  }
  return html + "</dl>";
}

// `text`: the language model's, for the same colours; may be null.
std::string task_section(const Summary& task, const Summary* text) {
  Plot plot;
  plot.x_label = fmt::format("length (trained up to {})", task.settings.train_length);
  plot.y_label = "share of exact matches";
  plot.height = 400;
  plot.y_low = -.02, plot.y_high = 1.02;
  for (size_t n = 0; n < task.schemes.size(); ++n) {
    Line line;
    line.title = task.schemes[n].label;
    line.colour = int(n);
    for (size_t m = 0; text && m < text->schemes.size(); ++m) {
      if (text->schemes[m].name == task.schemes[n].name && text->schemes[m].test_scaling == "none") line.colour = int(m);
    }
    for (const auto& [length, s] : task.schemes[n].exact) line.points.emplace_back(double(length), s.mean);
    if (!line.points.empty()) plot.lines.push_back(std::move(line));
  }
  std::string html = fmt::format("<h2>Task: {}{}</h2>", escaped(task.task), task.settings.encoder ? ", an encoder" : "");
  html += fmt::format("<p>{} of {}, answered {}; {} at each length. A run that does not "
                      "pass the gate at length {} has not learned the task: what it does further out says nothing of "
                      "positions, so it counts as \"not learned\" and in no mean.</p>",
                      counted(task.settings.steps, "step"), counted(task.settings.batch, "string"),
                      task.settings.encoder ? "at every place at once" : "token by token",
                      counted(task.settings.examples, "string"), task.settings.train_length);
  if (!plot.lines.empty()) html += figure(plot, task.task + ": exact matches by length, means of the runs that learned it");
  return html + task_table_html(task);
}

std::string tuning_section(const Summary& tuned) {
  std::string html = fmt::format("<h2>Further training at {}</h2><p>{} of a trained model.</p><div class=\"wide\">"
                                 "<table><thead><tr><th>scheme</th><th>loss there</th><th>seeds</th><th>diverged</th></tr>"
                                 "</thead><tbody>",
                                 ratio_text(tuned.settings.tuned_length, tuned.settings.train_length),
                                 counted(tuned.settings.tuned_steps, "more step"));
  for (const SchemeSummary& s : tuned.schemes) {
    html += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>", escaped(s.label),
                        loss_text(s, kWindows, tuned.settings.tuned_length), s.seeds.size(), s.diverged);
  }
  return html + "</tbody></table></div>";
}

std::string text_section(const Summary& summary, const std::vector<Summary>& all) {
  std::string html;
  if (summary.settings.steps < 500) {
    html += fmt::format(
        "<p class=\"warning\">Only {}: this run shows that everything works, not how the "
        "schemes behave.</p>",
        counted(summary.settings.steps, "step"));
  }
  html += "<h2>Loss against length</h2>";
  html += figure(length_plot(summary, kWindows), protocol_title(kWindows));
  html += figure(length_plot(summary, kSameTargets), protocol_title(kSameTargets));
  for (const char* protocol : {kWindows, kSameTargets, kSliding}) {
    html += fmt::format("<h3>{}</h3><p>{}</p>{}", protocol_title(protocol), protocol_meaning(protocol),
                        loss_table(summary, protocol));
  }
  html +=
      "<p><small>Nats per byte; ± is the deviation over seeds. * the table has no rows past L, so its "
      "last row was repeated. Differences under 0.02 between single seeds mean nothing.</small></p>";
  if (const std::string table = loss_and_recall_table(summary, all); !table.empty()) {
    html += "<h2>Loss beside recall</h2><p>A scheme that only looks at near tokens reads on with a flat loss, and finds "
            "nothing: so many tokens back stood the pair that was asked for. Recall: share of exact answers, of runs "
            "that learned the task in range.</p>" + table;
  }
  html += "<h2>Differences, seed by seed</h2>" + differences(summary);
  html += "<h2>Claims</h2><p>Bars were taken from the literature and a pilot before these runs, and "
          "are not moved to fit.</p>" + claims_table(with_tasks(summary, all));
  html += "<h2>Training</h2>" + figure(curve_plot(summary, false), "Training loss, first seed") +
          figure(curve_plot(summary, true), "Validation loss, first seed");
  html += "<h2>What was learned about distance</h2>" + tables_section(summary);
  html += "<h2>Runs, speed and memory</h2>" + runs_table(summary);
  html += "<h2>How it was made</h2>" + how_made(summary);
  return html;
}

constexpr const char* kCannotShow = R"(<h2>What a run of this size cannot show</h2><ul>
<li>That ALiBi is better within the training length: at short lengths RoPE usually is, in the literature too.</li>
<li>That position interpolation works without fine-tuning: for small models it is worse than plain RoPE.</li>
<li>Which scheme retrieves best from far away in a real text: recall here is a small task of its own, and a flat loss alone can
    hide short sight.</li>
<li>That NoPE is best overall: where it wins, models are a hundred times larger and the tasks are others.</li>
<li>Anything from differences under 0.02 nats in one seed.</li>
<li>Speed of a scheme in other programs: that is a matter of their code.</li></ul>)";

}  // namespace

std::string report_html(const std::vector<Record>& records, const std::string& source) {
  std::string body = fmt::format("<h1>Positions past the training length</h1><p>Made from {}.", escaped(source));
  const std::vector<Summary> summaries = summarize(records);
  body += summaries.empty() ? "</p><p>There are no records yet.</p>"
                            : " At its end: <a href=\"#advice\">what these numbers advise</a>.</p>";
  const auto texts = std::count_if(summaries.begin(), summaries.end(), [](const Summary& s) { return s.is_text(); });
  const Summary* first_text = nullptr;
  for (const Summary& summary : summaries) {
    if (!summary.is_text()) continue;
    if (!first_text) first_text = &summary;
    if (texts > 1) {
      body += fmt::format("<h1>Settings {}</h1><p><code>{}</code></p>", summary.settings.id(),
                          escaped(summary.settings.text()));
    }
    body += text_section(summary, summaries);
  }
  for (const Summary& summary : summaries) {
    if (summary.is_task()) body += task_section(summary, first_text);
    if (summary.task == kFineTuning) body += tuning_section(summary);
  }
  body += kCannotShow;
  if (!summaries.empty()) body += "<h2 id=\"advice\">What these numbers advise</h2>";
  for (const Summary& summary : summaries) {
    if (!summary.is_text()) continue;
    if (texts > 1) body += fmt::format("<h3>Settings {}</h3>", summary.settings.id());
    body += advice_list(summary, summaries);
  }
  if (!summaries.empty() && texts == 0) body += advice_list(Summary{summaries.front().settings, kLanguageModel, {}, {}, {}}, summaries);
  return page("Locant: positions past the training length", body);
}

Drawing length_picture(const std::vector<Record>& records) {
  const std::vector<Summary> summaries = summarize(records);
  const auto text = std::find_if(summaries.begin(), summaries.end(), [](const Summary& s) { return s.is_text(); });
  if (text == summaries.end()) return {"", "there are no records of a language model"};
  return draw(length_plot(*text, kWindows));
}

void write_report(const std::string& path, const std::vector<Record>& records,
                  const std::string& source) {
  write_atomically(path, report_html(records, source));
}

}  // namespace locant::study
