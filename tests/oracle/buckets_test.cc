// The oracle's T5 and DeBERTa buckets against the golden values.
#include <gtest/gtest.h>

#include "tests/golden/deberta.h"
#include "tests/golden/t5.h"
#include "tests/oracle/deberta.h"
#include "tests/oracle/t5.h"
#include "tests/oracle/tolerance.h"
#include "tests/oracle/toy.h"

namespace locant::oracle {
namespace {

using golden::kSixDigits;

// Buckets of n = 0 ... limit against the list of first distances.
template <std::size_t N>
void expect_starts(int buckets, int max_distance, bool bidirectional, int first_log,
                   const int (&starts)[N]) {
  for (int n = 0; n <= 4 * max_distance + 10; ++n) {
    int want = n;
    if (n >= first_log) {
      want = first_log;
      for (std::size_t b = 1; b < N; ++b) {
        if (n >= starts[b]) want = first_log + static_cast<int>(b);
      }
    }
    EXPECT_EQ(t5_bucket(-n, buckets, max_distance, bidirectional, T5Rule::kExact), want) << n;
    if (bidirectional && n > 0) {
      EXPECT_EQ(t5_bucket(n, buckets, max_distance, true, T5Rule::kExact), want + buckets / 2);
    }
  }
}

TEST(OracleT5, BoundariesOverTheFullRange) {
  expect_starts(32, 128, true, golden::kT5FirstLogBucketBi32, golden::kT5StartsBi32);
  expect_starts(32, 128, false, golden::kT5FirstLogBucketUni32, golden::kT5StartsUni32);
  expect_starts(16, 128, false, golden::kT5FirstLogBucketUni16, golden::kT5StartsUni16);
}

TEST(OracleT5, PickedDistances) {
  for (const golden::T5Case& c : golden::kT5Bi32) {
    EXPECT_EQ(t5_bucket(c.distance, 32, 128, true, T5Rule::kExact), c.bucket) << c.distance;
  }
  for (const golden::T5Case& c : golden::kT5Uni32) {
    EXPECT_EQ(t5_bucket(c.distance, 32, 128, false, T5Rule::kExact), c.bucket) << c.distance;
  }
  const IndexMatrix row = t5_index({19}, consecutive(20), 32, 128, false, T5Rule::kExact);
  for (int j = 0; j < 20; ++j) EXPECT_EQ(row(0, j), golden::kT5Uni32Query19[j]);
}

TEST(OracleT5, TwelveBuckets) {
  const IndexMatrix both = t5_index(consecutive(5), consecutive(7), 12, 10, true, T5Rule::kExact);
  const IndexMatrix left = t5_index(consecutive(5), consecutive(7), 12, 10, false, T5Rule::kExact);
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 7; ++j) {
      EXPECT_EQ(both(i, j), golden::kT5Bi12Max10[i][j]);
      if (j >= i) {
        EXPECT_EQ(left(i, j), 0);
      }
    }
    EXPECT_EQ(left(i, 0), golden::kT5Uni12Max10Column0[i]);
  }
}

TEST(OracleT5, RoundingRulesWhereTheyDiffer) {
  for (const golden::T5Rounding& c : golden::kT5Rounding) {
    const auto bucket = [&](T5Rule rule) {
      return t5_bucket(-c.n, c.buckets, c.max_distance, c.bidirectional, rule);
    };
    EXPECT_EQ(bucket(T5Rule::kTorchFloat32), c.torch_float32) << c.buckets << " " << c.n;
    EXPECT_EQ(bucket(T5Rule::kEpsFloat32), c.eps_float32) << c.buckets << " " << c.n;
    EXPECT_EQ(bucket(T5Rule::kFloat64), c.float64) << c.buckets << " " << c.n;
    EXPECT_EQ(bucket(T5Rule::kExact), c.exact) << c.buckets << " " << c.n;
  }
}

TEST(OracleT5, RoundingRulesWhereTheyAgree) {
  for (const auto& [buckets, max_distance] : golden::kT5AllAgree) {
    for (bool bidirectional : {false, true}) {
      for (int n = 0; n <= 4 * max_distance; ++n) {
        const int exact = t5_bucket(-n, buckets, max_distance, bidirectional, T5Rule::kExact);
        for (T5Rule rule : {T5Rule::kTorchFloat32, T5Rule::kEpsFloat32, T5Rule::kFloat64}) {
          EXPECT_EQ(t5_bucket(-n, buckets, max_distance, bidirectional, rule), exact)
              << buckets << "/" << max_distance << " n " << n << " rule " << static_cast<int>(rule);
        }
      }
    }
  }
}

TEST(OracleT5, Toy) {
  std::vector<double> table;
  for (int b = 0; b < 8; ++b) table.push_back(0.1 * b - 0.3);
  Attention a = toy();
  a.scale = 1;
  const IndexMatrix index = t5_index(consecutive(3), consecutive(3), 8, 16, true, T5Rule::kExact);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(index(i, j), golden::kT5ToyBuckets[i][j]);
  }
  a.unscaled = number_term(table, index);
  const AttentionResult encoder = attention(a);
  expect_printed("weights", encoder.weights.values, matrix(golden::kT5ToyWeights).values,
                 kSixDigits, {3, 3});
  expect_printed("out", encoder.out.values, matrix(golden::kT5ToyOut).values, kSixDigits, {3, 2});
  a.causal = true;
  a.unscaled = number_term(table, t5_index(consecutive(3), consecutive(3), 8, 16, false,
                                           T5Rule::kExact));
  expect_printed("decoder", attention(a).weights.values,
                 matrix(golden::kT5ToyDecoderWeights).values, kSixDigits, {3, 3});
}

