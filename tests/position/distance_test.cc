// Index maps against the released roundings, the oracle's own big numbers, and each other.
#include "locant/position/distance.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "tests/golden/deberta.h"
#include "tests/golden/shaw.h"
#include "tests/golden/t5.h"
#include "tests/oracle/deberta.h"
#include "tests/oracle/shaw.h"
#include "tests/oracle/t5.h"

namespace locant {
namespace {

constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;

template <size_t Q, size_t K>
void expect_matrix(const IndexMap& map, const int (&rows)[Q][K]) {
  for (size_t i = 0; i < Q; ++i) {
    for (size_t j = 0; j < K; ++j) {
      EXPECT_EQ(map(static_cast<int64_t>(j) - static_cast<int64_t>(i)), rows[i][j])
          << "query " << i << ", key " << j;
    }
  }
}

TEST(Distance, ClipAndWindowGiveThePublishedRows) {
  expect_matrix(clip_map(1, 1), golden::kShawIndexK1);
  expect_matrix(clip_map(1, 2, Order::kQueryMinusKey), golden::kSpeechT5IndexM2);
  expect_matrix(clip_map(2, 1), golden::kWav2Vec2BertIndexL2R1);
  expect_matrix(window_map(4, 4, Order::kQueryMinusKey), golden::kBertRelativeKeyIndexP5);
  expect_matrix(window_map(1, 1), golden::kVitsIndexW1);
}

TEST(Distance, MapsAreConstantBeyondTheirEnds) {
  const IndexMap clip = clip_map(3, 5);
  EXPECT_EQ(clip(-3), 0);
  EXPECT_EQ(clip(-kFar), 0);
  EXPECT_EQ(clip(5), 8);
  EXPECT_EQ(clip(kFar), 8);
  const IndexMap window = window_map(3, 5);
  EXPECT_EQ(window(-4), kNoRow);
  EXPECT_EQ(window(6), kNoRow);
  EXPECT_EQ(window(kFar), kNoRow);
  const IndexMap t5 = t5_map(32, 128, true);
  EXPECT_EQ(t5(-kFar), 15);
  EXPECT_EQ(t5(kFar), 31);
  EXPECT_EQ(t5_map(32, 128, false)(kFar), 0);
}

TEST(Distance, OrderMirrorsTheRows) {
  for (const auto& [left, right] : {std::pair{0, 0}, {2, 2}, {5, 1}, {0, 7}}) {
    for (const bool clip : {true, false}) {
      const auto make = clip ? clip_map : window_map;
      const IndexMap forward = make(left, right, Order::kKeyMinusQuery);
      const IndexMap backward = make(left, right, Order::kQueryMinusKey);
      const IndexMap mirror = mirrored(make(right, left, Order::kKeyMinusQuery));
      for (int64_t d = -12; d <= 12; ++d) {
        const int32_t row = forward(d);
        EXPECT_EQ(backward(d), row == kNoRow ? kNoRow : left + right - row) << d;
        EXPECT_EQ(backward(d), mirror(d)) << d;
        EXPECT_EQ(mirrored(mirror)(d), mirror(-d)) << d;
      }
    }
  }
}

TEST(Distance, ReachKeepsEveryRowInReach) {
  const IndexMap maps[] = {clip_map(3, 5),       window_map(2, 4),        t5_map(8, 16, true),
                           t5_map(8, 16, false), deberta_v1_map(4),       deberta_v2_map(8, 16),
                           window_map(0, 0),     mirrored(clip_map(7, 0))};
  for (const IndexMap& map : maps) {
    for (int64_t first = -20; first <= 20; ++first) {
      for (int64_t last = first; last <= 20; ++last) {
        const Reach part = reach(map, first, last);
        bool low = false, high = false;
        for (int64_t d = first; d <= last; ++d) {
          const int32_t row = part.map(d);
          if (map(d) == kNoRow) {
            EXPECT_EQ(row, kNoRow);
            continue;
          }
          ASSERT_GE(row, 0);
          ASSERT_LT(row, part.rows);
          EXPECT_EQ(row + part.map.first_row, map(d)) << first << ".." << last << " at " << d;
          low = low || row == 0;
          high = high || row == part.rows - 1;
        }
        EXPECT_TRUE(part.rows == 1 || (low && high)) << "no more rows than are reached";
      }
    }
  }
}

TEST(Distance, T5GoldenBuckets) {
  const IndexMap bi = t5_map(32, 128, true);
  const IndexMap uni = t5_map(32, 128, false);
  for (const auto& c : golden::kT5Bi32) EXPECT_EQ(bi(c.distance), c.bucket) << c.distance;
  for (const auto& c : golden::kT5Uni32) EXPECT_EQ(uni(c.distance), c.bucket) << c.distance;
  expect_matrix(t5_map(12, 10, true), golden::kT5Bi12Max10);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(t5_map(12, 10, false)(-i), golden::kT5Uni12Max10Column0[i]);
    EXPECT_EQ(t5_map(12, 10, false)(i), 0);
  }
}

// The starts of the logarithmic buckets, all of them.
TEST(Distance, T5BucketRanges) {
  const auto expect_starts = [](const std::vector<int64_t>& starts, int first, auto& golden) {
    for (int b = 0; b < first; ++b) EXPECT_EQ(starts.at(static_cast<size_t>(b)), b);
    for (size_t n = 0; n < std::size(golden); ++n) {
      EXPECT_EQ(starts.at(static_cast<size_t>(first) + n), golden[n]);
    }
    EXPECT_EQ(starts.size(), static_cast<size_t>(first) + std::size(golden));
  };
  for (const BucketRounding rounding : {BucketRounding::kExact, BucketRounding::kFloat32}) {
    expect_starts(t5_starts(16, 128, rounding), golden::kT5FirstLogBucketBi32,
                  golden::kT5StartsBi32);
    expect_starts(t5_starts(32, 128, rounding), golden::kT5FirstLogBucketUni32,
                  golden::kT5StartsUni32);
    expect_starts(t5_starts(16, 128, rounding), golden::kT5FirstLogBucketUni16,
                  golden::kT5StartsUni16);
  }
}

TEST(Distance, T5RoundingTable) {
  for (const auto& c : golden::kT5Rounding) {
    EXPECT_EQ(t5_map(c.buckets, c.max_distance, c.bidirectional, BucketRounding::kFloat32)(-c.n),
              c.torch_float32)
        << c.buckets << " buckets, distance " << c.n;
    EXPECT_EQ(t5_map(c.buckets, c.max_distance, c.bidirectional)(-c.n), c.exact)
        << c.buckets << " buckets, distance " << c.n;
  }
  for (const auto& [buckets, max_distance] : golden::kT5AllAgree) {
    for (const bool bidirectional : {true, false}) {
      const IndexMap exact = t5_map(buckets, max_distance, bidirectional);
      const IndexMap rounded =
          t5_map(buckets, max_distance, bidirectional, BucketRounding::kFloat32);
      for (int64_t d = -4 * max_distance; d <= 4 * max_distance; ++d) {
        ASSERT_EQ(exact(d), rounded(d)) << buckets << "/" << max_distance << " at " << d;
      }
    }
  }
}

TEST(Distance, T5AgreesWithTheOracleForAnyCounts) {
  for (int buckets = 4; buckets <= 67; buckets += 7) {
    for (const bool bidirectional : {true, false}) {
      const int exact_buckets = (bidirectional ? buckets / 2 : buckets) / 2;
      for (const int more : {1, 2, 7, 64}) {
        const int max_distance = exact_buckets + more;
        const IndexMap exact = t5_map(buckets, max_distance, bidirectional);
        const IndexMap rounded =
            t5_map(buckets, max_distance, bidirectional, BucketRounding::kFloat32);
        for (int64_t d = -2 * max_distance; d <= 2 * max_distance; ++d) {
          ASSERT_EQ(exact(d), oracle::t5_bucket(d, buckets, max_distance, bidirectional,
                                                oracle::T5Rule::kExact))
              << buckets << "/" << max_distance << " at " << d;
          ASSERT_EQ(rounded(d), oracle::t5_bucket(d, buckets, max_distance, bidirectional,
                                                  oracle::T5Rule::kTorchFloat32))
              << buckets << "/" << max_distance << " at " << d;
        }
      }
    }
  }
}

TEST(Distance, T5RefusesWhatHasNoLogarithm) {
  EXPECT_THROW(t5_map(32, 16, false), std::invalid_argument);
  EXPECT_NO_THROW(t5_map(32, 17, false));
  EXPECT_THROW(t5_map(32, 8, true), std::invalid_argument);
  EXPECT_THROW(t5_map(1, 128, false), std::invalid_argument);
  EXPECT_THROW(t5_map(3, 128, true), std::invalid_argument);
  EXPECT_THROW(window_map(-1, 3), std::invalid_argument);
}

// rel(x) of DeBERTa v2, from the ends of its buckets.
int64_t bucket_of(const std::vector<int64_t>& ends, int64_t x) {
  const int64_t size = x < 0 ? -x : x;
  int64_t b = 0;
  while (b < static_cast<int64_t>(ends.size()) && size > ends[static_cast<size_t>(b)]) ++b;
  return x < 0 ? -b : b;
}

TEST(Distance, DebertaGoldenBuckets) {
  for (const LogRounding rounding :
       {LogRounding::kExact, LogRounding::kTransformers, LogRounding::kMicrosoft}) {
    const std::vector<int64_t> ends = deberta_ends(256, 512, rounding);
    for (const auto& c : golden::kDebertaBuckets256) EXPECT_EQ(bucket_of(ends, c.x), c.value);
    for (int x = 0; x < 16; ++x) {
      EXPECT_EQ(bucket_of(deberta_ends(8, 16, rounding), x), golden::kDebertaBuckets8[x]) << x;
    }
    for (const LogEdge edge : {LogEdge::kTransformers, LogEdge::kMicrosoft}) {
      const IndexMap map = deberta_v2_map(256, 512, rounding, edge);
      for (const auto& c : golden::kDebertaRows256) EXPECT_EQ(map(-c.x), c.value) << c.x;
      for (const int64_t x : {int64_t{511}, int64_t{512}, int64_t{5000}, kFar}) {
        EXPECT_EQ(map(-x), golden::kDebertaFarRightRow);
      }
      for (const int64_t x : {int64_t{512}, int64_t{5000}, kFar}) {
        EXPECT_EQ(map(x), edge == LogEdge::kMicrosoft ? golden::kDebertaFarLeftRowMicrosoft
                                                      : golden::kDebertaFarLeftRowTransformers);
      }
    }
  }
  for (const auto& c : golden::kDebertaV1Rows4) EXPECT_EQ(deberta_v1_map(4)(-c.x), c.value) << c.x;
}

TEST(Distance, DebertaRoundingTable) {
  for (const auto& c : golden::kDebertaRounding) {
    EXPECT_EQ(bucket_of(deberta_ends(c.buckets, c.max_position, LogRounding::kTransformers), c.x),
              c.transformers);
    EXPECT_EQ(bucket_of(deberta_ends(c.buckets, c.max_position, LogRounding::kMicrosoft), c.x),
              c.microsoft);
  }
  for (const auto& c : golden::kDebertaFloat64) {
    EXPECT_EQ(bucket_of(deberta_ends(c.buckets, c.max_position), c.x), c.exact);
  }
}

TEST(Distance, DebertaAgreesWithTheOracleForAnyCounts) {
  const std::pair<LogRounding, oracle::DebertaRule> rules[] = {
      {LogRounding::kExact, oracle::DebertaRule::kExact},
      {LogRounding::kTransformers, oracle::DebertaRule::kTransformers},
      {LogRounding::kMicrosoft, oracle::DebertaRule::kMicrosoft}};
  for (int span = 4; span <= 52; span += 12) {
    for (const int more : {2, 3, 9, 40}) {
      const int max_position = span / 2 + more;
      for (const auto& [rounding, rule] : rules) {
        for (const LogEdge edge : {LogEdge::kTransformers, LogEdge::kMicrosoft}) {
          const oracle::DebertaIndex how{span, true, max_position, edge == LogEdge::kMicrosoft,
                                         rule};
          const IndexMap map = deberta_v2_map(span, max_position, rounding, edge);
          for (int64_t x = -2 * max_position; x <= 2 * max_position; ++x) {
            ASSERT_EQ(map(-x), oracle::deberta_row(x, how))
                << span << "/" << max_position << " at " << x;
          }
        }
      }
    }
  }
}

TEST(Distance, DebertaRefusesWhatHasNoLogarithm) {
  EXPECT_THROW(deberta_v2_map(256, 129), std::invalid_argument);
  EXPECT_NO_THROW(deberta_v2_map(256, 130));
  EXPECT_THROW(deberta_v2_map(7, 130), std::invalid_argument);
  EXPECT_THROW(deberta_v2_map(2, 130), std::invalid_argument);
  EXPECT_THROW(deberta_v1_map(0), std::invalid_argument);
}

}  // namespace
}  // namespace locant
