// The oracle's relative rows (Shaw, Music Transformer, Transformer-XL) against the golden values.
#include <gtest/gtest.h>

#include "tests/golden/music_transformer.h"
#include "tests/golden/scalar_table.h"
#include "tests/golden/shaw.h"
#include "tests/golden/transformer_xl.h"
#include "tests/oracle/music_transformer.h"
#include "tests/oracle/random.h"
#include "tests/oracle/scalar_table.h"
#include "tests/oracle/shaw.h"
#include "tests/oracle/tolerance.h"
#include "tests/oracle/toy.h"
#include "tests/oracle/transformer_xl.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;

template <std::size_t R, std::size_t C>
void expect_index(const IndexMatrix& got, const int (&want)[R][C]) {
  ASSERT_EQ(got.rows, static_cast<int>(R));
  ASSERT_EQ(got.cols, static_cast<int>(C));
  for (int i = 0; i < got.rows; ++i) {
    for (int j = 0; j < got.cols; ++j) EXPECT_EQ(got(i, j), want[i][j]) << i << " " << j;
  }
}

IndexMatrix square_index(int length, int low, int high, Order order,
                         Outside outside = Outside::kClip) {
  return relative_index(consecutive(length), consecutive(length), low, high, order, outside);
}

TEST(OracleShaw, IndexOfEachVariant) {
  expect_index(square_index(3, 1, 1, Order::kKeyMinusQuery), golden::kShawIndexK1);
  expect_index(square_index(5, 2, 1, Order::kQueryMinusKey), golden::kSpeechT5IndexM2);
  expect_index(square_index(5, 2, 1, Order::kKeyMinusQuery), golden::kWav2Vec2BertIndexL2R1);
  expect_index(square_index(3, 4, 4, Order::kQueryMinusKey), golden::kBertRelativeKeyIndexP5);
  expect_index(square_index(4, 1, 1, Order::kKeyMinusQuery, Outside::kZero),
               golden::kVitsIndexW1);
  const IndexMatrix decode =
      relative_index({3}, consecutive(4), 2, 2, Order::kKeyMinusQuery, Outside::kClip);
  for (int j = 0; j < 4; ++j) EXPECT_EQ(decode(0, j), golden::kShawIndexDecodeK2[j]);
}

Attention shaw_toy(Order order, bool values, bool causal) {
  Attention a = toy();
  a.causal = causal;
  const IndexMatrix index = square_index(3, 1, 1, order);
  a.scaled = query_row_term(a.q, matrix(golden::kShawToyKeyRows), index);
  if (values) {
    a.value_table = matrix(golden::kShawToyValueRows);
    a.value_index = index;
  }
  return a;
}

TEST(OracleShaw, Toy) {
  const AttentionResult both = attention(shaw_toy(Order::kKeyMinusQuery, true, false));
  expect_printed("logits", both.logits.values, matrix(golden::kShawToyLogits).values, kSixDigits,
                 {3, 3});
  expect_printed("weights", both.weights.values, matrix(golden::kShawToyWeights).values,
                 kSixDigits, {3, 3});
  expect_printed("out", both.out.values, matrix(golden::kShawToyOutKeysValues).values, kSixDigits,
                 {3, 2});
  expect_printed("keys only", attention(shaw_toy(Order::kKeyMinusQuery, false, false)).out.values,
                 matrix(golden::kShawToyOutKeys).values, kSixDigits, {3, 2});
  expect_printed("causal", attention(shaw_toy(Order::kKeyMinusQuery, true, true)).out.values,
                 matrix(golden::kShawToyOutCausalKeysValues).values, kSixDigits, {3, 2});
  expect_printed("order i - j",
                 attention(shaw_toy(Order::kQueryMinusKey, false, false)).logits.values,
                 matrix(golden::kShawToyLogitsQueryMinusKey).values, kSixDigits, {3, 3});
}

