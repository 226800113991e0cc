// The oracle's absolute positions against the golden values.
#include <gtest/gtest.h>

#include "tests/golden/position_ids.h"
#include "tests/golden/sinusoidal.h"
#include "tests/golden/toy.h"
#include "tests/oracle/learned_ids.h"
#include "tests/oracle/sinusoidal.h"
#include "tests/oracle/tolerance.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;

Positions positions(std::initializer_list<int> values) {
  return Positions(values.begin(), values.end());
}
template <std::size_t N>
Positions positions(const int (&values)[N]) {
  return Positions(values, values + N);
}
template <std::size_t N>
std::vector<int> integers(const int (&values)[N]) {
  return std::vector<int>(values, values + N);
}

TEST(OracleSinusoidal, Width8InThreeLayouts) {
  const auto layout_a = SinusoidalLayout::kAlternating;
  const Matrix a = sinusoidal(positions(golden::kSinusoidalPositionsA8), 8, 10000, layout_a);
  expect_printed("A", a.values, matrix(golden::kSinusoidalA8).values, kSixDigits, {4, 8});
  const Matrix b = sinusoidal({1}, 8, 10000, SinusoidalLayout::kConcatenated);
  expect_printed("B", b.values, numbers(golden::kSinusoidalB8Position1), kSixDigits);
  const auto layout_c = SinusoidalLayout::kTensor2Tensor;
  expect_printed("C p=1", sinusoidal({1}, 8, 10000, layout_c).values,
                 numbers(golden::kSinusoidalC8Position1), kSixDigits);
  expect_printed("C p=3", sinusoidal({3}, 8, 10000, layout_c).values,
                 numbers(golden::kSinusoidalC8Position3), kSixDigits);
}

TEST(OracleSinusoidal, Frequencies) {
  for (int t = 0; t < 4; ++t) {
    EXPECT_NEAR(sinusoidal_frequency(t, 8, 10000, SinusoidalLayout::kConcatenated),
                golden::kSinusoidalFrequencies8[t], 1e-15);
    EXPECT_NEAR(sinusoidal_frequency(t, 8, 10000, SinusoidalLayout::kTensor2Tensor) /
                    golden::kSinusoidalFrequenciesC8[t], 1, 3e-6);
  }
}

TEST(OracleSinusoidal, PublicRoformerValues) {
  const auto layout = SinusoidalLayout::kConcatenated;
  expect_printed("D=6", sinusoidal({1}, 6, 10000, layout).values,
                 numbers(golden::kSinusoidalB6Position1), golden::kFourDigits);
  for (int p : {1, 2}) {
    std::vector<double> first = sinusoidal({p}, 512, 10000, layout).values;
    first.resize(5);
    expect_printed("D=512", first,
                   p == 1 ? numbers(golden::kSinusoidalB512Position1)
                          : numbers(golden::kSinusoidalB512Position2),
                   golden::kFourDigits);
  }
}

TEST(OracleSinusoidal, OddWidths) {
  expect_printed("B, D=5", sinusoidal({1}, 5, 10000, SinusoidalLayout::kConcatenated).values,
                 numbers(golden::kSinusoidalB5Position1), kSixDigits);
  const Matrix c = sinusoidal({7}, 5, 10000, SinusoidalLayout::kTensor2Tensor);
  EXPECT_EQ(c(0, 4), 0.0);  // tensor2tensor pads one zero channel
  EXPECT_EQ(c(0, 3), std::cos(7 * 1e-4));
  const Matrix a = sinusoidal({7}, 5, 10000, SinusoidalLayout::kAlternating);
  EXPECT_EQ(a(0, 4), std::sin(7 * std::pow(10000, -0.8)));
}

TEST(OracleIds, OfPublishedModels) {
  const std::vector<int> mask = integers(golden::kIdsMask);
  EXPECT_EQ(plain_ids(4, 2), positions({2, 3, 4, 5}));
  EXPECT_EQ(generate_ids(mask), positions(golden::kIdsGpt2Generate));
  EXPECT_EQ(opt_ids(mask), positions(golden::kIdsOpt));
  EXPECT_EQ(bloom_ids(mask), positions(golden::kIdsBloom));
  EXPECT_EQ(roberta_ids(integers(golden::kRobertaTokensRightPadded), golden::kRobertaPad),
            positions(golden::kIdsRobertaRightPadded));
  EXPECT_EQ(roberta_ids(integers(golden::kRobertaTokensLeftPadded), golden::kRobertaPad),
            positions(golden::kIdsRobertaLeftPadded));
  EXPECT_EQ(roberta_ids({5}, golden::kRobertaPad, 3),
            positions({golden::kIdsRobertaOneTokenAfter3}));
  EXPECT_EQ(roberta_ids_without_tokens(3, 1), positions({2, 3, 4}));
  EXPECT_EQ(roberta_usable(golden::kRobertaRows, 1), golden::kRobertaUsablePad1);
  EXPECT_EQ(roberta_usable(golden::kRobertaRows, 3), golden::kRobertaUsablePad3);
}

TEST(OracleIds, SmolLm3Layers) {
  EXPECT_EQ(rope_layers(8, 4), integers(golden::kSmolLm3RopeLayers));
  std::vector<int> without;
  const std::vector<int> all = rope_layers(36, 4);
  for (int layer = 0; layer < 36; ++layer) {
    if (!all[static_cast<std::size_t>(layer)]) without.push_back(layer);
  }
  EXPECT_EQ(without, (std::vector<int>{3, 7, 11, 15, 19, 23, 27, 31, 35}));
}

}  // namespace
}  // namespace locant::oracle
