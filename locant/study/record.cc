// Records: their settings, and writing them.
#include "locant/study/record.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/checkpoint/json.h"
#include "locant/data/corpus.h"
#include "locant/study/json.h"

namespace locant::study {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

JsonObject settings_json(const Settings& s) {
  JsonObject json;
  json.text("corpus", s.corpus).text("corpus_fingerprint", s.corpus_fingerprint);
  json.integer("train_length", s.train_length).integer("steps", s.steps).integer("batch", s.batch);
  json.integer("layers", s.layers).integer("width", s.width).integer("heads", s.heads);
  json.integer("feed_forward", s.feed_forward);
  json.real("learning_rate", s.learning_rate).real("table_rate", s.table_rate);
  json.real("weight_decay", s.weight_decay).real("clip", s.clip).integer("warmup", s.warmup);
  json.integer("targets_windows", s.targets_windows).integer("targets_same", s.targets_same);
  json.integer("targets_sliding", s.targets_sliding);
  // Further fields only where they mean something: those of a language model stay as they were.
  if (!s.task.empty()) {
    json.text("task", s.task).raw("encoder", s.encoder ? "true" : "false");
    json.integer("sequence", s.sequence).integer("examples", s.examples);
  }
  if (s.tuned_steps > 0) {
    json.integer("tuned_steps", s.tuned_steps).integer("tuned_length", s.tuned_length);
  }
  return json;
}

std::string curve_json(const std::vector<std::pair<int64_t, double>>& curve) {
  std::vector<std::string> points;
  for (const auto& [step, loss] : curve) {
    points.push_back(fmt::format("[{},{}]", step, json_number(loss)));
  }
  return fmt::format("[{}]", fmt::join(points, ","));
}

std::string by_length_json(const std::map<int64_t, double>& by_length) {
  JsonObject json;
  for (const auto& [length, value] : by_length) json.real(std::to_string(length), value);
  return json.str();
}

std::string tables_json(const std::vector<LearnedTable>& tables) {
  std::vector<std::string> all;
  for (const LearnedTable& table : tables) {
    std::vector<std::string> heads;
    for (const auto& head : table.heads) {
      std::vector<std::string> numbers;
      for (double x : head) numbers.push_back(std::isfinite(x) ? fmt::format("{:.6g}", x) : "null");
      heads.push_back(fmt::format("[{}]", fmt::join(numbers, ",")));
    }
    JsonObject json;
    json.text("title", table.title);
    json.raw("distances", fmt::format("[{}]", fmt::join(table.distances, ",")));
    json.raw("heads", fmt::format("[{}]", fmt::join(heads, ",")));
    all.push_back(json.str());
  }
  return fmt::format("[{}]", fmt::join(all, ","));
}

}  // namespace

std::string Settings::text() const { return settings_json(*this).str(); }

std::string Settings::difference(const Settings& other) const {
  simdjson::dom::parser one, two;
  const object mine = one.parse(text()), theirs = two.parse(other.text());
  std::vector<std::string> parts;
  const auto text_of = [](const object& settings, std::string_view name) {
    element value;
    return settings[name].get(value) ? std::string("none") : std::string(simdjson::minify(value));
  };
  for (const auto [name, value] : mine) {
    const std::string a = text_of(mine, name), b = text_of(theirs, name);
    if (a != b) parts.push_back(fmt::format("{} {}, here {}", name, a, b));
  }
  for (const auto [name, value] : theirs) {
    if (mine[name].error()) parts.push_back(fmt::format("{} none, here {}", name, text_of(theirs, name)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string Settings::id() const { return fingerprint_text(fnv1a(text())); }

bool Record::learned() const {
  const auto in_range = exact_match.find(settings.train_length);
  return in_range != exact_match.end() && in_range->second >= gate;
}

std::string Record::key() const {
  return fmt::format("{}|{}|{}|{}|{}", settings.id(), task, scheme, seed, test_scaling);
}

std::string to_json(const Record& r) {
  JsonObject losses;
  for (const auto& [protocol, by_length] : r.losses) losses.raw(protocol, by_length_json(by_length));
  JsonObject test_schemes;
  for (const auto& [length, text] : r.test_schemes) test_schemes.text(std::to_string(length), text);

  JsonObject json;
  json.integer("record_version", kRecordVersion);
  json.text("task", r.task).text("scheme", r.scheme).text("name", r.name);
  json.raw("seed", std::to_string(r.seed)).integer("train_length", r.settings.train_length);
  json.text("test_scaling", r.test_scaling);
  json.raw("settings", settings_json(r.settings).str()).text("settings_id", r.settings.id());
  json.raw("losses", losses.str()).raw("test_schemes", test_schemes.str());
  if (r.is_task()) {
    json.raw("exact_match", by_length_json(r.exact_match));
    json.raw("symbol_match", by_length_json(r.symbol_match));
    json.real("gate", r.gate).raw("learned", r.learned() ? "true" : "false");
  }
  json.raw("repeated_rows", fmt::format("[{}]", fmt::join(r.repeated_rows, ",")));
  json.raw("diverged", r.diverged ? "true" : "false").text("error", r.error);
  json.raw("curve", curve_json(r.curve)).raw("validation", curve_json(r.validation));
  json.raw("tables", tables_json(r.tables));
  json.integer("parameters", r.parameters).integer("position_parameters", r.position_parameters);
  json.real("tokens_per_second", r.tokens_per_second).real("gflops", r.gflops);
  json.real("peak_share", r.peak_share).real("train_seconds", r.train_seconds);
  json.real("evaluate_seconds", r.evaluate_seconds).integer("memory_mb", r.memory_mb);
  json.integer("threads", r.threads).text("machine", r.machine);
  json.text("instruction_set", r.instruction_set).text("version", r.version);
  json.text("started", r.started);
  return json.str();
}

void append_records(const std::string& path, const std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (const Record& record : records) lines.push_back(to_json(record));
  append_durably(path, lines);
}

}  // namespace locant::study