TEST(OracleScalarTable, Toy) {
  Attention a = toy();
  a.unscaled = scalar_table_bias(numbers(golden::kScalarToyTable), 1, Order::kKeyMinusQuery,
                                 consecutive(3), consecutive(3));
  EXPECT_EQ(a.unscaled.values, matrix(golden::kScalarToyBias).values);
  const AttentionResult r = attention(a);
  expect_printed("weights", r.weights.values, matrix(golden::kScalarToyWeights).values, kSixDigits,
                 {3, 3});
  expect_printed("out", r.out.values, matrix(golden::kScalarToyOut).values, kSixDigits, {3, 2});
  expect_index(square_index(3, 1, 1, Order::kKeyMinusQuery), golden::kScalarIndexK1);
}

TEST(OracleMusicTransformer, Skew) {
  EXPECT_EQ(skew(matrix(golden::kSkew3In)).values, matrix(golden::kSkew3Out).values);
  Matrix sixteen(4, 4);
  for (int n = 0; n < 16; ++n) sixteen.values[static_cast<std::size_t>(n)] = n + 1;
  EXPECT_EQ(skew(sixteen).values, matrix(golden::kSkew4Out).values);
}

TEST(OracleMusicTransformer, Toy) {
  Attention a = causal_toy();
  a.scaled = music_by_skew(a.q, matrix(golden::kMusicToyRows));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j <= i; ++j) EXPECT_EQ(a.scaled(i, j), golden::kMusicToySrel[i][j]);
  }
  const AttentionResult r = attention(a);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j <= i; ++j) {
      EXPECT_NEAR(r.logits(i, j), golden::kMusicToyLogits[i][j], kSixDigits);
    }
  }
  expect_printed("weights", r.weights.values, matrix(golden::kMusicToyWeights).values, kSixDigits,
                 {3, 3});
  expect_printed("out", r.out.values, matrix(golden::kMusicToyOut).values, kSixDigits, {3, 2});
}

TEST(OracleMusicTransformer, DistancesAgreeWithTheSkew) {
  Rng rng(1);
  for (int length : {1, 2, 5, 9}) {
    for (int rows : {1, 2, 5, 12}) {
      const Matrix q = random_matrix(rng, length, 3);
      const Matrix table = random_matrix(rng, rows, 3);
      const Matrix by_skew = music_by_skew(q, table);
      const Matrix by_distance =
          music_by_distance(q, table, consecutive(length), consecutive(length));
      for (int i = 0; i < length; ++i) {
        for (int j = 0; j <= i; ++j) EXPECT_EQ(by_skew(i, j), by_distance(i, j));
      }
    }
  }
  // A table of two rows: distances 0 and 1 only.
  Matrix table = matrix({{1.}, {2.}});
  Matrix q(4, 1);
  q.values.assign(4, 1.0);
  const Matrix s = music_by_skew(q, table);
  for (int back = 0; back < 4; ++back) {
    const int row = golden::kMusicRowP2[back];
    EXPECT_EQ(s(3, 3 - back), row < 0 ? 0.0 : table(row, 0));
  }
}

Matrix counted(int rows, int cols) {
  Matrix result(rows, cols);
  for (std::size_t n = 0; n < result.values.size(); ++n) {
    result.values[n] = static_cast<double>(n + 1);
  }
  return result;
}

TEST(OracleTransformerXl, RelShift) {
  EXPECT_EQ(rel_shift(counted(2, 4)).values, matrix(golden::kRelShift2x4).values);
  EXPECT_EQ(rel_shift(counted(3, 4)).values, matrix(golden::kRelShift3x4).values);
  EXPECT_EQ(rel_shift(counted(3, 3)).values, matrix(golden::kRelShift3x3).values);
}

// The same row of distances under every query.
Matrix repeated(const Positions& distances, int rows) {
  Matrix result(rows, static_cast<int>(distances.size()));
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < result.cols; ++c) {
      result(r, c) = static_cast<double>(distances[static_cast<std::size_t>(c)]);
    }
  }
  return result;
}

