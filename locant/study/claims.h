// Claims about positions past the training length, each with the bar it must clear.
//
// The bars come from the literature and were frozen before this project's own runs (they are not
// adjusted to results: a miss is reported). docs/protocol.md tells where each comes from.
// delta(r) is loss(r L) - loss(L) in protocol (i), in nats, within one seed.
#pragma once

#include <string>
#include <vector>

#include "locant/study/record.h"

namespace locant::study {

enum class Verdict { kHolds, kFails, kNotTested };
std::string verdict_text(Verdict verdict);  // "holds", "does not hold", "not tested by this run"

struct ClaimResult {
  int number = 0;           // as in docs/protocol.md
  std::string claim;        // one sentence
  std::string bar;          // what was demanded
  Verdict verdict = Verdict::kNotTested;
  std::string evidence;     // the numbers, per seed where the bar asks for every seed; or what lacks
  int seeds = 0;            // complete seeds it was judged on
};

// All thirteen, in order. Records must share their settings; diverged ones count as missing. Of several
// variants of a scheme one is judged (variants.h).
std::vector<ClaimResult> judge_claims(const std::vector<Record>& records);

}  // namespace locant::study
