// The oracle's rotary positions, their scalings and xPos against the golden values.
#include <gtest/gtest.h>

#include "tests/golden/rope.h"
#include "tests/golden/rope_scaling.h"
#include "tests/golden/xpos.h"
#include "tests/oracle/rope.h"
#include "tests/oracle/rope_scaling.h"
#include "tests/oracle/tolerance.h"
#include "tests/oracle/toy.h"
#include "tests/oracle/xpos.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;
constexpr auto kInterleaved = RopeLayout::kInterleaved;
constexpr auto kHalfSplit = RopeLayout::kHalfSplit;

Matrix row(const std::vector<double>& values) {
  Matrix result(1, static_cast<int>(values.size()));
  result.values = values;
  return result;
}

Matrix counted_row(int width) {
  Matrix result(1, width);
  for (int c = 0; c < width; ++c) result(0, c) = c + 1;
  return result;
}

TEST(OracleRope, Width4) {
  const std::vector<double> theta = rope_frequencies(4, 10000);
  const Matrix x = row(numbers(golden::kRopeX4));
  for (int n = 0; n < 3; ++n) {
    const Positions p = {golden::kRopePositions4[n]};
    expect_printed("interleaved", rope(x, p, theta, kInterleaved).values,
                   numbers(golden::kRopeInterleaved4[n]), kSixDigits);
    expect_printed("half-split", rope(x, p, theta, kHalfSplit).values,
                   numbers(golden::kRopeHalfSplit4[n]), kSixDigits);
  }
  expect_printed("permuted",
                 rope(row(numbers(golden::kRopeX4Permuted)), {1}, theta, kHalfSplit).values,
                 numbers(golden::kRopeHalfSplitPermuted), kSixDigits);
}

TEST(OracleRope, DotProducts) {
  const std::vector<double> theta = rope_frequencies(4, 10000);
  const Matrix q = row(numbers(golden::kRopeDotQ));
  const Matrix k = row(numbers(golden::kRopeDotK));
  const auto score = [&](std::int64_t m, std::int64_t n, RopeLayout layout) {
    return rope_scores(q, k, {m}, {n}, theta, layout)(0, 0);
  };
  EXPECT_NEAR(score(3, 1, kInterleaved), golden::kRopeDotInterleaved3And1, kSixDigits);
  EXPECT_NEAR(score(7, 5, kInterleaved), golden::kRopeDotInterleaved3And1, kSixDigits);
  EXPECT_NEAR(score(1, 3, kInterleaved), golden::kRopeDotInterleaved1And3, kSixDigits);
  EXPECT_NEAR(score(3, 1, kHalfSplit), golden::kRopeDotHalfSplit3And1, kSixDigits);
  EXPECT_NEAR(score(1, 3, kHalfSplit), golden::kRopeDotHalfSplit1And3, kSixDigits);
  EXPECT_NEAR(score(0, 0, kHalfSplit), golden::kRopeDotUnturned, 1e-15);
}

TEST(OracleRope, Partial) {
  const std::vector<double> theta = rope_frequencies(4, 10000);
  expect_printed("GPT-NeoX", rope(counted_row(8), {1}, theta, kHalfSplit).values,
                 numbers(golden::kRopePartialNeoX), kSixDigits);
  expect_printed("GPT-J", rope(counted_row(8), {1}, theta, kInterleaved).values,
                 numbers(golden::kRopePartialGptJ), kSixDigits);
  std::vector<double> wrong = rope_frequencies(8, 10000);
  wrong.resize(2);
  std::vector<double> turned = rope(counted_row(4), {1}, wrong, kHalfSplit).values;
  expect_printed("frequencies of the whole width", turned, numbers(golden::kRopePartialWrong),
                 kSixDigits);
}

TEST(OracleRope, PublicRoformerTest) {
  const std::vector<double> theta = rope_frequencies(64, 10000);
  for (int n = 0; n < 3; ++n) {
    const int p = golden::kRoformerPositions[n];
    Matrix x(1, 64);
    for (int c = 0; c < 64; ++c) x(0, c) = (64 * p + c) / 100.0;
    std::vector<double> turned = rope(x, {p}, theta, kInterleaved).values;
    turned.resize(4);
    expect_printed("row", turned, numbers(golden::kRoformerTurned[n]), 0.5e-4);
  }
}