TEST(OracleTransformerXl, DistancesAfterTheShift) {
  const Matrix xl = rel_shift(repeated(descending(3, 0), 2));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 4; ++j) {
      if (golden::kXlDistances2x4[i][j] != golden::kGarbage) {
        EXPECT_EQ(xl(i, j), golden::kXlDistances2x4[i][j]);
      }
    }
  }
  const Matrix wide = rel_shift(repeated(descending(4, 0), 3));
  for (int j = 0; j < 3; ++j) EXPECT_EQ(wide(0, j), golden::kXlDistances3x5Row0[j]);
  EXPECT_EQ(xlnet_shift(repeated(descending(4, -1), 2), 4).values,
            matrix(golden::kXlnetDistances2x4).values);
  EXPECT_EQ(conformer_shift(repeated(descending(2, -2), 3)).values,
            matrix(golden::kConformerDistances3).values);
}

TEST(OracleTransformerXl, FourTerms) {
  const Matrix r = sinusoidal(consecutive(5), 4, 10000, SinusoidalLayout::kConcatenated);
  expect_printed("R", r.values, matrix(golden::kXlSinusoids4).values, kSixDigits, {5, 4});

  Matrix identity(4, 4);
  for (int c = 0; c < 4; ++c) identity(c, c) = 1;
  Attention a;
  a.q = matrix(golden::kXlQ);
  a.k = matrix(golden::kXlK);
  a.v = Matrix(3, 3);
  for (int c = 0; c < 3; ++c) a.v(c, c) = 1;
  a.scale = 0.5;
  a.causal = true;
  a.scaled_keys = xl_key_numbers(a.k, numbers(golden::kXlU));
  a.scaled = xl_position_by_shift(a.q, numbers(golden::kXlV), identity, 3, -1);
  const Matrix clamped = xl_position_by_shift(a.q, numbers(golden::kXlV), identity, 3, 1);
  const AttentionResult result = attention(a);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j <= i + 1; ++j) {
      EXPECT_NEAR(dot_rows(a.q, i, a.k, j) + a.scaled_keys[static_cast<std::size_t>(j)],
                  golden::kXlContent[i][j], kSixDigits);
      EXPECT_NEAR(a.scaled(i, j), golden::kXlPosition[i][j], kSixDigits);
      EXPECT_NEAR(clamped(i, j), golden::kXlPositionClamp1[i][j], kSixDigits);
      EXPECT_NEAR(result.logits(i, j), golden::kXlScores[i][j], kSixDigits);
    }
  }
  expect_printed("weights", result.weights.values, matrix(golden::kXlWeights).values, kSixDigits,
                 {2, 3});
}

TEST(OracleTransformerXl, FormulaFromDistancesAgreesWithEveryShift) {
  Rng rng(3);
  for (int past : {0, 1, 4}) {
    for (std::int64_t clamp : {-1, 2}) {
      const int lq = 4;
      const int lk = lq + past;
      const Matrix q = random_matrix(rng, lq, 3);
      const Matrix w_r = random_matrix(rng, 3, 6);
      const std::vector<double> v = random_numbers(rng, 3);
      const Positions queries = consecutive(lq, past);
      const Positions keys = consecutive(lk);
      const auto layout_b = SinusoidalLayout::kConcatenated;
      const Matrix xl = xl_position_term(q, v, w_r, queries, keys, clamp, false, layout_b);
      const Matrix shifted = xl_position_by_shift(q, v, w_r, lk, clamp);
      const Matrix xlnet = xl_position_term(q, v, w_r, queries, keys, clamp, true, layout_b);
      const Matrix xlnet_shifted = xlnet_position_by_shift(q, v, w_r, lk, clamp);
      for (int i = 0; i < lq; ++i) {
        for (int j = 0; j < lk; ++j) {
          if (j <= i + past) {
            EXPECT_NEAR(xl(i, j), shifted(i, j), 1e-13);
          }
          EXPECT_NEAR(xlnet(i, j), xlnet_shifted(i, j), 1e-13);
        }
      }
      if (past == 0 && clamp < 0) {
        const Matrix conformer = xl_position_term(q, v, w_r, queries, keys, -1, false,
                                                  SinusoidalLayout::kAlternating);
        const Matrix conformer_shifted = conformer_position_by_shift(q, v, w_r);
        for (int i = 0; i < lq; ++i) {
          for (int j = 0; j < lk; ++j) EXPECT_NEAR(conformer(i, j), conformer_shifted(i, j), 1e-13);
        }
      }
    }
  }
}

}  // namespace
}  // namespace locant::oracle