const DebertaRule kRules[] = {DebertaRule::kExact, DebertaRule::kTransformers,
                              DebertaRule::kMicrosoft, DebertaRule::kFloat64};

TEST(OracleDeberta, BucketsOf256And8) {
  for (DebertaRule rule : kRules) {
    for (const golden::DebertaCase& c : golden::kDebertaBuckets256) {
      EXPECT_EQ(deberta_log_bucket(c.x, 256, 512, rule), c.value) << c.x;
    }
    for (int x = 0; x < 16; ++x) {
      EXPECT_EQ(deberta_log_bucket(x, 8, 16, rule), golden::kDebertaBuckets8[x]) << x;
    }
    for (const golden::DebertaCase& c : golden::kDebertaLength300) {
      EXPECT_EQ(deberta_log_bucket(c.x, 256, 512, rule), c.value);
    }
  }
  for (int x = 0; x <= 1023; ++x) {  // float32 and exact agree everywhere at 256/512
    EXPECT_EQ(deberta_log_bucket(x, 256, 512, DebertaRule::kTransformers),
              deberta_log_bucket(x, 256, 512, DebertaRule::kExact))
        << x;
  }
}

TEST(OracleDeberta, Rows) {
  DebertaIndex transformers{.span = 256, .log_buckets = true, .max_position = 512};
  DebertaIndex microsoft = transformers;
  microsoft.clamp_first = true;
  for (const golden::DebertaCase& c : golden::kDebertaRows256) {
    EXPECT_EQ(deberta_row(c.x, transformers), c.value);
    EXPECT_EQ(deberta_row(c.x, microsoft), c.value);
  }
  for (int x : {512, 600, 1023}) {
    EXPECT_EQ(deberta_row(-x, transformers), golden::kDebertaFarLeftRowTransformers);
    EXPECT_EQ(deberta_row(-x, microsoft), golden::kDebertaFarLeftRowMicrosoft);
    EXPECT_EQ(deberta_row(x, transformers), golden::kDebertaFarRightRow);
    EXPECT_EQ(deberta_row(x, microsoft), golden::kDebertaFarRightRow);
  }
  for (const golden::DebertaCase& c : golden::kDebertaV1Rows4) {
    EXPECT_EQ(deberta_row(c.x, DebertaIndex{.span = 4}), c.value) << c.x;
  }
}

TEST(OracleDeberta, RoundingRulesWhereTheyDiffer) {
  for (const golden::DebertaRounding& c : golden::kDebertaRounding) {
    EXPECT_EQ(deberta_log_bucket(c.x, c.buckets, c.max_position, DebertaRule::kTransformers),
              c.transformers) << c.buckets << " " << c.x;
    EXPECT_EQ(deberta_log_bucket(c.x, c.buckets, c.max_position, DebertaRule::kMicrosoft),
              c.microsoft) << c.buckets << " " << c.x;
    EXPECT_EQ(deberta_log_bucket(c.x, c.buckets, c.max_position, DebertaRule::kExact),
              c.transformers) << c.buckets << " " << c.x;
  }
  for (const golden::DebertaFloat64& c : golden::kDebertaFloat64) {
    EXPECT_EQ(deberta_log_bucket(c.x, c.buckets, c.max_position, DebertaRule::kFloat64), c.float64)
        << c.buckets << " " << c.x;
    EXPECT_EQ(deberta_log_bucket(c.x, c.buckets, c.max_position, DebertaRule::kExact), c.exact)
        << c.buckets << " " << c.x;
  }
}

TEST(OracleDeberta, Toy) {
  const DebertaIndex how{.span = 2};
  const Positions p = consecutive(3);
  const IndexMatrix delta = deberta_index(p, p, how);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(delta(i, j), golden::kDebertaToyDelta[i][j]);
  }
  Attention a = toy();
  const Matrix c2p = deberta_c2p(a.q, matrix(golden::kDebertaToyKr), p, p, how);
  const Matrix p2c = deberta_p2c(a.k, matrix(golden::kDebertaToyQr), p, p, how);
  const Matrix paper = deberta_p2c(a.k, matrix(golden::kDebertaToyQr), p, p, how, true);
  expect_printed("c2p", c2p.values, matrix(golden::kDebertaToyC2p).values, 1e-15, {3, 3});
  expect_printed("p2c", p2c.values, matrix(golden::kDebertaToyP2c).values, 1e-15, {3, 3});
  expect_printed("p2c paper", paper.values, matrix(golden::kDebertaToyP2cPaper).values, 1e-15,
                 {3, 3});
  a.scale = deberta_scale(2, 2);
  a.scaled = sum(c2p, p2c);
  expect_printed("scores", attention(a).logits.values, matrix(golden::kDebertaToyScores).values,
                 kSixDigits, {3, 3});
}

}  // namespace
}  // namespace locant::oracle
