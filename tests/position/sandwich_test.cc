// Sandwich: the five questions in order.
#include "locant/position/sandwich.h"

#include "tests/golden/sandwich.h"
#include "tests/golden/toy.h"
#include "tests/oracle/sandwich.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using probe::number_at;

Terms<double> terms_of(const std::string& text, const Call& call) {
  return lower(*make_scheme(text), call, {});
}

// 1. 2. Nothing for embeddings, queries and keys.
TEST(Sandwich, TurnsNothing) {
  EXPECT_FALSE(Sandwich().embeds());
  EXPECT_FALSE(terms_of("sandwich", probe::square_call(4, true)).rotation);
}

// 3. What do I add to a score, and before or after the scale?
TEST(Sandwich, PublishedNumbers) {
  const auto terms = terms_of("sandwich", probe::square_call(101, true, 8, 8));
  EXPECT_FALSE(terms.number->scaled);
  for (size_t n = 0; n < 6; ++n) {
    const int64_t distance = -golden::kSandwichDistances8[n];
    const double expected = golden::kSandwich8Head1[n];
    EXPECT_NEAR(number_at(terms, 0, distance), expected, golden::kSixDigits);
    EXPECT_NEAR(number_at(terms, 1, distance), expected / 2, golden::kSixDigits);
    EXPECT_NEAR(number_at(terms, 7, distance), expected / 8, golden::kSixDigits);
  }
  EXPECT_GT(std::fabs(number_at(terms, 0, -1) - golden::kSandwich8WrongExponentAt1), .4);
  const auto wide = terms_of("sandwich(width=128)", probe::square_call(513, true, 12, 8));
  for (size_t n = 0; n < 5; ++n) {
    EXPECT_NEAR(number_at(wide, 0, -golden::kSandwichDistances128[n]), golden::kSandwich128Head1[n],
                golden::kSixDigits);
  }
}

TEST(Sandwich, EqualsTheFormulaForEveryHead) {
  for (const bool causal : {true, false}) {
    Call call = probe::square_call(12, causal, 6, 10);
    call.first_head = 2, call.heads = 3;
    const auto terms = terms_of("sandwich(base=500)", call);
    ASSERT_EQ(terms.number->table.heads, 3);
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t d = -11; d <= (causal ? 0 : 11); ++d) {
        EXPECT_NEAR(number_at(terms, h, d),
                    oracle::sandwich(-d, 10, static_cast<int>(h + 2), 6, 500), 1e-13);
      }
    }
  }
}

TEST(Sandwich, RefusesWhatItCannotServe) {
  EXPECT_SAYS(message_of([] { terms_of("sandwich", probe::square_call(4, true, 1, 7)); }),
              "[sandwich] width must be even and 2 or more, got 7");
  Call call = probe::square_call(4, true);
  call.first_distance = -(int64_t{1} << 27);
  EXPECT_SAYS(message_of([&] { terms_of("sandwich", call); }), "(-134217728 to 0)");
  call.first_head = 1, call.heads = 1;
  EXPECT_SAYS(message_of([&] { terms_of("sandwich", call); }),
              "heads 1 to 1 must be among the model's 1");
}

// 4. Nothing for values. 5. Nothing is learned and there is no end.
TEST(Sandwich, AddsNothingElse) {
  const auto terms = terms_of("sandwich", probe::square_call(4, true));
  EXPECT_FALSE(terms.query_rows || terms.key_rows || terms.value_rows || terms.content_bias);
  EXPECT_TRUE(Sandwich().learn({}).empty());
  EXPECT_EQ(Sandwich().table_length(), -1);
}

}  // namespace
}  // namespace locant
