// KERPLE: the five questions in order.
#include "locant/position/kerple.h"

#include "locant/position/span.h"
#include "tests/golden/kerple.h"
#include "tests/golden/toy.h"
#include "tests/oracle/kerple.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using probe::number_at;
using probe::Store;

// All heads with the same p and a.
Store with(const Scheme& scheme, const Sizes& sizes, double p, double a) {
  return Store(scheme, sizes,
               [&](const ParameterSpec& spec) { return spec.name == "bias_p" ? p : a; });
}
Terms<double> terms_of(const std::string& text, const Call& call, double p, double a) {
  const auto scheme = make_scheme(text);
  return lower(*scheme, call, with(*scheme, call.sizes, p, a).views());
}
const std::string kLog = "kerple", kPower = "kerple(variant=power)";

// 1. 2. Nothing for embeddings, queries and keys.
TEST(Kerple, TurnsNothing) {
  EXPECT_FALSE(Kerple().embeds());
  EXPECT_FALSE(terms_of(kLog, probe::square_call(4, true), 1, 1).rotation);
}

// 3. What do I add to a score, and before or after the scale?
TEST(Kerple, PublishedNumbers) {
  const Call call = probe::square_call(101, true);
  const auto log11 = terms_of(kLog, call, 1, 1), log2 = terms_of(kLog, call, 2, .5),
             power = terms_of(kPower, call, .5, .5);
  for (size_t n = 0; n < 6; ++n) {
    const int64_t distance = -golden::kKerpleDistances[n];
    EXPECT_NEAR(number_at(log11, 0, distance), golden::kKerpleLogP1A1[n], golden::kSixDigits);
    EXPECT_NEAR(number_at(log2, 0, distance), golden::kKerpleLogP2Ahalf[n], golden::kSixDigits);
    EXPECT_NEAR(number_at(power, 0, distance), golden::kKerplePowerAhalfPhalf[n],
                golden::kSixDigits);
  }
  EXPECT_FALSE(log11.number->scaled);
}

TEST(Kerple, TheToyProblem) {
  oracle::Attention a;
  a.q = oracle::matrix(golden::kToyQ);
  a.k = oracle::matrix(golden::kToyK);
  a.v = oracle::matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  a.causal = true;
  const auto result = probe::attend(terms_of(kLog, probe::square_call(3, true), 1, 1), a);
  probe::expect_matrix(result.weights, golden::kKerpleToyWeights, golden::kSixDigits);
}

TEST(Kerple, EqualsTheFormulaOverAnySpan) {
  struct Span {
    int64_t first, last;
    bool causal;
  };
  for (const Span& span : {Span{-7, 7, false}, Span{-7, 3, true}, Span{-1000, -990, true},
                           Span{3, 9, false}, Span{-2, 40, false}, Span{0, 0, true}}) {
    Call call = probe::square_call(8, span.causal);
    call.first_distance = span.first;
    call.last_distance = span.last;
    for (const auto form : {oracle::KerpleForm::kLog, oracle::KerpleForm::kPower}) {
      const auto terms = terms_of(form == oracle::KerpleForm::kLog ? kLog : kPower, call, 1.3, .7);
      const int64_t last = span.causal ? std::min<int64_t>(span.last, 0) : span.last;
      for (int64_t distance = span.first; distance <= last; ++distance) {
        EXPECT_NEAR(number_at(terms, 0, distance),
                    oracle::kerple(form, 1.3, .7, std::fabs(static_cast<double>(distance))), 1e-12);
      }
      const int64_t rows = terms.number->table.rows;
      EXPECT_LE(rows, last - span.first + 1) << "no row that no pair reaches";
    }
  }
}

TEST(Kerple, AlibiIsPowerOne) {
  const auto terms = terms_of(kPower, probe::square_call(50, true), 1, .25);
  for (int64_t n = 0; n < 50; ++n) EXPECT_DOUBLE_EQ(number_at(terms, 0, -n), -.25 * n);
}

TEST(Kerple, ParametersAreHeldToTheirBounds) {
  const Call call = probe::square_call(5, true);
  const auto expect_same = [&](const std::string& text, double p, double a, double held_p,
                               double held_a) {
    EXPECT_EQ(terms_of(text, call, p, a).number->table.data,
              terms_of(text, call, held_p, held_a).number->table.data);
  };
  expect_same(kLog, .001, -3, .01, .01);
  expect_same(kPower, 5, 0, 2, .01);
  EXPECT_NE(terms_of(kLog, call, 5, 1).number->table.data,
            terms_of(kLog, call, 2, 1).number->table.data)
      << "log has no upper bound";
}

TEST(Kerple, SpanTooLarge) {
  Call call = probe::square_call(4, true);
  call.first_distance = -kLargestSpan;
  EXPECT_SAYS(message_of([&] { terms_of(kLog, call, 1, 1); }),
              "[kerple] the positions of a call may span 16777216 distances, got 16777217 "
              "(-16777216 to 0)");
}

// 4. Nothing for values.
TEST(Kerple, AddsNothingElse) {
  const auto terms = terms_of(kLog, probe::square_call(4, true), 1, 1);
  EXPECT_FALSE(terms.query_rows || terms.key_rows || terms.value_rows || terms.content_bias);
}

// 5. Two numbers a head.
TEST(Kerple, LearnsTwoNumbersForEachHead) {
  Sizes sizes;
  sizes.heads = 6;
  sizes.layers = 4;
  const auto specs = Kerple().learn(sizes);
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].name, "bias_p");
  EXPECT_EQ(specs[1].name, "bias_a");
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{6, 1, 1}));
  EXPECT_EQ(specs[0].high, 2);
  EXPECT_EQ(specs[1].high, 1);
  EXPECT_EQ(parameter_count(Kerple(), sizes), 12);
  EXPECT_EQ(parameter_count(*make_scheme("kerple(layers=each)"), sizes), 48);
}

TEST(Kerple, Gradients) {
  for (const std::string& text : {kLog, kPower}) {
    for (const bool causal : {true, false}) {
      for (const bool sharded : {false, true}) {
        const auto scheme = make_scheme(text);
        Call call = probe::square_call(6, causal, 4);
        if (sharded) call.first_head = 1, call.heads = 2;
        Random random(10);
        Store store(*scheme, call.sizes,
                    [&](const ParameterSpec&) { return .2 + 1.5 * random.uniform(); });
        probe::expect_gradients(*scheme, call, store);
      }
    }
  }
}

// Beyond a bound the gradient that leads further out is dropped, the one that leads back is kept.
TEST(Kerple, GradientsBeyondTheBounds) {
  const Kerple scheme;
  const Call call = probe::square_call(4, true);
  for (double sign : {+1.0, -1.0}) {
    const auto gradient_at = [&](double p) {
      const Store store = with(scheme, call.sizes, p, 1);
      auto weights = zeros_like(lower(scheme, call, store.views()));
      for (double& w : weights.number->table.data) w = sign;
      Store gradients(scheme, call.sizes);
      auto views = gradients.gradient_views();
      lower_backward(scheme, call, store.views(), weights, views);
      return gradients.arrays["bias_p"][0];
    };
    const double inside = gradient_at(.01), outside = gradient_at(-.5);
    EXPECT_NE(inside, 0);
    EXPECT_EQ(outside, inside < 0 ? inside : 0);
  }
}

}  // namespace
}  // namespace locant
