// Losses of single predictions, at any length: what all tables of a comparison are averaged from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "locant/base/executor.h"
#include "locant/base/text_window.h"
#include "locant/train/model.h"

namespace locant {

struct EvaluationOptions {
  // Replaces the model's scheme at test time (another scaling of RoPE); it must learn the same arrays.
  // Empty: the model's own.
  std::string scheme;
  // Positions past the end of a learned table take its last row; otherwise they are an error.
  bool repeat_last_row = false;
};

struct Evaluation {
  // Negative log likelihood of each target, nats: the windows' targets one after the other.
  std::vector<float> losses;
  double mean = 0;             // of the losses, summed in order in double; 0 when there are none
  bool repeated_rows = false;  // whether some position was past the end of a learned table
};

// Any lengths (memory grows with the length, not its square); windows of one call may differ. The same
// bits for any executor. Logits are computed for the targets asked for only.
// Throws std::invalid_argument: a window outside the text or empty, targets outside the window, tokens
// outside the vocabulary, a scheme that learns other arrays or refuses the length.
Evaluation evaluate(const Model& model, std::span<const int32_t> text,
                    std::span<const Window> windows, const EvaluationOptions& options,
                    Executor& executor);

}  // namespace locant