TEST(OracleRope, Toy) {
  Attention a = causal_toy();
  const std::vector<double> theta = rope_frequencies(2, 10000);
  a.q = rope(a.q, consecutive(3), theta, kInterleaved);
  a.k = rope(a.k, consecutive(3), theta, kInterleaved);
  const AttentionResult r = attention(a);
  expect_printed("weights", r.weights.values, matrix(golden::kRopeToyWeights).values, kSixDigits,
                 {3, 3});
  expect_printed("out", r.out.values, matrix(golden::kRopeToyOut).values, kSixDigits, {3, 2});
}

TEST(OracleRope, LargeAngle) {
  EXPECT_NEAR(golden::kRopeAnglePosition * rope_frequencies(32, 10000)[1], golden::kRopeAnglePair1,
              0.5e-4);
}

template <std::size_t N>
void expect_frequencies(const std::vector<double>& theta, const golden::Frequency (&want)[N],
                        double relative) {
  for (const golden::Frequency& f : want) {
    EXPECT_NEAR(theta.at(static_cast<std::size_t>(f.pair)) / f.theta, 1, relative) << f.pair;
  }
}
template <std::size_t N>
void expect_all(const std::vector<double>& theta, const double (&want)[N], double relative) {
  ASSERT_EQ(theta.size(), N);
  for (std::size_t t = 0; t < N; ++t) EXPECT_NEAR(theta[t] / want[t], 1, relative) << t;
}

TEST(OracleRopeScaling, DefaultLinearNtk) {
  expect_all(rope_frequencies(8, 10000), golden::kRopeDefault8, 1e-14);
  expect_frequencies(rope_frequencies(128, 500000), golden::kRopeDefault128Base500k,
                     golden::kSixSignificant);
  expect_frequencies(rope_frequencies(128, 10000), golden::kPublicDefault128,
                     golden::kFiveSignificant);
  expect_all(rope_linear(8, 10000, 4), golden::kRopeLinear8Factor4, 1e-14);
  EXPECT_NEAR(ntk_base(8, 10000, 4), golden::kRopeNtkBase8Factor4, 0.5e-4);
  EXPECT_NEAR(ntk_base(128, 10000, 8), golden::kRopeNtkBase128Factor8, 0.5e-4);
  const std::vector<double> ntk = rope_frequencies(8, ntk_base(8, 10000, 4));
  expect_all(ntk, golden::kRopeNtk8Factor4, 1e-5);  // .0039685 has five digits
  EXPECT_NEAR(ntk.back(), 0.001 / 4, 1e-16);        // the last is exactly theta / f
}

TEST(OracleRopeScaling, DynamicNtk) {
  for (const golden::DynamicNtk& c : golden::kRopeDynamic128) {
    const double base = dynamic_ntk_base(128, 10000, 2, 2048, c.length);
    EXPECT_NEAR(base, c.base, 0.5e-4) << c.length;
    if (c.theta63 != 0) {
      EXPECT_NEAR(rope_frequencies(128, base)[63] / c.theta63, 1, golden::kSixSignificant);
    }
  }
  EXPECT_EQ(dynamic_ntk_base(128, 10000, 2, 2048, 2048), 10000);
  EXPECT_EQ(dynamic_ntk_base(128, 10000, 2, 2048, 100), 10000);
  const double base8 = dynamic_ntk_base(8, 10000, 2, 8, 16);
  EXPECT_NEAR(base8, golden::kRopeDynamicBase8, 0.5e-4);
  expect_all(rope_frequencies(8, base8), golden::kRopeDynamic8, 1.1e-5);
  const double public_base = dynamic_ntk_base(128, 10000, 10, 2048, 16384);
  EXPECT_NEAR(public_base, golden::kRopeDynamicBase128Factor10, 0.5e-3);
  expect_frequencies(rope_frequencies(128, public_base), golden::kPublicDynamic128,
                     golden::kFiveSignificant);
}

