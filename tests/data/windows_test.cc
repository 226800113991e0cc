// The three protocols, target by target.
#include "locant/data/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

namespace locant {
namespace {

// Every counted target and the context it was seen with.
std::map<int64_t, int64_t> contexts(const std::vector<Window>& windows, int64_t n_tokens) {
  std::map<int64_t, int64_t> contexts;
  for (const Window& window : windows) {
    EXPECT_GE(window.start, 0);
    EXPECT_GE(window.length, 1);
    EXPECT_GE(window.first_target, 0);
    EXPECT_GE(window.n_targets, 1);
    EXPECT_LE(window.first_target + window.n_targets, window.length);
    for (int64_t t = 0; t < window.n_targets; ++t) {
      const int64_t target = window.target(t);
      EXPECT_LT(target, n_tokens);
      EXPECT_TRUE(contexts.emplace(target, window.context(t)).second)
          << "target " << target << " counted twice";
      // The context is what lies between the window's start and the target.
      EXPECT_EQ(window.context(t), target - window.start);
    }
  }
  return contexts;
}

std::vector<int64_t> targets_of(const std::map<int64_t, int64_t>& contexts) {
  std::vector<int64_t> targets;
  for (const auto& [target, context] : contexts) targets.push_back(target);
  return targets;
}

std::vector<int64_t> range(int64_t first, int64_t last) {
  std::vector<int64_t> values;
  for (int64_t value = first; value <= last; ++value) values.push_back(value);
  return values;
}

TEST(Windows, TestLengths) {
  std::vector<int64_t> lengths;
  for (const double ratio : kTestRatios) lengths.push_back(test_length(64, ratio));
  EXPECT_EQ(lengths, (std::vector<int64_t>{64, 96, 128, 256, 512, 1024}));
  EXPECT_EQ(test_length(7, 1.5), 10);
  EXPECT_THROW(test_length(0, 2), std::invalid_argument);
  EXPECT_THROW(test_length(64, 0.5), std::invalid_argument);
  EXPECT_THROW(test_length(64, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  EXPECT_THROW(test_length(std::numeric_limits<int64_t>::max(), 2), std::invalid_argument);
}

TEST(Windows, BudgetIsAMultipleOfEveryLengthWhenItCanBe) {
  // The least common multiple of 64 .. 1024 and 96 is 3072.
  EXPECT_EQ(target_budget(1000000, 64, 8192), 6144);
  EXPECT_EQ(target_budget(1000000, 64, 3072), 3072);
  EXPECT_EQ(target_budget(1000000, 64, 3071), 3071);  // none fits: some windows are cut short
  EXPECT_EQ(target_budget(5000, 64, 8192), 3072);
  EXPECT_EQ(target_budget(1025, 64, 8192), 1024);
  EXPECT_THROW(target_budget(1024, 64, 8192), std::invalid_argument);
  EXPECT_THROW(target_budget(5000, 64, 1023), std::invalid_argument);
  // Odd lengths whose common multiple is far beyond any text.
  EXPECT_EQ(target_budget(int64_t{1} << 36, (1 << 20) + 7, int64_t{1} << 35), int64_t{1} << 35);
}

TEST(NonOverlapping, EveryTargetOnceAndTheSameOnesAtEveryLength) {
  const int64_t n_tokens = 4000;
  for (const int64_t budget : {3072, 3000, 3999, 1024}) {
    for (const double ratio : kTestRatios) {
      const int64_t length = test_length(64, ratio);
      const std::vector<Window> windows = nonoverlapping_windows(n_tokens, length, budget);
      const auto seen = contexts(windows, n_tokens);
      EXPECT_EQ(targets_of(seen), range(1, budget));
      for (size_t k = 0; k < windows.size(); ++k) {
        EXPECT_EQ(windows[k].start, static_cast<int64_t>(k) * length);  // side by side
        if (k + 1 < windows.size() || budget % length == 0) {
          EXPECT_EQ(windows[k].length, length);
        }
      }
      // The early-token curse in numbers: target t has context (t - 1) mod length + 1.
      for (const auto& [target, context] : seen) EXPECT_EQ(context, (target - 1) % length + 1);
    }
  }
}

TEST(CommonEnd, SameTargetsAtEveryLengthWithThatMuchContext) {
  for (const int64_t n_tokens : {1025, 1088, 1089, 3000, 20000}) {
    for (const int64_t train_length : {64, 63, 1}) {
      const int64_t longest = test_length(train_length, 16);
      for (const int64_t budget : {train_length, int64_t{64}, int64_t{2048}, int64_t{1} << 50}) {
        std::vector<int64_t> expected;
        size_t expected_windows = 0;
        for (const double ratio : kTestRatios) {
          const int64_t length = test_length(train_length, ratio);
          const std::vector<Window> windows =
              common_end_windows(n_tokens, length, train_length, longest, budget);
          const auto seen = contexts(windows, n_tokens);
          const std::vector<int64_t> targets = targets_of(seen);
          if (expected.empty()) {
            expected = targets;
            expected_windows = windows.size();
            ASSERT_FALSE(expected.empty());
          }
          EXPECT_EQ(targets, expected) << "length " << length;
          ASSERT_EQ(windows.size(), expected_windows);
          for (const Window& window : windows) {
            EXPECT_EQ(window.length, length);
            EXPECT_EQ(window.n_targets, train_length);
            // The last targets: the last one is just past the window's last input.
            EXPECT_EQ(window.target(train_length - 1), window.start + window.length);
            EXPECT_EQ(window.context(0), length - train_length + 1);
          }
        }
        // The budget is used up, or nothing more fits between the first end and the text's.
        const int64_t fitting = (n_tokens - 1 - longest) / train_length + 1;
        EXPECT_EQ(static_cast<int64_t>(expected_windows), std::min(budget / train_length, fitting));
      }
    }
  }
}

TEST(CommonEnd, SpreadOverTheText) {
  const std::vector<Window> windows = common_end_windows(220000, 64, 64, 1024, 2048);
  ASSERT_EQ(windows.size(), 32u);
  EXPECT_EQ(windows.front().start + 64, 1024);
  EXPECT_GT(windows.back().start + 64, 220000 - 1 - 32);  // rounding of the spacing, 31 at most
  for (size_t k = 2; k < windows.size(); ++k) {
    EXPECT_EQ(windows[k].start - windows[k - 1].start, windows[1].start - windows[0].start);
  }
}

TEST(Sliding, EveryTargetOnceWithNearlyFullContext) {
  const int64_t n_tokens = 4000;
  for (const int64_t budget : {3072, 3001, 1024}) {
    for (const double ratio : kTestRatios) {
      const int64_t length = test_length(64, ratio);
      for (const int64_t stride : {int64_t{1}, int64_t{16}, int64_t{50}, length / 2, length}) {
        const std::vector<Window> windows = sliding_windows(n_tokens, length, stride, budget);
        const auto seen = contexts(windows, n_tokens);
        EXPECT_EQ(targets_of(seen), range(1, budget));
        for (const auto& [target, context] : seen) {
          EXPECT_LE(context, length);
          if (target <= length) {
            EXPECT_EQ(context, target);  // the first window
          } else {
            EXPECT_GT(context, length - stride) << "target " << target;
          }
        }
        for (size_t k = 1; k < windows.size(); ++k) {
          EXPECT_EQ(windows[k].start - windows[k - 1].start, stride);
        }
      }
    }
  }
}

TEST(Sliding, StrideOneIsFullContextAndStrideLengthIsProtocolOne) {
  for (const auto& [target, context] : contexts(sliding_windows(500, 96, 1, 400), 500)) {
    EXPECT_EQ(context, std::min<int64_t>(target, 96));
  }
  EXPECT_EQ(sliding_windows(500, 96, 96, 400), nonoverlapping_windows(500, 96, 400));
}

// Worked by hand: 11 tokens, windows of 4, stride 2.
TEST(Sliding, SmallExample) {
  EXPECT_EQ(sliding_windows(11, 4, 2, 9), (std::vector<Window>{{0, 4, 0, 4},     // targets 1-4
                                                               {2, 4, 2, 2},     // 5, 6
                                                               {4, 4, 2, 2},     // 7, 8
                                                               {6, 3, 2, 1}}));  // 9
}

TEST(Windows, Errors) {
  EXPECT_THROW(nonoverlapping_windows(100, 0, 50), std::invalid_argument);
  EXPECT_THROW(nonoverlapping_windows(100, 10, 0), std::invalid_argument);
  EXPECT_THROW(nonoverlapping_windows(100, 10, 100), std::invalid_argument);  // target 100
  EXPECT_NO_THROW(nonoverlapping_windows(100, 10, 99));
  EXPECT_THROW(common_end_windows(100, 4, 8, 64, 16), std::invalid_argument);
  EXPECT_THROW(common_end_windows(100, 65, 8, 64, 16), std::invalid_argument);
  EXPECT_THROW(common_end_windows(64, 8, 8, 64, 16), std::invalid_argument);
  EXPECT_THROW(common_end_windows(100, 8, 0, 64, 16), std::invalid_argument);
  EXPECT_THROW(common_end_windows(100, 8, 8, 64, 7), std::invalid_argument);
  EXPECT_THROW(sliding_windows(100, 10, 0, 50), std::invalid_argument);
  EXPECT_THROW(sliding_windows(100, 10, 11, 50), std::invalid_argument);
  EXPECT_THROW(sliding_windows(100, 60, 10, 50), std::invalid_argument);
}

}  // namespace
}  // namespace locant
