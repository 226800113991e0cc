// Files of cases, one a line, with what is to be reached behind an arrow:
//   # forward, one thread
//   b1 h8 q2048 d64 fwd            -> peak_share >= 0.90
//   b1 h8 q2048 d64 t5 fwd         -> vs_plain <= 1.02, extra_mb <= 10
//   b1 h1 q1024 d64 fwd t2         -> vs(t1) <= 0.526
// vs(WORDS) is the time against the same case with these words in it. From # on a line is a comment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/measure/measure.h"

namespace locant::measure {

struct Goal {
  std::string field;           // of a result, by its name in the JSON line; "vs" with `beside`
  std::optional<Case> beside;  // of vs(WORDS)
  bool at_least = true;        // >=, or <=
  double value = 0;
  std::string text;  // as written
};

struct Wish {
  Case wanted;
  std::vector<Goal> goals;
};

// One line of a file, or one case of a command line. Throws std::invalid_argument.
Wish parse_wish(std::string_view line);
// Throws std::invalid_argument with file and line of what is wrong, or that it holds no case.
std::vector<Wish> read_wishes(const std::string& path);

// Of the case and of those beside it, the first whose instruction set this machine or build does not have.
// goals: whether those beside it count.
std::optional<Case> not_here(const Wish& wish, bool goals = true);

// Cases to measure beside, in the order of the goals that ask for them.
std::vector<Case> beside(const Wish& wish);

struct Verdict {
  std::string goal;  // as written
  double got = 0;
  bool reached = false;
};
std::vector<Verdict> judge(const Wish& wish, const Result& result);

// A field of a result by its name in the JSON line. Throws std::invalid_argument.
double field_of(const Result& result, std::string_view name);

}  // namespace locant::measure
