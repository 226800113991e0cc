#include "locant/data/windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "locant/base/check.h"

namespace locant {
namespace {

constexpr char kOperation[] = "windows";

// Longer than any text, and small enough that products of a few of them stay in 64 bits.
constexpr int64_t kAbsurd = int64_t{1} << 40;

void require_budget(Check& check, int64_t n_tokens, int64_t length, int64_t budget) {
  check.require(length >= 1, "window length must be at least 1, got ", length);
  check.require(budget >= 1 && budget < n_tokens, "number of targets must be between 1 and ",
                n_tokens - 1, " (one less than the text's ", n_tokens, " tokens), got ", budget);
}

}  // namespace

int64_t test_length(int64_t train_length, double ratio) {
  Check check(kOperation);
  check.require(train_length >= 1 && train_length <= kAbsurd,
                "training length must be between 1 and ", kAbsurd, ", got ", train_length);
  check.require(ratio >= 1 && ratio <= 4096, "ratio must be between 1 and 4096, got ", ratio);
  check.done();
  return static_cast<int64_t>(std::floor(static_cast<double>(train_length) * ratio));
}

int64_t target_budget(int64_t n_tokens, int64_t train_length, int64_t wanted,
                      std::span<const double> ratios) {
  int64_t longest = 1;
  for (const double ratio : ratios) longest = std::max(longest, test_length(train_length, ratio));
  Check check(kOperation);
  check.require(n_tokens > longest, "a text of ", n_tokens, " tokens is too short for windows of ",
                longest, " and their targets");
  check.require(wanted >= longest, "number of targets must be at least the longest window, ",
                longest, ", got ", wanted);
  check.done();
  const int64_t available = std::min(n_tokens - 1, wanted);
  int64_t multiple = 1;
  for (const double ratio : ratios) {
    // Past what is available the multiple is of no use, and could overflow.
    if (multiple > available) break;
    multiple = std::lcm(multiple, test_length(train_length, ratio));
  }
  return multiple <= available ? available / multiple * multiple : available;
}

std::vector<Window> nonoverlapping_windows(int64_t n_tokens, int64_t length, int64_t budget) {
  Check check(kOperation);
  require_budget(check, n_tokens, length, budget);
  check.done();
  std::vector<Window> windows;
  for (int64_t start = 0; start < budget; start += length) {
    const int64_t size = std::min(length, budget - start);
    windows.push_back({.start = start, .length = size, .first_target = 0, .n_targets = size});
  }
  return windows;
}

std::vector<Window> common_end_windows(int64_t n_tokens, int64_t length, int64_t train_length,
                                       int64_t longest, int64_t budget) {
  Check check(kOperation);
  check.require(train_length >= 1, "training length must be at least 1, got ", train_length);
  check.require(train_length <= length && length <= longest,
                "window length must be between the training length ", train_length,
                " and the longest window ", longest, ", got ", length);
  check.require(n_tokens > longest, "a text of ", n_tokens, " tokens is too short for windows of ",
                longest, " and their targets");
  check.require(budget >= train_length, "number of targets must be at least the training length ",
                train_length, ", got ", budget);
  check.done();
  // An end is one past the last token read, so it is also the index of the last target.
  const int64_t first_end = longest, last_end = n_tokens - 1;
  const int64_t fitting = (last_end - first_end) / train_length + 1;
  const int64_t count = std::min(budget / train_length, fitting);
  const int64_t spacing = count > 1 ? (last_end - first_end) / (count - 1) : 0;
  std::vector<Window> windows;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t end = first_end + k * spacing;
    windows.push_back({.start = end - length,
                       .length = length,
                       .first_target = length - train_length,
                       .n_targets = train_length});
  }
  return windows;
}

std::vector<Window> sliding_windows(int64_t n_tokens, int64_t length, int64_t stride,
                                    int64_t budget) {
  Check check(kOperation);
  require_budget(check, n_tokens, length, budget);
  check.require(stride >= 1 && stride <= length, "stride must be between 1 and the window length ",
                length, ", got ", stride);
  check.require(length <= budget, "number of targets must be at least the window length ", length,
                ", got ", budget);
  check.done();
  std::vector<Window> windows = {
      {.start = 0, .length = length, .first_target = 0, .n_targets = length}};
  for (int64_t done = length; done < budget;) {
    const int64_t counted = std::min(stride, budget - done);
    const int64_t start = done + stride - length;
    windows.push_back({.start = start,
                       .length = done + counted - start,
                       .first_target = length - stride,
                       .n_targets = counted});
    done += counted;
  }
  return windows;
}

}  // namespace locant
