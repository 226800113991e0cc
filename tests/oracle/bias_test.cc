// The oracle's biases by formula (ALiBi, KERPLE, Sandwich, FIRE) against the golden values.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "tests/golden/alibi.h"
#include "tests/golden/fire.h"
#include "tests/golden/kerple.h"
#include "tests/golden/sandwich.h"
#include "tests/oracle/alibi.h"
#include "tests/oracle/fire.h"
#include "tests/oracle/kerple.h"
#include "tests/oracle/sandwich.h"
#include "tests/oracle/tolerance.h"
#include "tests/oracle/toy.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;

template <std::size_t N>
void expect_slopes(const double (&want)[N], double max_exponent = 8) {
  const std::vector<double> got = alibi_slopes(static_cast<int>(N), max_exponent);
  ASSERT_EQ(got.size(), N);
  for (std::size_t h = 0; h < N; ++h) EXPECT_NEAR(got[h] / want[h], 1, 5e-8) << N << " " << h;
}

TEST(OracleAlibi, Slopes) {
  expect_slopes(golden::kAlibiSlopes1);
  expect_slopes(golden::kAlibiSlopes2);
  expect_slopes(golden::kAlibiSlopes3);
  expect_slopes(golden::kAlibiSlopes4);
  expect_slopes(golden::kAlibiSlopes5);
  expect_slopes(golden::kAlibiSlopes6);
  expect_slopes(golden::kAlibiSlopes8);
  expect_slopes(golden::kAlibiSlopes10);
  expect_slopes(golden::kAlibiSlopes12);
  expect_slopes(golden::kAlibiSlopes16);
  expect_slopes(golden::kAlibiSlopes8Max16, 16);
  expect_slopes(golden::kAlibiSlopes6Max16, 16);
  for (const golden::AlibiSlope& c : golden::kAlibiSlopesPicked) {
    EXPECT_NEAR(alibi_slopes(c.heads).at(static_cast<std::size_t>(c.head)) / c.slope, 1, 5e-8)
        << c.heads << " " << c.head;
  }
  for (int h = 0; h < 6; ++h) {  // the known wrong list is one series over the six heads
    EXPECT_NEAR(std::pow(2.0, -8.0 * (h + 1) / 6) / golden::kAlibiSlopes6Wrong[h], 1, 2e-8);
  }
}

// Nearest bfloat16, ties to even.
double to_bf16(double x) {
  const float y = static_cast<float>(x);
  std::uint32_t bits = std::bit_cast<std::uint32_t>(y);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xFFFF0000u);
}

TEST(OracleAlibi, FalconsProductInBfloat16) {
  const double slope = alibi_slopes(12).at(8);
  for (int n = 0; n < 4; ++n) {
    const double p = golden::kAlibiBf16Positions[n];
    EXPECT_EQ(to_bf16(to_bf16(slope) * to_bf16(p)), golden::kAlibiBf16Product[n]) << p;
    EXPECT_NEAR(slope * p / golden::kAlibiFloat32Product[n], 1, 5e-8) << p;
  }
}

TEST(OracleAlibi, Forms) {
  const Positions p = consecutive(4);
  const Matrix causal = alibi_bias(0.5, AlibiForm::kCausal, p, p);
  const Matrix symmetric = alibi_bias(0.5, AlibiForm::kSymmetric, p, p);
  for (int j = 0; j < 4; ++j) {
    EXPECT_EQ(causal(3, j), golden::kAlibiCausalRow3[j]);
    EXPECT_EQ(symmetric(0, j), golden::kAlibiSymmetricRow0[j]);
  }
  EXPECT_EQ(alibi_bias(0.5, AlibiForm::kDeepMind, p, p).values,
            matrix(golden::kAlibiDeepMind).values);
  EXPECT_EQ(alibi_bias(0.5, AlibiForm::kCausal, {4}, consecutive(5)).values,
            numbers(golden::kAlibiDecodeRow5));
}

TEST(OracleAlibi, Toy) {
  Attention a = causal_toy();
  const Matrix bias = alibi_bias(0.5, AlibiForm::kCausal, consecutive(3), consecutive(3));
  a.unscaled = bias;
  const AttentionResult r = attention(a);
  expect_printed("weights", r.weights.values, matrix(golden::kAlibiToyWeights).values, kSixDigits,
                 {3, 3});
  expect_printed("out", r.out.values, matrix(golden::kAlibiToyOut).values, kSixDigits, {3, 2});
  a.unscaled = Matrix();
  a.scaled = bias;  // Falcon
  expect_printed("scaled", attention(a).weights.values,
                 matrix(golden::kAlibiToyWeightsScaled).values, kSixDigits, {3, 3});
}

TEST(OracleKerple, ValuesAndToy) {
  for (int n = 0; n < 6; ++n) {
    const double distance = golden::kKerpleDistances[n];
    EXPECT_NEAR(kerple(KerpleForm::kLog, 1, 1, distance), golden::kKerpleLogP1A1[n], kSixDigits);
    EXPECT_NEAR(kerple(KerpleForm::kLog, 2, .5, distance), golden::kKerpleLogP2Ahalf[n],
                kSixDigits);
    EXPECT_NEAR(kerple(KerpleForm::kPower, .5, .5, distance), golden::kKerplePowerAhalfPhalf[n],
                kSixDigits);
  }
  Attention a = causal_toy();
  a.unscaled = kerple_bias(KerpleForm::kLog, 1, 1, consecutive(3), consecutive(3));
  expect_printed("weights", attention(a).weights.values, matrix(golden::kKerpleToyWeights).values,
                 kSixDigits, {3, 3});
}

TEST(OracleSandwich, Values) {
  for (int n = 0; n < 6; ++n) {
    const int back = golden::kSandwichDistances8[n];
    const double first = golden::kSandwich8Head1[n];
    EXPECT_NEAR(sandwich(back, 8, 0, 8), first, kSixDigits);
    EXPECT_NEAR(sandwich(back, 8, 1, 8), first / 2, kSixDigits);
    EXPECT_NEAR(sandwich(back, 8, 7, 8), first / 8, kSixDigits);
  }
  for (int n = 0; n < 5; ++n) {
    EXPECT_NEAR(sandwich(golden::kSandwichDistances128[n], 128, 0, 12),
                golden::kSandwich128Head1[n], kSixDigits);
  }
  EXPECT_GT(std::fabs(sandwich(1, 8, 0, 8) - golden::kSandwich8WrongExponentAt1), 0.4);
}

TEST(OracleFire, Values) {
  Fire fire;
  fire.c = 1;
  fire.length = 4;
  for (const golden::FireCase& c : golden::kFireInputL4) {
    EXPECT_NEAR(fire_input(fire, c.i, c.j), c.value, kSixDigits) << c.i << " " << c.j;
  }
  fire.hidden_weight = numbers(golden::kFireHiddenWeight);
  fire.hidden_bias = numbers(golden::kFireHiddenBias);
  fire.out_weight = numbers(golden::kFireOutWeight);
  fire.out_bias = golden::kFireOutBias;
  for (const golden::FireCase& c : golden::kFireBias) {
    EXPECT_NEAR(fire_bias(fire, c.i, c.j), c.value, kSixDigits) << c.i << " " << c.j;
  }
  for (const golden::FireCase& c : golden::kFireInputL512) {
    EXPECT_NEAR(fire_input(Fire{}, c.i, c.j), c.value, kSixDigits) << c.i << " " << c.j;
  }
}

}  // namespace
}  // namespace locant::oracle
