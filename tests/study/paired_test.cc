// Paired differences and their intervals, against printed tables of Student's t and sums by hand.
#include "locant/study/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace locant::study {
namespace {

TEST(Student, PrintedTable) {
  // Two-sided 95 %, as every textbook prints it to three places.
  for (const auto& [degrees, t] : std::initializer_list<std::pair<int, double>>{
           {1, 12.706}, {2, 4.303}, {3, 3.182}, {4, 2.776}, {5, 2.571}, {6, 2.447}, {9, 2.262}, {10, 2.228},
           {15, 2.131}, {20, 2.086}, {29, 2.045}, {30, 2.042}, {60, 2.000}, {120, 1.980}}) {
    EXPECT_NEAR(student95(degrees), t, .00051) << degrees << " degrees of freedom";
  }
}

TEST(Interval, ByHand) {
  const Interval three = interval({1, 2, 3});  // mean 2, deviation 1, error 1/sqrt(3)
  EXPECT_EQ(three.count, 3);
  EXPECT_DOUBLE_EQ(three.mean, 2);
  EXPECT_NEAR(three.half, 4.302653 / std::sqrt(3.0), 1e-5);
  EXPECT_FALSE(three.apart());
  EXPECT_TRUE(interval({1, 1.1, .9}).apart());
  EXPECT_TRUE(interval({-1, -1.1, -.9}).apart());
  EXPECT_EQ(interval_text(interval({1, 1.1, .9})), "+1.000 (+0.752 to +1.248)");
}

TEST(Interval, OneNumberHasNone) {
  const Interval one = interval({.5});
  EXPECT_TRUE(std::isinf(one.half));
  EXPECT_FALSE(one.apart());
  EXPECT_EQ(interval_text(one), "+0.500");
  EXPECT_EQ(interval({NAN, INFINITY}).count, 0);
  EXPECT_EQ(interval_text(interval({})), "-");
  EXPECT_EQ(interval({NAN, 2, 4}).count, 2);
}

SchemeSummary scheme(const std::map<uint64_t, std::map<int64_t, double>>& by_seed) {
  SchemeSummary s;
  for (const auto& [seed, losses] : by_seed) s.by_seed[seed][kWindows] = losses;
  return s;
}

TEST(Paired, SeedsThatBothHave) {
  const SchemeSummary a = scheme({{0, {{64, 2.0}, {128, 2.5}}}, {1, {{64, 3.0}, {128, 3.1}}}, {7, {{64, 9.0}}}});
  const SchemeSummary b = scheme({{1, {{64, 2.9}}}, {0, {{64, 1.8}}}, {8, {{64, 0.0}}}});
  const Interval gap = difference(a, b, kWindows, 64);  // +0.2 and +0.1
  EXPECT_EQ(gap.count, 2);
  EXPECT_NEAR(gap.mean, .15, 1e-12);
  EXPECT_NEAR(gap.half, 12.7062 * std::sqrt(.005) / std::sqrt(2.0), 1e-4);
  const Interval rise = change(a, kWindows, 64, 128);  // seed 7 has no loss at 128
  EXPECT_EQ(rise.count, 2);
  EXPECT_NEAR(rise.mean, .3, 1e-12);
  EXPECT_EQ(difference(a, b, kSliding, 64).count, 0);
}

}  // namespace
}  // namespace locant::study
