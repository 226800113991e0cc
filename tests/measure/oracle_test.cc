// --check finds the kernel right on every instruction set, and what is wrong, wrong.
#include "locant/measure/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "locant/position/registry.h"
#include "locant/simd/dispatch.h"

namespace locant::measure {
namespace {

TEST(Oracle, EverySchemeIsRightOnEverySet) {
  for (simd::Set set : simd::available()) {
    for (const std::string& name : scheme_names()) {
      const std::string text =
          "b2 h4 g2 q50 k70 d16 causal " + name + " fwd+bwd isa=" + std::string(simd::name(set));
      const auto differences = check(parse_case(text));
      EXPECT_GE(differences.size(), 5u);
      for (const Difference& d : differences) EXPECT_LE(d.ratio, 1) << text << ": " << d.name;
    }
  }
}

TEST(Oracle, OptionsReachTheOracle) {
  for (const char* text : {"b1 h2 q70 d32 v16 window=9 softcap=5 t5 fwd+bwd t2", "b1 h1 q33 d8 alibi fwd",
                           "b1 h2 q40 d16 dropout=0.3 shaw fwd+bwd",
                           "b3 h2 g1 q70 k80 d16 packed t5 fwd+bwd", "b2 h2 q90 d16 hook fwd+bwd",
                           "b2 h2 q90 d16 causal packed hook t5 fwd+bwd", "b2 h4 g2 k90 d16 decode alibi",
                           "b2 h4 g2 q3 k90 d16 v24 causal decode pages=8 rope t2", "h2 k300 d16 decode window=20 shaw"}) {
    for (const Difference& d : check(parse_case(text))) EXPECT_LE(d.ratio, 1) << text << ": " << d.name;
  }
  EXPECT_EQ(check(parse_case("b1 h1 q33 d8 fwd")).size(), 2u);  // out and lse
}

TEST(Oracle, Bf16IsHeldAgainstPlainBf16) {
  for (simd::Set set : simd::available()) {
    const std::string text = "b1 h2 q60 d32 causal bf16 fwd+bwd isa=" + std::string(simd::name(set));
    for (const char* more : {"", " t5", " transformer_xl", " dropout=0.2", " hook"}) {
      for (const Difference& d : check(parse_case(text + more))) EXPECT_LE(d.ratio, 1) << text << more << ": " << d.name;
    }
  }
}

// What a hook learns of gradients that cancel: of one key they are 0, and sums of 255 products are rounded.
TEST(Oracle, WhatAHookLearnsIsHeldToTheSizesOfWhatItSums) {
  for (simd::Set set : simd::available()) {
    const std::string isa = " isa=" + std::string(simd::name(set));
    for (const char* text : {"b2 h6 g2 q65 k1 d1 v255 causal fwd+bwd fire", "h2 q65 k1 d1 v255 fwd+bwd hook",
                             "b2 h4 g2 q50 k70 d16 causal fwd+bwd fire", "q2 k2 v1 fwd+bwd fire(length=4,hidden=100)"}) {
      for (const Difference& d : check(parse_case(text + isa))) EXPECT_LE(d.ratio, 1) << text << isa << ": " << d.name;
    }
  }
  // Gradients up to 8, known to the third digit.
  const Difference learned = check(parse_case("b2 h4 g2 q50 k70 d16 causal fwd+bwd fire")).back();
  EXPECT_EQ(learned.name, "gradient of the hook");
  EXPECT_LT(learned.allowed, 8e-3);
  // One key: of magnitude, though all is 0; not of any.
  const Difference one = check(parse_case("q65 k1 d1 v255 causal fwd+bwd fire")).back();
  EXPECT_GT(one.allowed, 1e-3);
  EXPECT_LT(one.allowed, 1);
}

TEST(Oracle, AWrongElementIsWrong) {
  const std::vector<Sized> want{{1, 1}, {0, 0}, {-2, 4}};
  EXPECT_EQ(worst_of("x", {1, 0, -2}, want, 1e-3).ratio, 0);
  const Difference rounding = worst_of("x", {1.0005, 0, -2.003}, want, 1e-3);
  EXPECT_GT(rounding.ratio, 0.5);
  EXPECT_LT(rounding.ratio, 1);
  EXPECT_NEAR(rounding.error, 0.003, 1e-6);
  EXPECT_GT(worst_of("x", {1, 0, -2.005}, want, 1e-3).ratio, 1);
  // Where nothing was added, nothing may come out; and nothing is close to NaN.
  EXPECT_GT(worst_of("x", {1, 1e-30, -2}, want, 1e-3).ratio, 1);
  EXPECT_GT(worst_of("x", {std::nan(""), 0, -2}, want, 1e-3).ratio, 1);
  EXPECT_GT(worst_of("x", {1, 0, std::numeric_limits<double>::infinity()}, want, 1e-3).ratio, 1);
}

TEST(Oracle, CostGrowsWithTheSquare) {
  EXPECT_EQ(check_cost(parse_case("b1 h1 q100 d16 bwd")), 3.5 * 2 * 100 * 100 * 16);
  EXPECT_EQ(check_cost(parse_case("q200")), 4 * check_cost(parse_case("q100")));
}

}  // namespace
}  // namespace locant::measure
