// locant report: a page from records, of one machine or many.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/output_path.h"
#include "locant/cli/preset.h"
#include "locant/cli/say.h"
#include "locant/study/claims.h"
#include "locant/study/json.h"
#include "locant/study/paired.h"
#include "locant/study/recommendation.h"
#include "locant/study/report.h"
#include "locant/study/report_markdown.h"
#include "locant/study/summary.h"
#include "locant/study/words.h"

namespace locant::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> records;
  std::string out = "report.html", svg, markdown;
  std::vector<NamedPath> outputs;
  bool json = false;
};

std::string claims_json(const std::vector<study::Record>& records) {
  std::vector<std::string> list;
  for (const study::ClaimResult& claim : study::judge_claims(records)) {
    study::JsonObject json;
    json.integer("claim", claim.number).text("text", claim.claim).text("bar", claim.bar);
    json.text("verdict", study::verdict_text(claim.verdict)).integer("seeds", claim.seeds);
    json.text("evidence", claim.evidence);
    list.push_back(json.str());
  }
  return fmt::format("[{}]", fmt::join(list, ","));
}

std::string advice_json(const study::Summary& summary, const std::vector<study::Summary>& all) {
  std::vector<std::string> list;
  for (const study::Advice& advice : study::recommend(summary, all)) {
    study::JsonObject json;
    json.text("use", advice.use).text("choice", advice.choice);
    json.text("reasons", fmt::format("{}", fmt::join(advice.reasons, " ")));
    list.push_back(json.str());
  }
  return fmt::format("[{}]", fmt::join(list, ","));
}

// Means and deviations over seeds, by protocol and length, and the change from L with its interval.
std::string schemes_json(const study::Summary& summary) {
  std::vector<std::string> list;
  for (const study::SchemeSummary& scheme : summary.schemes) {
    study::JsonObject losses, changes;
    for (const auto& [protocol, by_length] : scheme.losses) {
      study::JsonObject one, from;
      for (const auto& [length, s] : by_length) {
        study::JsonObject cell;
        cell.real("mean", s.mean).real("deviation", s.deviation).integer("seeds", s.count);
        one.raw(std::to_string(length), cell.str());
        const study::Interval i = study::change(scheme, protocol, summary.settings.train_length, length);
        if (length == summary.settings.train_length || i.count == 0) continue;
        study::JsonObject interval;
        interval.real("mean", i.mean).real("low", i.mean - i.half).real("high", i.mean + i.half);
        from.raw(std::to_string(length), interval.integer("seeds", i.count).str());
      }
      losses.raw(protocol, one.str());
      changes.raw(protocol, from.str());
    }
    study::JsonObject json;
    json.text("label", scheme.label).text("scheme", scheme.scheme).text("test_scaling", scheme.test_scaling);
    study::JsonObject exact;
    for (const auto& [length, s] : scheme.exact) {
      study::JsonObject cell;
      cell.real("mean", s.mean).real("deviation", s.deviation).integer("seeds", s.count);
      exact.raw(std::to_string(length), cell.str());
    }
    if (summary.is_task()) json.raw("exact_match", exact.str()).integer("not_learned", scheme.not_learned);
    json.raw("seeds", fmt::format("[{}]", fmt::join(scheme.seeds, ","))).integer("diverged", scheme.diverged);
    list.push_back(json.raw("losses", losses.str()).raw("change_from_L", changes.str()).str());
  }
  return fmt::format("[{}]", fmt::join(list, ","));
}

// Copies of a run, and the same run on another machine, count once: they are no further seed. Other
// instruction sets round differently; larger differences would be another program.
void say_copies(const std::vector<study::Record>& records) {
  std::map<std::string, const study::Record*> first;
  int64_t copies = 0;
  double largest = 0;
  for (const study::Record& record : records) {
    const auto [at, added] = first.emplace(record.key(), &record);
    if (added) continue;
    ++copies;
    for (const auto& [protocol, by_length] : record.losses) {
      for (const auto& [length, loss] : by_length) {
        largest = std::max(largest, std::fabs(loss - study::loss_in(at->second->losses, protocol, length)));
      }
    }
    for (const auto& [length, share] : record.exact_match) {
      const auto other = at->second->exact_match.find(length);
      if (other != at->second->exact_match.end()) largest = std::max(largest, std::fabs(share - other->second));
    }
  }
  if (copies == 0) return;
  say("locant: {} of the records {} a run; the first of each counts{}\n", copies, copies == 1 ? "repeats" : "repeat",
      largest > 0 ? fmt::format(" (losses or shares differ by up to {:.2g})", largest) : "");
}

