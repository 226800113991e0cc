// Philox against its published vectors, and the distributions drawn from it.
#include "locant/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace locant {
namespace {

// Random123 1.14, tests/kat_vectors, the three lines "philox4x32 10": counter, key, result.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffffu;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5, "usable at compile time");

TEST(Random, DrawsAreTheWordsOfThePublishedBlock) {
  Random random(0, 0);
  EXPECT_EQ(random.next(), 0xe169c58d6627e8d5u);
  EXPECT_EQ(random.next(), 0x9b00dbd8bc57ac4cu);
}

TEST(Random, SeedIsTheKeyAndStreamTheUpperHalfOfTheCounter) {
  Random random(0x0123456789abcdefu, 0xfedcba9876543210u);
  for (uint32_t block = 0; block < 3; ++block) {
    const PhiloxCounter words =
        philox4x32({block, 0, 0x76543210u, 0xfedcba98u}, {0x89abcdefu, 0x01234567u});
    EXPECT_EQ(random.next(), words[0] | uint64_t{words[1]} << 32) << "block " << block;
    EXPECT_EQ(random.next(), words[2] | uint64_t{words[3]} << 32) << "block " << block;
  }
}

TEST(Random, UnitIntervalReachesZeroButNotOne) {
  EXPECT_EQ(unit_interval(0), 0.0);
  EXPECT_EQ(unit_interval(~uint64_t{0}), 1.0 - 0x1.0p-53);
  EXPECT_EQ(unit_interval(uint64_t{1} << 63), 0.5);
}

// Bounds below are six standard deviations of the estimate, so a right generator passes.
TEST(Random, UniformHasTheMomentsOfTheUniform) {
  Random random(11);
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u - 0.5;
    squares += (u - 0.5) * (u - 0.5);
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 6 * std::sqrt(1.0 / 12 / kDraws));
  // Var((u - 1/2)^2) = 1/80 - 1/144 = 1/180.
  EXPECT_NEAR(squares / kDraws, 1.0 / 12, 6 * std::sqrt(1.0 / 180 / kDraws));
}

// Kolmogorov-Smirnov: P(sup |F_n - F| > 2.5 / sqrt(n)) is 7e-6.
TEST(Random, NormalHasTheNormalDistribution) {
  Random random(12);
  constexpr int kDraws = 100000;
  std::vector<double> values(kDraws);
  for (double& value : values) value = random.normal();
  std::sort(values.begin(), values.end());
  double worst = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double cdf = 0.5 * std::erfc(-values[i] / std::sqrt(2.0));
    worst = std::max(
        {worst, std::abs(cdf - double(i) / kDraws), std::abs(cdf - double(i + 1) / kDraws)});
  }
  EXPECT_LT(worst, 2.5 / std::sqrt(double(kDraws)));
}

TEST(Random, NormalTakesTwoDrawsAndKeepsNothingBack) {
  Random a(13), b(13);
  a.normal();
  b.next();
  b.next();
  EXPECT_EQ(a.next(), b.next());
}

TEST(Random, BelowIsEvenForSmallBounds) {
  Random random(14);
  constexpr int kDraws = 70000, kBound = 7;
  int counts[kBound] = {};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random.below(kBound);
    ASSERT_LT(value, uint64_t{kBound});
    ++counts[value];
  }
  const double expected = double(kDraws) / kBound;
  for (int value = 0; value < kBound; ++value) {
    EXPECT_NEAR(counts[value], expected, 6 * std::sqrt(expected)) << "value " << value;
  }
}

// With n = 3 * 2^62, bits % n alone would give the lowest third twice as often as the others.
TEST(Random, BelowHasNoModuloBias) {
  Random random(15);
  constexpr uint64_t kThird = uint64_t{1} << 62;
  constexpr int kDraws = 30000;
  int lowest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random.below(3 * kThird);
    ASSERT_LT(value, 3 * kThird);
    lowest += value < kThird;
  }
  EXPECT_NEAR(lowest, kDraws / 3.0, 6 * std::sqrt(kDraws * 2.0 / 9));
}

TEST(Random, BelowOneIsZeroAndBelowZeroIsAnError) {
  Random random(16);
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_THROW(random.below(0), std::invalid_argument);
}

TEST(Random, StreamsAndSeedsDiffer) {
  Random base(1, 0), other_stream(1, 1), other_seed(2, 0), same(1, 0);
  int equal_stream = 0, equal_seed = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = base.next();
    equal_stream += value == other_stream.next();
    equal_seed += value == other_seed.next();
    EXPECT_EQ(value, same.next());
  }
  EXPECT_EQ(equal_stream, 0);
  EXPECT_EQ(equal_seed, 0);
}

}  // namespace
}  // namespace locant
