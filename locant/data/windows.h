// Evaluation windows: which tokens a model reads, and which of its predictions count.
//
// A model trained at length L is tested at lengths up to 16 L in three ways, because one way
// misleads (Press, Smith, Lewis 2022, "Train short, test long", tables 2-4 against 13-15): with
// windows that do not overlap, longer windows also mean fewer targets near a window's beginning,
// where a model knows little, so the mean loss falls even if the model uses no more context than
// before.
//
//   (i)   nonoverlapping_windows   every target once, windows side by side
//   (ii)  common_end_windows       the same targets, seen with more and more context
//   (iii) sliding_windows          every target once, each with nearly the full context
//
// Each function returns plain lists. Windows of one call may be evaluated in any order; the loss of
// a call is the sum over all counted targets divided by their number.
//
// Everything wrong (lengths, budgets, too few tokens) is std::invalid_argument with the numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "locant/base/text_window.h"

namespace locant {

// The test lengths as multiples of L.
inline constexpr std::array<double, 6> kTestRatios = {1, 1.5, 2, 4, 8, 16};

// floor(ratio L): the window length at a ratio.
int64_t test_length(int64_t train_length, double ratio);

// How many targets protocols (i) and (iii) should count: at most `wanted`, at most n_tokens - 1
// (token 0 is nobody's target), and if possible a multiple of every test length, so that no window
// is cut short. n_tokens must be more than the longest test length, and so must `wanted` be at
// least that length.
int64_t target_budget(int64_t n_tokens, int64_t train_length, int64_t wanted,
                      std::span<const double> ratios = kTestRatios);

// (i) Windows of `length` side by side from token 0. Targets 1..budget count, each once, at every
// length; if budget is no multiple of the length, the last window is shorter.
std::vector<Window> nonoverlapping_windows(int64_t n_tokens, int64_t length, int64_t budget);

// (ii) Windows whose ends depend only on n_tokens, train_length, longest and budget; the last
// train_length targets count. So calls that differ only in `length` count the same targets.
// floor(budget / train_length) windows, or as many as fit without sharing a target, spread evenly
// over the text. train_length <= length <= longest.
std::vector<Window> common_end_windows(int64_t n_tokens, int64_t length, int64_t train_length,
                                       int64_t longest, int64_t budget);

// (iii) Windows of `length`, each `stride` after the one before. The first counts all its targets,
// each later one its last `stride`, so every target after the first window has a context of more
// than length - stride tokens. Targets 1..budget count, each once; the last window may be shorter
// (its context is not). stride <= length <= budget. With stride == length this is (i).
std::vector<Window> sliding_windows(int64_t n_tokens, int64_t length, int64_t stride,
                                    int64_t budget);

}  // namespace locant
