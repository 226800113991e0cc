// locant report: a page from records, of one machine or many.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/preset.h"
#include "locant/cli/say.h"
#include "locant/study/claims.h"
#include "locant/study/json.h"
#include "locant/study/report.h"
#include "locant/study/summary.h"

namespace locant::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> records;
  std::string out = "report.html", svg;
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

int report_action(const ReportArguments& args) {
  std::vector<study::Record> records;
  for (std::string path : args.records) {
    if (std::filesystem::is_directory(path)) path += "/records.jsonl";
    study::RecordFile file = study::read_records(path);
    for (const std::string& note : file.notes) say("locant: {}\n", note);
    records.insert(records.end(), file.records.begin(), file.records.end());
  }
  std::map<std::string, std::string> numbers;  // of each key, to tell copies from conflicts
  for (const study::Record& record : records) {
    study::Record losses;
    losses.losses = record.losses;
    const auto [at, added] = numbers.emplace(record.key(), study::to_json(losses));
    if (!added && at->second != study::to_json(losses)) {
      say("locant: {} seed {} was recorded twice with different losses; the first counts\n", record.scheme,
          record.seed);
    }
  }
  if (records.empty()) fail("report", "no records in ", join(args.records));
  const std::vector<study::Summary> summaries = study::summarize(records);
  for (const study::Summary& summary : summaries) {
    if (args.json) {
      study::JsonObject json;
      json.text("settings_id", summary.settings.id()).raw("settings", summary.settings.text());
      json.raw("claims", claims_json(summary.records));
      fmt::print("{}\n", json.str());
      continue;
    }
    if (summaries.size() > 1) fmt::print("Settings {}: {}\n", summary.settings.id(), summary.settings.text());
    fmt::print("{}", study::table(summary));
    for (const study::ClaimResult& claim : study::judge_claims(summary.records)) {
      if (claim.verdict == study::Verdict::kNotTested) continue;
      fmt::print("{:>3}  {:<14} {}\n     {}\n", claim.number, study::verdict_text(claim.verdict), claim.claim,
                 claim.evidence);
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
  command->add_flag("--json", args->json, "Print settings, claims and verdicts as a line of JSON each");
  command->footer("Example: locant report laptop/records.jsonl server/ --out both.html");
  command->callback([args, &action] { action = [args] { return report_action(*args); }; });
}

}  // namespace locant::cli
