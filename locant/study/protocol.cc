#include "locant/study/protocol.h"

#include <algorithm>

#include "locant/data/windows.h"
#include "locant/train/evaluate.h"

namespace locant::study {
namespace {

std::vector<Window> windows_of(const char* protocol, const Settings& settings,
                                         int64_t n_tokens, int64_t length) {
  const int64_t L = settings.train_length;
  std::vector<Window> windows;
  if (protocol == kWindows) {
    const int64_t budget = target_budget(n_tokens, L, settings.targets_windows);
    windows = nonoverlapping_windows(n_tokens, length, budget);
  } else if (protocol == kSameTargets) {
    windows = common_end_windows(n_tokens, length, L, test_length(L, kTestRatios.back()),
                                 settings.targets_same);
  } else {
    const int64_t budget = target_budget(n_tokens, L, settings.targets_sliding);
    windows = sliding_windows(n_tokens, length, std::max<int64_t>(1, L / 2), budget);
  }
  return windows;
}

}  // namespace

std::vector<int64_t> test_lengths(int64_t train_length) {
  std::vector<int64_t> lengths;
  for (double ratio : kTestRatios) lengths.push_back(test_length(train_length, ratio));
  return lengths;
}

size_t protocol_count(int64_t train_length) { return 3 * test_lengths(train_length).size(); }

bool evaluate_protocols(const Model& model, std::span<const Token> text, Executor& executor,
                        const std::function<std::string(int64_t)>& scheme_at,
                        const std::function<bool(size_t)>& progress, Record& record) {
  const std::vector<int32_t> tokens(text.begin(), text.end());
  size_t done = 0;
  for (const char* protocol : {kWindows, kSameTargets, kSliding}) {
    for (int64_t length : test_lengths(record.settings.train_length)) {
      EvaluationOptions options;
      options.repeat_last_row = true;
      if (scheme_at) {
        options.scheme = scheme_at(length);
        if (options.scheme.empty()) continue;
        record.test_schemes[length] = options.scheme;
      }
      const auto windows =
          windows_of(protocol, record.settings, static_cast<int64_t>(text.size()), length);
      const Evaluation evaluation = evaluate(model, tokens, windows, options, executor);
      record.losses[protocol][length] = evaluation.mean;
      auto& repeated = record.repeated_rows;
      if (evaluation.repeated_rows &&
          std::find(repeated.begin(), repeated.end(), length) == repeated.end()) {
        repeated.push_back(length);
      }
      if (!progress(++done)) return false;
    }
  }
  return true;
}

}  // namespace locant::study
