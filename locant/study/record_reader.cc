// Reading records. They come from anywhere: every field is held against what it may be.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>

#include "locant/base/check.h"
#include "locant/data/tasks.h"
#include "locant/position/registry.h"
#include "locant/study/record.h"

namespace locant::study {
namespace {

using simdjson::dom::element;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongest = int64_t{1} << 40;
constexpr double kRounding = 1e-6;  // a sure prediction's loss, a logarithm of about 1, may be below 0 by this

// A value in a record, with the way to it: "losses.windows.64".
class Value {
 public:
  Value(std::optional<element> json, std::string path, const std::string& where)
      : json_(json), path_(std::move(path)), where_(where) {}

  [[noreturn]] void refuse(const std::string& expected) const {
    std::string got = json_ ? simdjson::minify(*json_) : "nothing";
    if (got.size() > 80) got = got.substr(0, 77) + "...";
    fail("records", where_, ": field ", path_, ": expected ", expected, ", got ", got);
  }
  bool missing() const { return !json_; }

  Value operator[](std::string_view name) const {
    element inner;
    const bool found = !as<simdjson::dom::object>("an object")[name].get(inner);
    return {found ? std::optional(inner) : std::nullopt, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name),
            where_};
  }
  template <class Visit>  // visit(name, value)
  void each_field(const Visit& visit) const {
    for (const auto [name, value] : as<simdjson::dom::object>("an object")) {
      visit(name, Value(value, fmt::format("{}.{}", path_, name), where_));
    }
  }
  template <class Visit>  // visit(value)
  void each(const Visit& visit) const {
    size_t n = 0;
    for (element value : as<simdjson::dom::array>("a list")) {
      visit(Value(value, fmt::format("{}[{}]", path_, n++), where_));
    }
  }
  size_t size() const { return as<simdjson::dom::array>("a list").size(); }

  std::string text() const { return std::string(as<std::string_view>("a text")); }
  bool flag() const { return as<bool>("true or false"); }
  int64_t integer(int64_t low, int64_t high = kMost) const {
    int64_t value = 0;
    if (!json_ || json_->get(value) || value < low || value > high) {
      refuse(high == kMost ? fmt::format("an integer of at least {}", low)
                           : fmt::format("an integer from {} to {}", low, high));
    }
    return value;
  }
  uint64_t seed() const { return as<uint64_t>("an integer from 0 to 2^64 - 1"); }
  double real(double low, double high = std::numeric_limits<double>::infinity()) const {
    return number(low, high, false);
  }
  // null: not a finite number.
  double real_or_null(double low) const { return number(low, std::numeric_limits<double>::infinity(), true); }
  // In nats.
  double loss(bool may_be_infinite) const {
    double value = 0;
    if (may_be_infinite && is_null()) return NAN;
    if (!json_ || json_->get(value) || value < -kRounding) {
      refuse(may_be_infinite ? "a loss of 0 or more, or null" : "a loss of 0 or more (null, not finite, is of diverged runs)");
    }
    return value;
  }
  bool is_null() const { return json_ && json_->is_null(); }

 private:
  template <class T>
  T as(const char* expected) const {
    T value;
    if (!json_ || json_->get(value)) refuse(expected);
    return value;
  }
  double number(double low, double high, bool or_null) const {
    double value = 0;
    if (or_null && is_null()) return NAN;
    if (!json_ || json_->get(value) || !(value >= low && value <= high)) {
      std::string expected = "a number";
      if (std::isfinite(high)) {
        expected += fmt::format(" from {} to {}", low, high);
      } else if (std::isfinite(low)) {
        expected += fmt::format(" of at least {}", low);
      }
      refuse(expected + (or_null ? " or null" : ""));
    }
    return value;
  }

  std::optional<element> json_;
  std::string path_;
  const std::string& where_;
};

// A scheme that this program has, as the registry writes it.
std::string scheme_from(const Value& value) {
  const std::string text = value.text();
  try {
    make_scheme(text);
  } catch (const std::invalid_argument& problem) {
    value.refuse(fmt::format("a scheme of `locant schemes` ({})", problem.what()));
  }
  return text;
}

int64_t length_from(std::string_view key, const Value& value) {
  int64_t length = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), length);
  if (error != std::errc() || end != key.data() + key.size() || length < 1 || length > kLongest) {
    value.refuse(fmt::format("a test length (an integer from 1) as its name, not \"{}\"", key));
  }
  return length;
}

// Shares of questions, by length.
std::map<int64_t, double> shares_from(const Value& value) {
  std::map<int64_t, double> by_length;
  value.each_field([&](std::string_view key, const Value& share) { by_length[length_from(key, share)] = share.real(0, 1); });
  return by_length;
}

std::map<int64_t, double> losses_from(const Value& value, bool diverged) {
  std::map<int64_t, double> by_length;
  value.each_field([&](std::string_view key, const Value& loss) {
    by_length[length_from(key, loss)] = loss.loss(diverged);
  });
  return by_length;
}

std::vector<std::pair<int64_t, double>> curve_from(const Value& value) {
  std::vector<std::pair<int64_t, double>> curve;
  value.each([&](const Value& point) {
    if (point.size() != 2) point.refuse("[step, loss]");
    std::vector<Value> pair;
    point.each([&](const Value& part) { pair.push_back(part); });
    curve.emplace_back(pair[0].integer(0), pair[1].loss(true));
  });
  return curve;
}

