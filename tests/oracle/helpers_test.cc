// The helpers that other tests stand on: tolerances, finite differences, random shapes.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/oracle/exact.h"
#include "tests/oracle/finite_difference.h"
#include "tests/oracle/shapes.h"
#include "tests/oracle/tolerance.h"

namespace locant::oracle {
namespace {

TEST(OracleTolerance, FailsJustAboveAndNamesTheElement) {
  const std::vector<double> want = {1, 2, 3, 4, 5, 6};
  const std::vector<double> magnitude = {1, 2, 3, 4, 5, 6};
  std::vector<double> got = want;
  got[4] += 0.9 * kSafety * 11 * kEpsFloat * 5;
  expect_close("just below", got, want, magnitude, 10, kEpsFloat, {2, 3});
  got[4] = 5 + 1.1 * kSafety * 11 * kEpsFloat * 5;
  EXPECT_NONFATAL_FAILURE(expect_close("above", got, want, magnitude, 10, kEpsFloat, {2, 3}),
                          "worst at [1, 1]");
}

TEST(OracleTolerance, NotANumberNeverPasses) {
  const double nan = std::nan("");
  const std::vector<double> one = {1.0};
  const std::vector<double> bad = {nan};
  EXPECT_NONFATAL_FAILURE(expect_close("got", bad, one, one, 1, kEpsFloat), "1 of 1");
  EXPECT_NONFATAL_FAILURE(expect_close("want", one, bad, one, 1, kEpsFloat), "1 of 1");
}

TEST(OracleTolerance, ZeroMagnitudeMeansExact) {
  const std::vector<double> zero = {0.0};
  const std::vector<double> tiny = {1e-300};
  expect_close("zero", zero, zero, zero, 100, kEpsFloat);
  EXPECT_NONFATAL_FAILURE(expect_close("tiny", tiny, zero, zero, 100, kEpsFloat), "1 of 1");
}

TEST(OracleTolerance, Bf16IsJudgedByThePlainComputation) {
  const std::vector<double> want = {1.0, 1.0};
  const std::vector<double> magnitude = {1.0, 1.0};
  const std::vector<double> plain = {1.0, 1.02};
  expect_bf16_close("ok", std::vector<double>{1.039, 0.97}, plain, want, magnitude);
  EXPECT_NONFATAL_FAILURE(
      expect_bf16_close("bad", std::vector<double>{1.041, 0.97}, plain, want, magnitude),
      "worst at [0]");
}

TEST(OracleFiniteDifference, NearMachinePrecision) {
  std::vector<double> x = {0.3, -1.7, 2.5};
  const auto f = [&] { return std::sin(x[0]) * std::exp(x[1]) + x[2] * x[2] * x[0]; };
  const std::vector<double> g = gradient(f, x);
  const std::vector<double> want = {std::cos(.3) * std::exp(-1.7) + 6.25,
                                    std::sin(.3) * std::exp(-1.7), 2 * 2.5 * .3};
  for (std::size_t n = 0; n < 3; ++n) EXPECT_NEAR(g[n], want[n], 3e-11) << n;
  EXPECT_EQ(x, (std::vector<double>{0.3, -1.7, 2.5}));  // put back
}

TEST(OracleExact, PowersBeyondDouble) {
  EXPECT_EQ(compare_powers(10, 3, 100, 3, 100), -1);  // (1/10)^3 against 1
  EXPECT_EQ(compare_powers(36, 24, 81, 8, 24), 0);    // 1.5^24 = 3.375^8 exactly
  EXPECT_EQ(compare_powers(37, 24, 81, 8, 24), 1);
  EXPECT_EQ(compare_powers(35, 24, 81, 8, 24), -1);
}

TEST(OracleShapes, EveryKindAndEdgeIsDrawn) {
  std::vector<int> kinds(static_cast<std::size_t>(PositionKind::kCount));
  int grouped = 0, uneven = 0, single = 0, windows = 0, capped = 0, more_queries = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const Shape s = random_shape(seed);
    EXPECT_EQ(s.h % s.hk, 0);
    ++kinds[static_cast<std::size_t>(s.kind)];
    grouped += s.h != s.hk;
    uneven += s.q != s.k;
    more_queries += s.q > s.k;
    single += s.q == 1;
    windows += s.window_left >= 0;
    capped += s.softcap > 0;
    if (s.kind != PositionKind::kDefault) {
      ASSERT_EQ(s.query_positions.size(), static_cast<std::size_t>(s.b));
      for (const Positions& p : s.key_positions) {
        ASSERT_EQ(p.size(), static_cast<std::size_t>(s.k));
        for (std::int64_t x : p) EXPECT_GE(x, 0);
      }
    }
  }
  for (int count : kinds) EXPECT_GT(count, 20);
  for (int count : {grouped, uneven, single, windows, capped, more_queries}) EXPECT_GT(count, 20);
  EXPECT_EQ(random_shape(7).text(), random_shape(7).text());
}

}  // namespace
}  // namespace locant::oracle
