// The dense attention of the oracle: toy values, order of operations, masks.
#include "tests/oracle/attention.h"

#include <gtest/gtest.h>

#include "tests/golden/masking.h"
#include "tests/oracle/attention_gradient.h"
#include "tests/oracle/finite_difference.h"
#include "tests/oracle/random.h"
#include "tests/oracle/tolerance.h"
#include "tests/oracle/toy.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;

TEST(OracleAttention, ToyWithoutPositions) {
  const AttentionResult full = attention(toy());
  expect_printed("weights", full.weights.values, matrix(golden::kToyFullWeights).values,
                 kSixDigits, {3, 3});
  expect_printed("out", full.out.values, matrix(golden::kToyFullOut).values, kSixDigits, {3, 2});
  const AttentionResult causal = attention(causal_toy());
  expect_printed("causal weights", causal.weights.values,
                 matrix(golden::kToyCausalWeights).values, kSixDigits, {3, 3});
  expect_printed("causal out", causal.out.values, matrix(golden::kToyCausalOut).values, kSixDigits,
                 {3, 2});
}

// One query with width 1, so that logits are the keys themselves.
Attention logits_are(std::initializer_list<double> logits) {
  Attention a;
  a.q = Matrix(1, 1);
  a.q(0, 0) = 1;
  a.k = Matrix(static_cast<int>(logits.size()), 1);
  a.k.values.assign(logits);
  a.v = Matrix(a.k.rows, a.k.rows);
  for (int j = 0; j < a.k.rows; ++j) a.v(j, j) = 1;  // out = weights
  return a;
}

TEST(OracleAttention, SoftcapComesBeforeTheMask) {
  Attention a = logits_are({1, 2, 3});
  a.softcap = 2;
  expect_printed("capped", attention(a).logits.values, numbers(golden::kSoftcapped), kSixDigits);
  a.key_allowed = {1, 1, 0};
  expect_printed("weights", attention(a).out.values, numbers(golden::kSoftcapWeightsLastMasked),
                 kSixDigits);
  // The known wrong order bends the mask's -infinity to -cap.
  const Attention wrong = logits_are({golden::kSoftcapped[0], golden::kSoftcapped[1], -2});
  expect_printed("mask first", attention(wrong).out.values, numbers(golden::kSoftcapWeightsWrong),
                 kSixDigits);
}

TEST(OracleAttention, SoftcapCoversScaledTermsOnly) {
  Attention a = logits_are({1, 1});
  a.scale = 0.5;
  a.softcap = 3;
  a.scaled = Matrix(1, 2);
  a.scaled(0, 0) = 4;
  a.unscaled = Matrix(1, 2);
  a.unscaled(0, 0) = 7;
  a.scaled_keys = {0, 6};
  a.unscaled_keys = {0.25, -8};
  const AttentionResult r = attention(a);
  EXPECT_DOUBLE_EQ(r.logits(0, 0), 3 * std::tanh((1 + 4) * 0.5 / 3) + 7 + 0.25);
  EXPECT_DOUBLE_EQ(r.logits(0, 1), 3 * std::tanh((1 + 6) * 0.5 / 3) - 8);
}

TEST(OracleAttention, CausalByPositionNotByPlace) {
  Attention a;
  a.q = Matrix(2, 1);
  a.k = Matrix(5, 1);
  a.v = Matrix(5, 1);
  a.causal = true;
  const Matrix late = attention(a).weights;  // queries stand at 3 and 4
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_EQ(late(i, j) > 0, golden::kCausal2x5[i][j] == 1);
  }
  a.query_positions = {0, 9};
  a.key_positions = {7, 0, 11, 9, 3};
  const Matrix any = attention(a).weights;
  const int keep[2][5] = {{0, 1, 0, 0, 0}, {1, 1, 0, 1, 1}};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_EQ(any(i, j) > 0, keep[i][j] == 1) << i << " " << j;
  }
}

TEST(OracleAttention, WindowOfThreeKeys) {
  Attention a;
  a.q = a.k = a.v = Matrix(5, 1);
  a.window_left = 2;
  a.window_right = 0;
  const Matrix w = attention(a).weights;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) EXPECT_EQ(w(i, j) > 0, golden::kWindow3[i][j] == 1);
  }
}