// What a table's runs were made with, in words; of a second table of the same task only what differs from the first.
std::string settings_text(const study::Summary& summary, const std::vector<study::Summary>& all) {
  const auto first = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.task == summary.task; });
  if (&*first != &summary) return "as " + first->settings.id() + " but " + first->settings.difference(summary.settings);
  const study::Settings& s = summary.settings;
  std::string name = s.task.empty() ? s.corpus : s.task;
  // Records come from anywhere: what would steer a terminal is not printed.
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  std::string text = name + ", " + study::size_text(s);
  if (s.tuned_steps) text += fmt::format(", then {} at {}", study::counted(s.tuned_steps, "step"), s.tuned_length);
  return text;
}

int report_action(const ReportArguments& args) {
  std::vector<study::Record> records;
  std::vector<NamedPath> inputs;
  for (const std::string& path : args.records) {
    const bool folder = std::filesystem::is_directory(path);
    if (folder && !std::filesystem::exists(path + "/records.jsonl")) fail("report", path, ": there is no records.jsonl in this folder");
    inputs.push_back({"records", folder ? path + "/records.jsonl" : path});
  }
  check_outputs("report", args.outputs, inputs);
  for (const auto& [option, path] : inputs) {
    study::RecordFile file = study::read_records(path);
    for (const std::string& note : file.notes) say("locant: {}\n", note);
    records.insert(records.end(), file.records.begin(), file.records.end());
  }
  if (records.empty()) fail("report", "no records in ", join(args.records));
  say_copies(records);
  const std::vector<study::Summary> summaries = study::summarize(records);
  const auto texts = std::count_if(summaries.begin(), summaries.end(), [](const auto& s) { return s.is_text(); });
  for (const study::Summary& summary : summaries) {
    const std::vector<study::Record> judged =
        summary.is_text() ? study::with_tasks(summary, summaries) : summary.records;
    if (args.json) {
      study::JsonObject json;
      json.text("settings_id", summary.settings.id()).text("task", summary.task).raw("settings", summary.settings.text());
      json.raw("schemes", schemes_json(summary));
      if (summary.is_text()) json.raw("claims", claims_json(judged)).raw("advice", advice_json(summary, summaries));
      fmt::print("{}\n", json.str());
      continue;
    }
    if (summaries.size() > 1) fmt::print("Settings {}: {}\n", summary.settings.id(), settings_text(summary, summaries));
    fmt::print("{}", study::table(summary));
    if (!summary.is_text()) continue;
    for (const study::ClaimResult& claim : study::judge_claims(judged)) {
      if (claim.verdict == study::Verdict::kNotTested) continue;
      fmt::print("{:>3}  {:<14} {}\n     {}\n", claim.number, study::verdict_text(claim.verdict), claim.claim,
                 claim.evidence);
    }
  }
  for (const study::Summary& summary : summaries) {
    if (args.json || !summary.is_text()) continue;
    fmt::print("What these numbers advise{}:\n", texts > 1 ? ", settings " + summary.settings.id() : "");
    for (const study::Advice& advice : study::recommend(summary, summaries)) {
      fmt::print("  {}: {}\n", advice.use, advice.choice.empty() ? "these records cannot say" : advice.choice);
      for (const std::string& reason : advice.reasons) fmt::print("     {}\n", reason);
    }
  }
  study::write_report(args.out, records, join(args.records));
  say("Report: {}\n", std::filesystem::absolute(args.out).string());
  if (!args.svg.empty()) {
    const study::Drawing drawing = study::length_picture(records);
    if (drawing.svg.empty()) fail("report", "no picture: ", drawing.reason);
    write_atomically(args.svg, drawing.svg);
    say("Picture: {}\n", args.svg);
  }
  if (!args.markdown.empty()) {
    std::vector<std::string> names;
    for (const std::string& path : args.records) names.push_back(std::filesystem::path(path).filename().string());
    write_atomically(args.markdown, study::report_markdown(records, names));
    say("Tables: {}\n", args.markdown);
  }
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto args = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Make the page and judge the claims from records; files of several machines are merged.");
  command->add_option("records", args->records, "Records (records.jsonl) or folders of comparisons")->required();
  command->add_option("--out", args->out, "The page")->capture_default_str();
  command->add_option("--svg", args->svg, "Also draw loss against length into this file");
  command->add_option("--markdown", args->markdown, "Also write the tables, the claims and the advice into this file");
  command->add_flag("--json", args->json, "Print settings, means, claims and advice as a line of JSON for each comparison");
  command->footer("Example: locant report laptop/records.jsonl server/ --out both.html");
  command->callback([args, command, &action] {
    args->outputs = paths_of(*command, {"--out", "--svg", "--markdown"});
    action = [args] { return report_action(*args); };
  });
}

}  // namespace locant::cli