std::vector<LearnedTable> tables_from(const Value& value) {
  std::vector<LearnedTable> tables;
  value.each([&](const Value& entry) {
    LearnedTable table;
    table.title = entry["title"].text();
    entry["distances"].each([&](const Value& d) { table.distances.push_back(d.integer(-kLongest, kLongest)); });
    entry["heads"].each([&](const Value& head) {
      std::vector<double>& numbers = table.heads.emplace_back();
      if (head.size() != table.distances.size()) {
        head.refuse(fmt::format("a list of {} numbers, one a distance", table.distances.size()));
      }
      head.each([&](const Value& x) { numbers.push_back(x.real_or_null(-std::numeric_limits<double>::infinity())); });
    });
    tables.push_back(std::move(table));
  });
  return tables;
}

Settings settings_from(const Value& read) {
  Settings s;
  s.corpus = read["corpus"].text();
  s.corpus_fingerprint = read["corpus_fingerprint"].text();
  s.train_length = read["train_length"].integer(1, kLongest);
  s.steps = read["steps"].integer(0);
  s.batch = read["batch"].integer(1);
  s.layers = read["layers"].integer(1);
  s.width = read["width"].integer(1);
  s.heads = read["heads"].integer(1);
  s.feed_forward = read["feed_forward"].integer(0);
  s.learning_rate = read["learning_rate"].real(0);
  s.table_rate = read["table_rate"].real(0);
  s.weight_decay = read["weight_decay"].real(0);
  s.clip = read["clip"].real(0);
  s.warmup = read["warmup"].integer(-1);
  s.targets_windows = read["targets_windows"].integer(0);
  s.targets_same = read["targets_same"].integer(0);
  s.targets_sliding = read["targets_sliding"].integer(0);
  if (!read["task"].missing()) {
    s.task = read["task"].text();
    s.encoder = read["encoder"].flag();
    s.sequence = read["sequence"].integer(1, kLongest);
    s.examples = read["examples"].integer(1);
  }
  if (!read["tuned_steps"].missing()) {
    s.tuned_steps = read["tuned_steps"].integer(1);
    s.tuned_length = read["tuned_length"].integer(1, kLongest);
  }
  return s;
}

std::string task_from(const Value& value) {
  std::vector<std::string> known = task_names();
  known.insert(known.begin(), {kLanguageModel, kFineTuning});
  const std::string task = value.text();
  if (!std::count(known.begin(), known.end(), task)) value.refuse(fmt::format("one of {}", fmt::join(known, ", ")));
  return task;
}

Record record_from(element root, const std::string& where) {
  if (!root.is_object()) fail("records", where, ": expected a JSON object");
  const Value read(root, "", where);
  if (const int64_t version = read["record_version"].integer(0); version != kRecordVersion) {
    fail("records", where, ": expected record_version ", kRecordVersion, ", got ", version);
  }
  Record r;
  r.task = task_from(read["task"]);
  r.scheme = scheme_from(read["scheme"]);
  r.name = read["name"].text();
  if (const std::string name = parse_specification(r.scheme).name; r.name != name) {
    read["name"].refuse(fmt::format("\"{}\", as in field scheme", name));
  }
  r.seed = read["seed"].seed();
  r.test_scaling = read["test_scaling"].text();
  r.settings = settings_from(read["settings"]);
  r.diverged = read["diverged"].flag();
  r.error = read["error"].text();
  read["losses"].each_field([&](std::string_view protocol, const Value& by_length) {
    r.losses[std::string(protocol)] = losses_from(by_length, r.diverged);
  });
  if (r.is_task()) {
    r.exact_match = shares_from(read["exact_match"]);
    r.symbol_match = shares_from(read["symbol_match"]);
    r.gate = read["gate"].real(0, 1);
  }
  read["test_schemes"].each_field([&](std::string_view key, const Value& scheme) {
    r.test_schemes[length_from(key, scheme)] = scheme_from(scheme);
  });
  read["repeated_rows"].each([&](const Value& length) { r.repeated_rows.push_back(length.integer(1, kLongest)); });
  r.curve = curve_from(read["curve"]);
  r.validation = curve_from(read["validation"]);
  r.tables = tables_from(read["tables"]);
  r.parameters = read["parameters"].integer(0);
  r.position_parameters = read["position_parameters"].integer(0);
  r.tokens_per_second = read["tokens_per_second"].real_or_null(0);
  r.gflops = read["gflops"].real_or_null(0);
  r.peak_share = read["peak_share"].real_or_null(0);
  r.train_seconds = read["train_seconds"].real_or_null(0);
  r.evaluate_seconds = read["evaluate_seconds"].real_or_null(0);
  r.memory_mb = read["memory_mb"].integer(0);
  r.threads = static_cast<int>(read["threads"].integer(1, 1 << 20));
  r.machine = read["machine"].text();
  r.instruction_set = read["instruction_set"].text();
  r.version = read["version"].text();
  r.started = read["started"].text();
  return r;
}

}  // namespace

Record record_from_json(const std::string& line, const std::string& where) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(line).get(root)) {
    fail("records", where, ": not a JSON object: ", simdjson::error_message(error));
  }
  return record_from(root, where);
}

RecordFile read_records(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("records", path, ": cannot be read: ", std::strerror(errno));
  RecordFile file;
  simdjson::dom::parser parser;
  std::string line;
  for (int64_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", path, number);
    element root;
    if (parser.parse(line).get(root)) {
      // A cut line begins as every record does; anything else is not ours to skip.
      constexpr std::string_view kBegins = "{\"record_version\"";
      const size_t shared = std::min(line.size(), kBegins.size());
      if (std::string_view(line).substr(0, shared) != kBegins.substr(0, shared)) {
        fail("records", where, ": expected a record, got something else");
      }
      file.notes.push_back(where + ": cut off in its middle, left out");
      continue;
    }
    file.records.push_back(record_from(root, where));
  }
  if (in.bad()) fail("records", path, ": cannot be read to its end: ", std::strerror(errno));
  return file;
}

}  // namespace locant::study
