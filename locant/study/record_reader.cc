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
#include "locant/base/utf8.h"
#include "locant/data/tasks.h"
#include "locant/position/registry.h"
#include "locant/study/json_extent.h"
#include "locant/study/record.h"
#include "locant/study/run.h"

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
  const bool number = error == std::errc() && end == key.data() + key.size();
  if (!number || length < 1 || length > kLongest || std::to_string(length) != key) {  // no "032" beside "32"
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
    const int64_t step = pair[0].integer(0);
    if (!curve.empty() && step <= curve.back().first) {
      pair[0].refuse(fmt::format("a step above {}, the one before", curve.back().first));
    }
    curve.emplace_back(step, pair[1].loss(true));
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
  if (const std::string& f = s.corpus_fingerprint;
      !f.empty() && (f.size() != 16 || f.find_first_not_of("0123456789abcdef") != std::string::npos)) {
    read["corpus_fingerprint"].refuse("16 hexadecimal digits");
  }
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

// "none", or a scaling that a text's model with this scheme can be tested under.
std::string test_scaling_from(const Value& value, const Record& r) {
  const std::string label = value.text();
  if (label == "none") return label;
  std::vector<std::string> known{"none"};
  if (!r.is_task()) {
    for (const auto& [name, by_length] : test_scalings(*make_scheme(r.scheme), r.settings.train_length)) known.push_back(name);
  }
  if (!std::count(known.begin(), known.end(), label)) value.refuse(fmt::format("one of {}", fmt::join(known, ", ")));
  return label;
}

// Lengths at which a table's last row was repeated: each was tested.
std::vector<int64_t> repeated_rows_from(const Value& value, const Record& r) {
  std::vector<int64_t> lengths;
  value.each([&](const Value& entry) {
    const int64_t length = entry.integer(1, kLongest);
    const auto tested = [&](const auto& protocol) { return protocol.second.count(length) > 0; };
    if (!r.exact_match.count(length) && std::none_of(r.losses.begin(), r.losses.end(), tested)) {
      entry.refuse("a length that was tested");
    }
    lengths.push_back(length);
  });
  return lengths;
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
  r.settings = settings_from(read["settings"]);
  if (read["train_length"].integer(1, kLongest) != r.settings.train_length) {
    read["train_length"].refuse(fmt::format("{}, as in field settings.train_length", r.settings.train_length));
  }
  if (read["settings_id"].text() != r.settings.id()) {
    read["settings_id"].refuse(fmt::format("\"{}\", which these settings give", r.settings.id()));
  }
  r.test_scaling = test_scaling_from(read["test_scaling"], r);
  r.diverged = read["diverged"].flag();
  r.error = read["error"].text();
  if (!r.error.empty() && !r.diverged) read["error"].refuse("\"\", as the run did not diverge");
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
  r.repeated_rows = repeated_rows_from(read["repeated_rows"], r);
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

// A character cut in its middle by the end of `text`, where it is not UTF-8 from `bad` on.
bool is_cut_character(std::string_view text, size_t bad) {
  const auto lead = static_cast<unsigned char>(text[bad]);
  const std::string_view rest = text.substr(bad + 1);
  return lead >= 0xC2 && lead <= 0xF4 && rest.size() < 3 && std::all_of(rest.begin(), rest.end(), is_utf8_continuation);
}

// A line that does not parse: returns if it is the beginning of a record, cut off; says what is wrong otherwise.
void require_cut(std::string_view line, const std::string& where, simdjson::error_code error) {
  constexpr std::string_view kBegins = "{\"record_version\"";
  // A file system may leave NULs where a write was lost with the power.
  if (const size_t last = line.find_last_not_of('\0'); last + 1 < line.size()) line = line.substr(0, last + 1);
  if (line.empty()) return;
  if (line.ends_with('\r')) line.remove_suffix(1);
  const auto refuse = [&](const auto&... parts) { fail("records", where, ": ", parts...); };
  const auto begins = [&](std::string_view text) {
    const size_t shared = std::min(text.size(), kBegins.size());
    return text.substr(0, shared) == kBegins.substr(0, shared);
  };
  const auto quoted = [&](size_t at) { return fmt::format("\"{}\"", line.substr(at, 24)); };
  const size_t another = line.find(kBegins, 1);
  if (another != line.npos && begins(line.substr(0, another))) {
    const JsonState before = json_extent(line.substr(0, another)).state;
    if (before == JsonState::kWhole) refuse("two records on one line; expected a newline before byte ", another + 1);
    if (before == JsonState::kCut) {
      refuse("a record that was cut off, and another one behind it on the same line (files joined where one had no last "
             "newline); expected a newline before byte ", another + 1);
    }
  }
  if (line.starts_with("\xEF\xBB\xBF")) {
    refuse("begins with a byte order mark (EF BB BF), which an editor may have put there; take it off");
  }
  if (!begins(line)) refuse("expected a record, got something else");
  const JsonExtent extent = json_extent(line);
  if (const size_t bad = first_invalid_utf8(line);
      bad != line.npos && bad <= extent.end && !(extent.state == JsonState::kCut && is_cut_character(line, bad))) {
    refuse("not UTF-8 from byte ", bad + 1, " on");
  }
  switch (extent.state) {
    case JsonState::kCut: return;
    case JsonState::kWrong: refuse("not JSON from byte ", extent.end + 1, " on: ", quoted(extent.end)); break;
    case JsonState::kWhole: break;
  }
  if (line.find_first_not_of(" \t", extent.end) != line.npos) {
    refuse("expected nothing behind the record, which ends at byte ", extent.end, ", got ", quoted(extent.end));
  }
  if (error == simdjson::NUMBER_ERROR) refuse("holds a number that has no room in 64 bits");
  refuse("not a JSON object: ", simdjson::error_message(error));
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
    if (const auto error = parser.parse(line).get(root)) {
      require_cut(line, where, error);
      file.notes.push_back(where + ": cut off in its middle, left out");
      continue;
    }
    file.records.push_back(record_from(root, where));
  }
  if (in.bad()) fail("records", path, ": cannot be read to its end: ", std::strerror(errno));
  return file;
}

}  // namespace locant::study
