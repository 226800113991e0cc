// The grammar of schemes in text, and the three visitors that read, print and explain options.
#include "locant/position/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

#include "locant/base/check.h"
#include "locant/position/registry.h"
#include "locant/position/scheme.h"

namespace locant {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

template <class Number>
std::optional<Number> number_from(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Shortest digits that read back as the same double; 500000, not 5e+05.
std::string text_of_real(double value) {
  std::array<char, 400> buffer;
  const double size = std::fabs(value);
  const bool plain = size == 0 || (size >= 1e-5 && size < 1e15);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  return std::string(buffer.data(), end.ptr);
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

std::string text_of_reals(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (double value : values) texts.push_back(text_of_real(value));
  return texts.empty() ? "none" : joined(texts, "/");
}

std::string range(const std::string& low, const std::string& high) { return low + " to " + high; }

// Calls visit(name, value as text, what it may be, meaning) for every option.
template <class Visit>
class Printer final : public OptionVisitor {
 public:
  explicit Printer(Visit visit) : visit_(visit) {}
  void integer(std::string_view name, int64_t& value, int64_t low, int64_t high,
               std::string_view meaning) override {
    visit_(name, std::to_string(value), range(std::to_string(low), std::to_string(high)), meaning);
  }
  void real(std::string_view name, double& value, double low, double high,
            std::string_view meaning) override {
    visit_(name, text_of_real(value), range(text_of_real(low), text_of_real(high)), meaning);
  }
  void word(std::string_view name, int& value, const std::vector<std::string>& words,
            std::string_view meaning) override {
    visit_(name, words.at(static_cast<size_t>(value)), joined(words, "|"), meaning);
  }
  void reals(std::string_view name, std::vector<double>& values, double low, double high,
             std::string_view meaning) override {
    visit_(name, text_of_reals(values),
           "none, or " + range(text_of_real(low), text_of_real(high)) + " joined by '/'", meaning);
  }

 private:
  Visit visit_;
};

// Reads the options that are given into the members; collects everything that is wrong.
class Reader final : public OptionVisitor {
 public:
  Reader(Check& check, const std::vector<std::pair<std::string, std::string>>& given)
      : check_(check), given_(given), used_(given.size(), false) {}

  void integer(std::string_view name, int64_t& value, int64_t low, int64_t high,
               std::string_view) override {
    const std::string* text = find(name);
    if (!text) return;
    const auto number = number_from<int64_t>(*text);
    const bool good = number && *number >= low && *number <= high;
    if (check_.require(good, name, " must be an integer from ", low, " to ", high, ", got '", *text,
                       "'")) {
      value = *number;
    }
  }
  void real(std::string_view name, double& value, double low, double high,
            std::string_view) override {
    const std::string* text = find(name);
    if (!text) return;
    const auto number = number_from<double>(*text);
    const bool good = number && *number >= low && *number <= high;  // false for NaN
    if (check_.require(good, name, " must be a number from ", text_of_real(low), " to ",
                       text_of_real(high), ", got '", *text, "'")) {
      value = *number;
    }
  }
  void word(std::string_view name, int& value, const std::vector<std::string>& words,
            std::string_view) override {
    const std::string* text = find(name);
    if (!text) return;
    for (size_t w = 0; w < words.size(); ++w) {
      if (words[w] == *text) {
        value = static_cast<int>(w);
        return;
      }
    }
    check_.require(false, name, " must be one of ", joined(words, ", "), "; got '", *text, "'");
  }
  void reals(std::string_view name, std::vector<double>& values, double low, double high,
             std::string_view) override {
    const std::string* text = find(name);
    if (!text) return;
    std::vector<double> read;
    std::string_view rest = *text == "none" ? std::string_view() : std::string_view(*text);
    while (!rest.empty()) {
      const size_t slash = rest.find('/');
      const std::string_view item = trim(rest.substr(0, slash));
      const auto number = number_from<double>(item);
      const bool good = number && *number >= low && *number <= high;
      if (!check_.require(good, name, " must be numbers from ", text_of_real(low), " to ",
                          text_of_real(high), " joined by '/', or none; got '", item, "'")) {
        return;
      }
      read.push_back(*number);
      if (slash == std::string_view::npos) break;
      rest.remove_prefix(slash + 1);
      if (!check_.require(!rest.empty(), name, " ends in '/'")) return;
    }
    values = read;
  }

  void complain_about_the_rest() {
    const std::string what =
        known_.empty() ? "the scheme has no options" : "there are: " + joined(known_, ", ");
    for (size_t n = 0; n < given_.size(); ++n) {
      check_.require(used_[n], "no option '", given_[n].first, "'; ", what);
    }
  }

 private:
  // The text given for an option, or null.
  const std::string* find(std::string_view name) {
    known_.emplace_back(name);
    const std::string* text = nullptr;
    for (size_t n = 0; n < given_.size(); ++n) {
      if (given_[n].first != name) continue;
      check_.require(!text, "option ", name, " is given twice");
      used_[n] = true;
      text = &given_[n].second;
    }
    return text;
  }

  Check& check_;
  const std::vector<std::pair<std::string, std::string>>& given_;
  std::vector<bool> used_;
  std::vector<std::string> known_;
};

[[noreturn]] void broken(std::string_view text, size_t at, std::string_view expected) {
  fail("scheme", "'", text, "', character ", at + 1, ": expected ", expected,
       "; the form is name or name(option=value,option=value)");
}

}  // namespace

ParsedSpecification parse_specification(std::string_view text) {
  ParsedSpecification parsed;
  const size_t open = text.find('(');
  const std::string_view name = trim(text.substr(0, open));
  if (!is_name(name)) broken(text, 0, "a name of letters, digits, _ and -");
  parsed.name = name;
  if (open == std::string_view::npos) return parsed;

  const size_t nested = text.find('(', open + 1);
  if (nested != std::string_view::npos) broken(text, nested, "',' or ')'");
  const size_t close = text.find(')', open);
  if (close == std::string_view::npos) broken(text, text.size(), "')'");
  if (!trim(text.substr(close + 1)).empty()) broken(text, close + 1, "nothing after ')'");
  if (trim(text.substr(open + 1, close - open - 1)).empty()) return parsed;  // "nope()"
  for (size_t at = open + 1; at <= close;) {
    const size_t end = std::min(text.find(',', at), close);
    const std::string_view item = text.substr(at, end - at);
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) broken(text, at, "option=value");
    const std::string_view option = trim(item.substr(0, equals));
    const std::string_view value = trim(item.substr(equals + 1));
    if (!is_name(option)) broken(text, at, "the name of an option");
    if (value.empty()) broken(text, end, "a value");
    const size_t bad = value.find('=');
    if (bad != std::string_view::npos) {
      broken(text, static_cast<size_t>(value.data() - text.data()) + bad, "',' or ')'");
    }
    parsed.options.emplace_back(option, value);
    at = end + 1;
  }
  return parsed;
}

std::vector<std::string> split_specifications(std::string_view text) {
  std::vector<std::string> items;
  size_t start = 0;
  int depth = 0;
  for (size_t at = 0; at <= text.size(); ++at) {
    const bool end = at == text.size();
    if (!end && text[at] == '(') ++depth;
    if (!end && text[at] == ')') --depth;
    if (depth < 0) broken(text, at, "no ')' without '('");
    if (end && depth > 0) broken(text, at, "')'");
    if (!end && (text[at] != ',' || depth > 0)) continue;
    const std::string_view item = trim(text.substr(start, at - start));
    if (item.empty()) broken(text, start, "the name of a scheme");
    items.emplace_back(item);
    start = at + 1;
  }
  return items;
}

void set_options(Scheme& scheme, const std::vector<std::pair<std::string, std::string>>& options) {
  const std::string name = scheme.name();
  Check check(name);
  Reader reader(check, options);
  scheme.options(reader);
  reader.complain_about_the_rest();
  check.done();
}

std::vector<OptionHelp> explain_options(Scheme& scheme) {
  std::vector<OptionHelp> help;
  Printer printer(
      [&](std::string_view name, std::string value, std::string allowed, std::string_view meaning) {
        help.push_back({std::string(name), value, allowed, std::string(meaning)});
      });
  scheme.options(printer);
  return help;
}

std::string specification(const Scheme& scheme, bool full) {
  // Printing visits members by reference, as reading does, and leaves them alone.
  const std::vector<OptionHelp> now = explain_options(const_cast<Scheme&>(scheme));
  std::vector<OptionHelp> defaults;
  if (!full) {
    // A scheme that nobody registered has no known defaults: all its options are printed.
    if (const auto fresh = make_default_scheme(scheme.name())) defaults = explain_options(*fresh);
  }
  std::vector<std::string> options;
  for (size_t n = 0; n < now.size(); ++n) {
    if (n < defaults.size() && defaults[n].value == now[n].value) continue;
    options.push_back(now[n].name + "=" + now[n].value);
  }
  return options.empty() ? scheme.name() : scheme.name() + "(" + joined(options, ",") + ")";
}

}  // namespace locant
