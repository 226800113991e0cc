// In which order things are done: scale, softcap, biases, mask.
// On every engine; ids are those of tests/bugs.md.
#include <gtest/gtest.h>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"
#include "tests/golden/alibi.h"
#include "tests/golden/deberta.h"
#include "tests/golden/masking.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(OrderOfOperations);

TEST_P(OrderOfOperations, D36_TheScaleIsNotAppliedToUnscaledBiases) {
  Call<double> call = with_unit_values(causal_toy());
  call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
  oracle::expect_printed("outside", run(call).out, flat(golden::kAlibiToyWeights),
                         GetParam().printed());
  call.terms.number->scaled = true;  // Falcon
  oracle::expect_printed("inside", run(call).out, flat(golden::kAlibiToyWeightsScaled),
                         GetParam().printed());
}

TEST_P(OrderOfOperations, D36_NumbersPerKeyAreOutsideTheScale) {
  Call<double> call = scores_are(1, {0, 0});
  call.options.scale = 0.25;
  call.key_batches = call.key_heads = 1;
  call.key_numbers = {0, std::log(3.0)};
  const Results<double> got = run(call);
  EXPECT_NEAR(got.out[0], 0.25, 4 * GetParam().eps());
  EXPECT_NEAR(got.out[1], 0.75, 4 * GetParam().eps());
}

TEST_P(OrderOfOperations, D37_TheScaleOfTheCallIsUsed) {
  for (unsigned terms : kSingleTerms) {
    Call<double> call = rounded(random_call(11, terms));
    for (double scale : {1.0, 1 / (std::sqrt(double(call.shape.d)) * 4), 0.0, -0.5}) {
      call.options.scale = scale;
      SCOPED_TRACE(call.text() + " scale " + std::to_string(scale));
      expect_like_twin(call, run(call), GetParam().eps());
    }
    call.options.scale.reset();
    Call<double> same = call;
    same.options.scale = 1 / std::sqrt(double(call.shape.d));
    EXPECT_EQ(run(call).out, run(same).out) << "the default is 1/sqrt(D)";
  }
}

TEST_P(OrderOfOperations, D37_ScaleFactorMultipliesTheScale) {
  Call<double> call = scores_are(1, {0, std::log(3.0) * 2});
  call.terms.scale_factor = 0.5;
  EXPECT_NEAR(run(call).out[1], 0.75, 8 * GetParam().eps());
}

TEST_P(OrderOfOperations, D54_SoftcapComesBeforeBiasAndMask) {
  const std::vector<double> logits(golden::kSoftcapLogits, golden::kSoftcapLogits + 3);
  Call<double> call = scores_are(1, logits);
  call.options.softcap = 2;
  call.key_batches = call.key_heads = 1;
  call.key_numbers = {0, 0, -std::numeric_limits<double>::infinity()};
  oracle::expect_printed("weights", run(call).out,
                         oracle::numbers(golden::kSoftcapWeightsLastMasked), GetParam().printed());
  // The same by the causal mask: queries at 1.
  call.key_batches = 0;
  call.key_numbers.clear();
  call.options.causal = true;
  call.q_positions = {1};
  call.k_positions = {0, 1, 2};
  oracle::expect_printed("causal", run(call).out,
                         oracle::numbers(golden::kSoftcapWeightsLastMasked), GetParam().printed());
}

TEST_P(OrderOfOperations, D54_UnscaledTermsAreNotCapped) {
  Call<double> call = scores_are(1, {5, 0});
  call.options.softcap = 1;
  call.terms.number = number(false, {0, {0, 1}, kNoRow, kNoRow}, {0, 30});
  call.q_positions = {0};
  call.k_positions = {0, 1};
  // Capped: tanh(5) against 0; then 30 is added to the second, far above any cap.
  EXPECT_NEAR(run(call).lse[0], 30 + std::log1p(std::exp(std::tanh(5) - 30)),
              64 * GetParam().eps());
  call.terms.number->scaled = true;
  EXPECT_NEAR(run(call).lse[0], std::log(std::exp(std::tanh(5)) + std::exp(std::tanh(30))),
              8 * GetParam().eps());
}

TEST_P(OrderOfOperations, D55_SoftcapIsUsed) {
  for (int n = 0; n < 3; ++n) {
    Call<double> call = scores_are(1, {golden::kSoftcapLogits[n]});
    call.options.softcap = 2;
    EXPECT_NEAR(run(call).lse[0], golden::kSoftcapped[n],
                GetParam().printed());  // one key: its score
  }
}

TEST_P(OrderOfOperations, D38_KeyRowsFollowTheDistanceOfQueryAndKey) {
  Call<double> call = toy();
  const IndexMap index{-2, {3, 3, 2, 1, 0}, kNoRow, kNoRow};  // delta(i, j)
  call.terms.key_rows = rows(index, golden::kDebertaToyQr);
  call.q.assign(call.q.size(), 0);  // key rows alone
  call.options.scale = 1;
  std::vector<double> want;
  for (const auto& row : golden::kDebertaToyP2c) {
    want.push_back(std::log(std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2])));
  }
  oracle::expect_printed("lse", run(call).lse, want, 8 * GetParam().eps());
}

}  // namespace
}  // namespace locant::test