TEST(OracleRopeScaling, Yarn) {
  for (const golden::YarnScale& c : golden::kYarnScale) {
    EXPECT_NEAR(yarn_mscale(c.factor), c.scale, 0.5e-7) << c.factor;
  }
  EXPECT_EQ(yarn_mscale(0.5), 1);
  EXPECT_NEAR(std::pow(yarn_mscale(40, .707), 2), golden::kYarnDeepSeekSoftmax707, kSixDigits);
  EXPECT_NEAR(std::pow(yarn_mscale(40, 1), 2), golden::kYarnDeepSeekSoftmax1, kSixDigits);

  const Yarn yarn64{.factor = 16, .original = 4096};
  EXPECT_NEAR(yarn_pair(64, 10000, 4096, 32), golden::kYarn64RawLow, 0.5e-4);
  EXPECT_NEAR(yarn_pair(64, 10000, 4096, 1), golden::kYarn64RawHigh, 0.5e-4);
  EXPECT_EQ(yarn_range(64, 10000, yarn64).first, golden::kYarn64Low);
  EXPECT_EQ(yarn_range(64, 10000, yarn64).second, golden::kYarn64High);
  expect_frequencies(rope_yarn(64, 10000, yarn64), golden::kYarn64, golden::kSixSignificant);
  expect_frequencies(rope_yarn(64, 10000, {.factor = 16, .original = 4096, .truncate = false}),
                     golden::kYarn64Untruncated, golden::kSixSignificant);

  const Yarn yarn8{.factor = 4, .original = 64};
  EXPECT_EQ(yarn_range(8, 10000, yarn8).first, golden::kYarn8Low);
  EXPECT_EQ(yarn_range(8, 10000, yarn8).second, golden::kYarn8High);
  expect_all(rope_yarn(8, 10000, yarn8), golden::kYarn8, 1e-14);

  const Yarn yarn128{.factor = 10, .original = 2048};
  EXPECT_EQ(yarn_range(128, 10000, yarn128).first, golden::kYarn128Low);
  EXPECT_EQ(yarn_range(128, 10000, yarn128).second, golden::kYarn128High);
  expect_frequencies(rope_yarn(128, 10000, yarn128), golden::kPublicYarn128,
                     golden::kFiveSignificant);
}

TEST(OracleRopeScaling, Llama3) {
  const std::vector<double> theta = rope_llama3(128, 500000, 8, 1, 4, 8192);
  const std::vector<double> plain = rope_frequencies(128, 500000);
  for (const golden::Frequency& c : golden::kLlama3Ratio) {
    const std::size_t t = static_cast<std::size_t>(c.pair);
    EXPECT_NEAR(theta[t] / plain[t], c.theta, kSixDigits) << t;
  }
  EXPECT_NEAR(theta[28], golden::kLlama3Theta28, 0.5e-9);
  EXPECT_NEAR(theta[63], golden::kLlama3Theta63, 0.5e-13);
  expect_frequencies(rope_llama3(128, 10000, 10, 1, 4, 2048), golden::kPublicLlama3128,
                     golden::kFiveSignificant);
}

TEST(OracleRopeScaling, LongRope) {
  for (const golden::LongRopeScale& c : golden::kLongRopeScale) {
    EXPECT_NEAR(rope_long_magnitude(c.max_position, c.original), c.scale, kSixDigits);
  }
  const auto shorter = numbers(golden::kLongRopeShort8);
  const auto longer = numbers(golden::kLongRopeLong8);
  expect_all(rope_long(8, 10000, shorter, longer, 8, 8), golden::kLongRopeThetaShort8, 1.1e-6);
  expect_all(rope_long(8, 10000, shorter, longer, 8, 9), golden::kLongRopeThetaLong8, 1e-14);
}

TEST(OracleRopeScaling, Llama4QueryFactor) {
  for (const golden::Frequency& c : golden::kLlama4QueryFactor) {
    EXPECT_NEAR(llama4_query_factor(c.pair), c.theta, kSixDigits) << c.pair;
  }
}

TEST(OracleXpos, ScalesAndScores) {
  for (int t = 0; t < 4; ++t) {
    EXPECT_NEAR(xpos_zeta(t, 8), golden::kXposZeta[t], kSixDigits);
    EXPECT_NEAR(xpos_scale(t, 8, 64), golden::kXposFactorAt64[t], kSixDigits);
    for (int n = 0; n < 4; ++n) {
      EXPECT_NEAR(xpos_scale(t, 8, golden::kXposScalePositions[n]), golden::kXposScales[n][t],
                  kSixDigits);
    }
  }
  const Matrix x = counted_row(8);
  expect_printed("query", xpos(x, {10}, +1).values, numbers(golden::kXposQuery10), kSixDigits);
  const auto score = [&](std::int64_t m, std::int64_t n) {
    return dot_rows(xpos(x, {m}, +1), 0, xpos(x, {n}, -1), 0);
  };
  EXPECT_NEAR(score(10, 3), golden::kXposDot10And3, kSixDigits);
  EXPECT_NEAR(score(107, 100), golden::kXposDot10And3, kSixDigits);
  EXPECT_NEAR(score(3, 10), golden::kXposDot3And10, kSixDigits);
}

}  // namespace
}  // namespace locant::oracle
