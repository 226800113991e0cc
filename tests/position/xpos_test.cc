// xPos: the five questions in order, then the public bugs.
#include "locant/position/xpos.h"

#include "tests/golden/toy.h"
#include "tests/golden/xpos.h"
#include "tests/oracle/xpos.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;

Rotation rotation_of(const std::string& text, int64_t head_size, int64_t length = 1024) {
  return lower(*make_scheme(text), probe::square_call(length, true, 1, head_size), {})
      .rotation.value();
}
const std::vector<double> kX{1, 2, 3, 4, 5, 6, 7, 8};

double score(const Rotation& rotation, int64_t i, int64_t j) {
  return probe::dot(probe::turned(rotation, kX, i, +1), probe::turned(rotation, kX, j, -1));
}

// 1. Nothing for embeddings.
TEST(Xpos, AddsNothingToEmbeddings) { EXPECT_FALSE(Xpos().embeds()); }

// 2. How do I turn a query and a key?
TEST(Xpos, ScalesAsPublished) {
  const auto rotation = rotation_of("xpos", 8);
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_NEAR(std::exp(512 * rotation.log_growth[t]), golden::kXposZeta[t], golden::kSixDigits);
    EXPECT_NEAR(std::exp(64 * rotation.log_growth[t]), golden::kXposFactorAt64[t],
                golden::kSixDigits);
    for (size_t n = 0; n < 4; ++n) {
      EXPECT_NEAR(std::exp(golden::kXposScalePositions[n] * rotation.log_growth[t]),
                  golden::kXposScales[n][t], golden::kSixDigits);
    }
  }
}

TEST(Xpos, TurnsAsPublished) {
  const auto rotation = rotation_of("xpos(center=0)", 8);
  probe::expect_row(probe::turned(rotation, kX, 10, +1), golden::kXposQuery10, golden::kSixDigits);
  EXPECT_NEAR(score(rotation, 10, 3), golden::kXposDot10And3, golden::kSixDigits);
  EXPECT_NEAR(score(rotation, 3, 10), golden::kXposDot3And10, golden::kSixDigits);
}

TEST(Xpos, EqualsTheFormula) {
  Random random(4);
  oracle::Matrix x(3, 12);
  for (double& value : x.values) value = random.normal();
  const oracle::Positions positions{0, 5, 700};
  for (const bool interleaved : {true, false}) {
    const auto rotation =
        rotation_of(std::string("xpos(base=500,scale_base=300,gamma=0.6,center=0,layout=") +
                        (interleaved ? "interleaved)" : "half-split)"),
                    12);
    const auto layout =
        interleaved ? oracle::RopeLayout::kInterleaved : oracle::RopeLayout::kHalfSplit;
    for (int sign : {+1, -1}) {
      const auto expected = oracle::xpos(x, positions, sign, 500, 300, 0.6, layout);
      const auto got = probe::turned(rotation, x, positions, sign);
      for (size_t n = 0; n < got.values.size(); ++n) {
        EXPECT_NEAR(got.values[n], expected.values[n], 1e-12 * (1 + std::fabs(expected.values[n])));
      }
    }
  }
}

// The center is only for the range of numbers.
TEST(Xpos, TheCenterDoesNotChangeScores) {
  const double expected = score(rotation_of("xpos(center=0)", 8), 900, 100);
  for (int64_t center : {1, 100, 512, 5000}) {
    const auto rotation = rotation_of("xpos(center=" + std::to_string(center) + ")", 8);
    EXPECT_EQ(rotation.center, center);
    EXPECT_NEAR(score(rotation, 900, 100), expected, 1e-11 * std::fabs(expected));
  }
  EXPECT_EQ(rotation_of("xpos", 8, 1000).center, 500);
}

// 3. 4. Nothing more for scores and values. 5. Nothing is learned.
TEST(Xpos, AddsNothingElse) {
  const auto terms = lower(Xpos(), probe::square_call(4, true, 1, 8), {});
  EXPECT_FALSE(terms.number || terms.query_rows || terms.key_rows || terms.value_rows ||
               terms.content_bias);
  EXPECT_TRUE(Xpos().learn({}).empty());
}

TEST(Xpos, RefusesWhatItCannotTurn) {
  EXPECT_SAYS(message_of([] { rotation_of("xpos", 7); }),
              "head size must be even and 2 or more, got 7");
  const std::string said = message_of([] { rotation_of("xpos", 8, 1000000); });
  EXPECT_SAYS(said, "scales of positions 0 to 999999 around 500000 leave single precision");
  // The longest sequence that passes has scales that a float can hold, on both sides.
  int64_t longest = 1, refused = 1000000;
  while (refused - longest > 1) {
    const int64_t middle = (longest + refused) / 2;
    const bool passes =
        message_of([&] { rotation_of("xpos", 64, middle); }) == "nothing was thrown";
    (passes ? longest : refused) = middle;
  }
  EXPECT_GT(longest, 65536);
  const auto rotation = rotation_of("xpos", 64, longest);
  for (int64_t p : {int64_t{0}, longest - 1}) {
    const double scale =
        std::exp(static_cast<double>(p - rotation.center) * rotation.log_growth[0]);
    EXPECT_TRUE(std::isnormal(static_cast<float>(scale))) << longest;
    EXPECT_TRUE(std::isnormal(static_cast<float>(1 / scale))) << longest;
  }
}

// A cached step scales by absolute positions: shifting both by anything leaves the score alone.
TEST(Xpos, D51_ScalesComeFromAbsolutePositions) {
  for (int64_t length : {108, 1024, 4096}) {
    const auto rotation = rotation_of("xpos", 8, length);
    EXPECT_NEAR(score(rotation, 10, 3), golden::kXposDot10And3, golden::kSixDigits);
    EXPECT_NEAR(score(rotation, 107, 100), golden::kXposDot10And3, golden::kSixDigits);
    for (int64_t shift = 0; shift + 10 < length; shift += 37) {
      EXPECT_NEAR(score(rotation, 10 + shift, 3 + shift), score(rotation, 10, 3), 1e-9);
    }
  }
}

}  // namespace
}  // namespace locant