TEST(OracleAttention, FullyMaskedRowGivesZeros) {
  Attention a = toy();
  a.allowed = matrix({{1, 1, 1}, {0, 0, 0}, {1, 1, 1}});
  const AttentionResult r = attention(a);
  for (int c = 0; c < 2; ++c) EXPECT_EQ(r.out(1, c), 0.0);
  EXPECT_EQ(r.lse[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(r.out(0, 0), attention(toy()).out(0, 0));
}

TEST(OracleAttention, MaskedKeyMayHoldAnything) {
  Attention a = toy();
  const double nan = std::nan("");
  a.unscaled_keys = {0, 0, -std::numeric_limits<double>::infinity()};
  a.k(2, 0) = a.v(2, 1) = nan;
  Attention two = toy();
  two.k = matrix({{1., 2.}, {0., 1.}});
  two.v = matrix({{1., 0.}, {0., 1.}});
  EXPECT_EQ(attention(a).out.values, attention(two).out.values);
}

TEST(OracleAttention, ValueRowsAreWeighted) {
  Attention a = toy();
  a.value_table = matrix({{10., 20.}, {30., 40.}});
  a.value_index = IndexMatrix(3, 3);
  a.value_index(0, 1) = 1;
  const AttentionResult plain = attention(toy());
  const AttentionResult r = attention(a);
  EXPECT_NEAR(r.out(0, 0) - plain.out(0, 0), 30 * plain.weights(0, 1), 1e-14);
  EXPECT_NEAR(r.out(0, 1) - plain.out(0, 1), 40 * plain.weights(0, 1), 1e-14);
  EXPECT_EQ(r.out(1, 0), plain.out(1, 0));
}

// The magnitude bounds what a relative error in every product does, and is not far too large.
TEST(OracleAttention, MagnitudeBoundsPerturbations) {
  double closest = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    Attention a;
    a.q = random_matrix(rng, 1, 6);
    a.k = random_matrix(rng, 5, 6);
    a.v = random_matrix(rng, 5, 2);
    const AttentionResult exact = attention(a);
    const double eps = 1e-6;
    for (double& x : a.k.values) x *= 1 + eps * rng.uniform(-1, 1);
    for (double& x : a.v.values) x *= 1 + eps * rng.uniform(-1, 1);
    const AttentionResult moved = attention(a);
    for (int c = 0; c < 2; ++c) {
      const double ratio =
          std::fabs(moved.out(0, c) - exact.out(0, c)) / (eps * exact.magnitude(0, c));
      EXPECT_LE(ratio, 1.001);
      closest = std::max(closest, ratio);
    }
  }
  EXPECT_GT(closest, 0.1);
}

// Every gradient against differences, everything switched on at once.
TEST(OracleAttentionGradient, AgreesWithFiniteDifferences) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Rng rng(seed);
    Attention a;
    a.q = random_matrix(rng, 3, 4);
    a.k = random_matrix(rng, 5, 4);
    a.v = random_matrix(rng, 5, 2);
    a.scale = 0.7;
    a.softcap = seed % 2 ? 1.5 : 0;
    a.causal = true;
    a.window_left = 3;
    a.query_positions = {2, 4, 0};
    a.key_positions = {0, 1, 5, 3, 2};
    a.key_allowed = {1, 1, 1, 1, seed % 3 != 0};
    a.unscaled_keys = random_numbers(rng, 5);
    a.scaled_keys = random_numbers(rng, 5);
    a.value_table = random_matrix(rng, 2, 2);
    a.value_index = IndexMatrix(3, 5);
    IndexMatrix rows(3, 5);
    for (int& n : a.value_index.values) n = rng.integer(-1, 1);
    for (int& n : rows.values) n = rng.integer(-1, 2);
    Matrix query_table = random_matrix(rng, 3, 4);
    Matrix key_table = random_matrix(rng, 3, 4);
    std::vector<double> number_table = random_numbers(rng, 3);
    const Matrix weights = random_matrix(rng, 3, 2);

    const auto whole = [&] {
      Attention call = a;
      call.scaled = sum(query_row_term(a.q, query_table, rows), key_row_term(a.k, key_table, rows));
      call.unscaled = number_term(number_table, rows);
      return call;
    };
    const auto loss = [&] {
      const Matrix out = attention(whole()).out;
      double total = 0;
      for (std::size_t n = 0; n < out.values.size(); ++n) {
        total += out.values[n] * weights.values[n];
      }
      return total;
    };
    AttentionGradient g = attention_gradient(whole(), weights).gradient;
    Matrix query_table_gradient(3, 4);
    Matrix key_table_gradient(3, 4);
    std::vector<double> number_table_gradient(3, 0.0);
    query_row_term_backward(g.scaled, rows, a.q, query_table, g.q, query_table_gradient);
    key_row_term_backward(g.scaled, rows, a.k, key_table, g.k, key_table_gradient);
    number_term_backward(g.unscaled, rows, number_table_gradient);

    const auto check = [&](const char* name, const std::vector<double>& got,
                           std::vector<double>& parameter) {
      const std::vector<double> want = gradient(loss, parameter);
      ASSERT_EQ(got.size(), want.size()) << name;
      for (std::size_t n = 0; n < want.size(); ++n) {
        EXPECT_NEAR(got[n], want[n], 1e-9 * (1 + std::fabs(want[n]))) << name << " " << n;
      }
    };
    check("q", g.q.values, a.q.values);
    check("k", g.k.values, a.k.values);
    check("v", g.v.values, a.v.values);
    check("scaled keys", g.scaled_keys, a.scaled_keys);
    check("unscaled keys", g.unscaled_keys, a.unscaled_keys);
    check("value table", g.value_table.values, a.value_table.values);
    check("query rows", query_table_gradient.values, query_table.values);
    check("key rows", key_table_gradient.values, key_table.values);
    check("numbers", number_table_gradient, number_table);
  }
}

TEST(OracleAttentionGradient, MaskedRowHasNone) {
  Attention a = toy();
  a.allowed = matrix({{1, 1, 1}, {0, 0, 0}, {1, 1, 1}});
  const AttentionGradient g = attention_gradient(a, matrix({{1, 2}, {3, 4}, {5, 6}})).gradient;
  for (int c = 0; c < 2; ++c) EXPECT_EQ(g.q(1, c), 0.0);
  const AttentionGradient rest = attention_gradient(a, matrix({{1, 2}, {0, 0}, {5, 6}})).gradient;
  EXPECT_EQ(g.k.values, rest.k.values);
  EXPECT_EQ(g.v.values, rest.v.values);
}

}  // namespace
}  // namespace locant::oracle
