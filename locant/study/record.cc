#include "locant/study/record.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/checkpoint/json.h"
#include "locant/data/corpus.h"
#include "locant/study/json.h"

namespace locant::study {
namespace {

constexpr int64_t kVersion = 1;

using simdjson::dom::element;
using simdjson::dom::object;

// Reading: fields by name; a missing or mistyped one says so with its name.
struct Reader {
  object json;
  const std::string& where;

  template <class T>
  T get(const char* name) const {
    T value;
    const auto error = json[name].get(value);
    if (error) fail("records", where, ": field ", name, ": ", simdjson::error_message(error));
    return value;
  }
  std::string text(const char* name) const { return std::string(get<std::string_view>(name)); }
  int64_t integer(const char* name) const { return get<int64_t>(name); }
  double real(const char* name) const { return number(get<element>(name)); }
  bool has(const char* name) const { return !json[name].error(); }
  // null stands for a number that is not finite.
  static double number(element value) {
    double real;
    return value.get(real) ? NAN : real;
  }
};

std::vector<double> reals(simdjson::dom::array array) {
  std::vector<double> numbers;
  for (element value : array) numbers.push_back(Reader::number(value));
  return numbers;
}

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

Settings settings_from(const Reader& read) {
  Settings s;
  s.corpus = read.text("corpus");
  s.corpus_fingerprint = read.text("corpus_fingerprint");
  s.train_length = read.integer("train_length");
  s.steps = read.integer("steps");
  s.batch = read.integer("batch");
  s.layers = read.integer("layers");
  s.width = read.integer("width");
  s.heads = read.integer("heads");
  s.feed_forward = read.integer("feed_forward");
  s.learning_rate = read.real("learning_rate");
  s.table_rate = read.real("table_rate");
  s.weight_decay = read.real("weight_decay");
  s.clip = read.real("clip");
  s.warmup = read.integer("warmup");
  s.targets_windows = read.integer("targets_windows");
  s.targets_same = read.integer("targets_same");
  s.targets_sliding = read.integer("targets_sliding");
  if (read.has("task")) {
    s.task = read.text("task");
    s.encoder = read.get<bool>("encoder");
    s.sequence = read.integer("sequence");
    s.examples = read.integer("examples");
  }
  if (read.has("tuned_steps")) {
    s.tuned_steps = read.integer("tuned_steps");
    s.tuned_length = read.integer("tuned_length");
  }
  return s;
}

std::string curve_json(const std::vector<std::pair<int64_t, double>>& curve) {
  std::vector<std::string> points;
  for (const auto& [step, loss] : curve) {
    points.push_back(fmt::format("[{},{}]", step, json_number(loss)));
  }
  return fmt::format("[{}]", fmt::join(points, ","));
}

std::vector<std::pair<int64_t, double>> curve_from(simdjson::dom::array array) {
  std::vector<std::pair<int64_t, double>> curve;
  for (element point : array) {
    const auto pair = reals(point);
    if (pair.size() == 2) curve.emplace_back(std::llround(pair[0]), pair[1]);
  }
  return curve;
}

int64_t length_from(std::string_view key, const std::string& where) {
  try {
    return std::stoll(std::string(key));
  } catch (const std::exception&) {
    fail("records", where, ": expected a test length, got \"", key, "\"");
  }
}

std::string by_length_json(const std::map<int64_t, double>& by_length) {
  JsonObject json;
  for (const auto& [length, value] : by_length) json.real(std::to_string(length), value);
  return json.str();
}

std::map<int64_t, double> by_length_from(object json, const std::string& where) {
  std::map<int64_t, double> by_length;
  for (const auto [length, value] : json) by_length[length_from(length, where)] = Reader::number(value);
  return by_length;
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

std::vector<LearnedTable> tables_from(simdjson::dom::array array, const std::string& where) {
  std::vector<LearnedTable> tables;
  for (element entry : array) {
    const Reader read{entry, where};
    LearnedTable table;
    table.title = read.text("title");
    for (double d : reals(read.get<simdjson::dom::array>("distances"))) {
      table.distances.push_back(std::llround(d));
    }
    for (element head : read.get<simdjson::dom::array>("heads")) table.heads.push_back(reals(head));
    tables.push_back(std::move(table));
  }
  return tables;
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
  json.integer("record_version", kVersion);
  json.text("task", r.task).text("scheme", r.scheme).text("name", r.name);
  json.integer("seed", static_cast<int64_t>(r.seed)).integer("train_length", r.settings.train_length);
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

Record record_from_json(const std::string& line, const std::string& where) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(line).get(root)) {
    fail("records", where, ": not a JSON object: ", simdjson::error_message(error));
  }
  object top;
  if (root.get(top)) fail("records", where, ": expected a JSON object");
  const Reader read{top, where};
  if (read.integer("record_version") != kVersion) {
    fail("records", where, ": expected record_version ", kVersion, ", got ",
         read.integer("record_version"));
  }
  Record r;
  r.task = read.text("task");
  r.scheme = read.text("scheme");
  r.name = read.text("name");
  r.seed = static_cast<uint64_t>(read.integer("seed"));
  r.test_scaling = read.text("test_scaling");
  r.settings = settings_from({read.get<object>("settings"), where});
  for (const auto [protocol, by_length] : read.get<object>("losses")) {
    r.losses[std::string(protocol)] = by_length_from(by_length, where);
  }
  if (r.is_task()) {
    r.exact_match = by_length_from(read.get<object>("exact_match"), where);
    r.symbol_match = by_length_from(read.get<object>("symbol_match"), where);
    r.gate = read.real("gate");
  }
  for (const auto [length, text] : read.get<object>("test_schemes")) {
    r.test_schemes[length_from(length, where)] = std::string(std::string_view(text));
  }
  for (double length : reals(read.get<simdjson::dom::array>("repeated_rows"))) {
    r.repeated_rows.push_back(std::llround(length));
  }
  r.diverged = read.get<bool>("diverged");
  r.error = read.text("error");
  r.curve = curve_from(read.get<simdjson::dom::array>("curve"));
  r.validation = curve_from(read.get<simdjson::dom::array>("validation"));
  r.tables = tables_from(read.get<simdjson::dom::array>("tables"), where);
  r.parameters = read.integer("parameters");
  r.position_parameters = read.integer("position_parameters");
  r.tokens_per_second = read.real("tokens_per_second");
  r.gflops = read.real("gflops");
  r.peak_share = read.real("peak_share");
  r.train_seconds = read.real("train_seconds");
  r.evaluate_seconds = read.real("evaluate_seconds");
  r.memory_mb = read.integer("memory_mb");
  r.threads = static_cast<int>(read.integer("threads"));
  r.machine = read.text("machine");
  r.instruction_set = read.text("instruction_set");
  r.version = read.text("version");
  r.started = read.text("started");
  return r;
}

RecordFile read_records(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("records", path, ": cannot be read");
  RecordFile file;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    simdjson::dom::parser parser;
    if (parser.parse(line).error()) {
      // A cut line begins as every record does; anything else is not ours to skip.
      constexpr std::string_view kBegins = "{\"record_version\"";
      const size_t shared = std::min(line.size(), kBegins.size());
      if (std::string_view(line).substr(0, shared) != kBegins.substr(0, shared)) {
        fail("records", where, ": expected a record, got something else");
      }
      file.notes.push_back(where + ": cut off in its middle, left out");
      continue;
    }
    file.records.push_back(record_from_json(line, where));
  }
  if (in.bad()) fail("records", path, ": reading failed");
  return file;
}

void append_records(const std::string& path, const std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (const Record& record : records) lines.push_back(to_json(record));
  append_durably(path, lines);
}

}  // namespace locant::study
