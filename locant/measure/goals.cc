#include "locant/measure/goals.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>

#include "locant/base/check.h"

namespace locant::measure {
namespace {

constexpr struct {
  std::string_view name;
  double Result::*member;
} kFields[] = {
    {"median_ms", &Result::median_ms},   {"best_ms", &Result::best_ms},   {"gflops", &Result::gflops},
    {"peak_share", &Result::peak_share}, {"extra_mb", &Result::extra_mb}, {"vs_plain", &Result::vs_plain},
    {"bandwidth_share", &Result::bandwidth_share},
};

std::string field_names() {
  std::string names;
  for (const auto& field : kFields) names += std::string(field.name) + ", ";
  return names + "vs(WORDS)";
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && std::string_view(" \t\r").find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  while (!text.empty() && std::string_view(" \t\r").find(text.back()) != std::string_view::npos) text.remove_suffix(1);
  return text;
}

Goal parse_goal(std::string_view text, const Case& wanted) {
  Goal goal;
  goal.text = text;
  size_t at = text.find(">=");
  goal.at_least = at != std::string_view::npos;
  if (!goal.at_least) at = text.find("<=");
  if (at == std::string_view::npos) fail("bench", "goal \"", text, "\" has neither >= nor <=");
  const std::string_view field = trim(text.substr(0, at)), number = trim(text.substr(at + 2));
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), goal.value);
  if (error != std::errc() || end != number.data() + number.size()) {
    fail("bench", "goal \"", text, "\": \"", number, "\" is no number");
  }
  if (field.rfind("vs(", 0) == 0 && field.back() == ')') {
    goal.field = "vs";
    goal.beside = changed(wanted, field.substr(3, field.size() - 4));
    return goal;
  }
  goal.field = field;
  for (const auto& known : kFields) {
    if (known.name == field) return goal;
  }
  fail("bench", "goal \"", text, "\": there is no \"", field, "\"; there are: ", field_names());
}

// Cuts at commas outside parentheses.
std::vector<std::string_view> split_goals(std::string_view text) {
  std::vector<std::string_view> parts;
  int open = 0;
  size_t begin = 0;
  for (size_t n = 0; n <= text.size(); ++n) {
    if (n < text.size()) open += (text[n] == '(') - (text[n] == ')');
    if (n == text.size() || (text[n] == ',' && open == 0)) {
      parts.push_back(trim(text.substr(begin, n - begin)));
      begin = n + 1;
    }
  }
  return parts;
}

}  // namespace

Wish parse_wish(std::string_view line) {
  const size_t arrow = line.find("->");
  Wish wish;
  wish.wanted = parse_case(trim(line.substr(0, arrow)));
  if (arrow == std::string_view::npos) return wish;
  for (std::string_view goal : split_goals(line.substr(arrow + 2))) {
    wish.goals.push_back(parse_goal(goal, wish.wanted));
  }
  return wish;
}

std::vector<Wish> read_wishes(const std::string& path) {
  errno = 0;
  std::ifstream in(path);
  if (!in) fail("bench", path, ": cannot be read: ", std::strerror(errno));
  std::vector<Wish> wishes;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string_view text = trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    try {
      wishes.push_back(parse_wish(text));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(path + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
  if (in.bad()) fail("bench", path, ": cannot be read to its end: ", std::strerror(errno));
  if (wishes.empty()) fail("bench", path, ": no case in it");
  return wishes;
}

std::optional<Case> not_here(const Wish& wish, bool goals) {
  if (!wish.wanted.runs_here()) return wish.wanted;
  if (!goals) return std::nullopt;
  for (const Case& other : beside(wish)) {
    if (!other.runs_here()) return other;
  }
  return std::nullopt;
}

std::vector<Case> beside(const Wish& wish) {
  std::vector<Case> cases;
  for (const Goal& goal : wish.goals) {
    if (goal.beside) cases.push_back(*goal.beside);
  }
  return cases;
}

std::vector<Verdict> judge(const Wish& wish, const Result& result) {
  std::vector<Verdict> verdicts;
  size_t next = 0;
  for (const Goal& goal : wish.goals) {
    const double got = goal.beside ? result.vs.at(next++) : field_of(result, goal.field);
    // Written so that NaN reaches nothing.
    verdicts.push_back({goal.text, got, goal.at_least ? got >= goal.value : got <= goal.value});
  }
  return verdicts;
}

double field_of(const Result& result, std::string_view name) {
  for (const auto& field : kFields) {
    if (field.name == name) return result.*field.member;
  }
  fail("bench", "a result has no \"", name, "\"; there are: ", field_names());
}

}  // namespace locant::measure
