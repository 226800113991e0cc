// What the numbers of these records advise, for each use. Nothing from the literature enters: where the
// records do not have what a use needs, the advice says so.
#pragma once

#include <string>
#include <vector>

#include "locant/study/summary.h"

namespace locant::study {

struct Advice {
  std::string use;     // "Short training, long reading"
  std::string choice;  // a scheme; empty: these records cannot say
  std::vector<std::string> reasons;  // sentences with the numbers
};

// Four uses, always all of them: long reading, retrieval, an encoder, a trained RoPE model to be
// stretched. `text` holds a language model's records; tasks and fine-tuning are looked for in `all`.
std::vector<Advice> recommend(const Summary& text, const std::vector<Summary>& all);

// Schemes whose loss at a length is not told apart from the lowest: their paired difference's interval
// holds zero or, as one seed has no interval, it is below this many nats.
inline constexpr double kNoise = 0.02;

}  // namespace locant::study
