// The twin against the dense oracle, in double: every term alone, all together, random shapes; and
// the published toy values.
#include <gtest/gtest.h>

#include "tests/attention/dense.h"
#include "tests/attention/sized.h"
#include "tests/attention/toy.h"
#include "tests/golden/alibi.h"
#include "tests/golden/deberta.h"
#include "tests/golden/masking.h"
#include "tests/golden/music_transformer.h"
#include "tests/golden/rope.h"
#include "tests/golden/scalar_table.h"
#include "tests/golden/shaw.h"
#include "tests/golden/t5.h"
#include "tests/golden/toy.h"
#include "tests/golden/transformer_xl.h"
#include "tests/golden/xpos.h"
#include "tests/oracle/tolerance.h"

namespace locant::test {
namespace {

using golden::kSixDigits;

void expect_twin_is_dense(const Call<double>& call) {
  SCOPED_TRACE(call.text());
  const Results<double> got = run_twin(call, false);
  const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
  const oracle::Shape& s = call.shape;
  const int64_t chain = sum_length(s);
  for (int b = 0; b < s.b; ++b) {
    for (int h = 0; h < s.h; ++h) {
      SCOPED_TRACE("batch " + std::to_string(b) + " head " + std::to_string(h));
      const oracle::AttentionResult want = oracle::attention(dense_call(call, b, h));
      const oracle::Matrix out = head_matrix(call.rows(got.out.data(), s.h, s.q, s.dv), b, h);
      oracle::expect_close("out", out.values, want.out.values, want.magnitude.values, chain,
                           oracle::kEpsDouble, {s.q, s.dv});
      std::vector<double> lse, size;
      for (int i = 0; i < s.q; ++i) {
        const size_t row = size_t((b * s.h + h) * s.q + i);
        lse.push_back(got.lse[row]);
        size.push_back(sized.lse[row].size);
      }
      oracle::expect_close("lse", lse, want.lse, size, chain, oracle::kEpsDouble, {s.q});
    }
  }
}

class TwinTerms : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Each, TwinTerms, testing::ValuesIn(kSingleTerms),
                         [](const auto& info) { return "terms" + std::to_string(info.param); });

TEST_P(TwinTerms, IsTheDenseFormula) {
  for (uint64_t seed = 1; seed <= 40; ++seed) expect_twin_is_dense(random_call(seed, GetParam()));
}

TEST(Twin, IsTheDenseFormulaForAnyMixOfTerms) {
  for (uint64_t seed = 100; seed < 220; ++seed) {
    expect_twin_is_dense(random_call(seed, oracle::Rng(seed).bits() & kAllTerms));
  }
}

TEST(Twin, IsTheDenseFormulaWithDropout) {
  for (uint64_t seed = 500; seed < 560; ++seed) {
    expect_twin_is_dense(random_call(seed, (oracle::Rng(seed).bits() & kAllTerms) | kDropout));
  }
}

TEST(Twin, FloatIsCloseToDouble) {
  for (uint64_t seed = 300; seed < 340; ++seed) {
    const Call<float> call = cast_call<float>(random_call(seed, kAllTerms));
    SCOPED_TRACE(call.text());
    const auto got = run_twin(call);
    const auto want = run_twin(cast_call<double>(call));
    const auto sized = run_twin(cast_call<Sized>(call));
    const int64_t chain = sum_length(call.shape);
    each_result(
        [&](const char* name, const auto& got, const auto& want, const auto& sized) {
          std::vector<double> size;
          for (const Sized& x : sized) size.push_back(x.size);
          oracle::expect_close(name, got, want, size, chain, oracle::kEpsFloat);
        },
        got, want, sized);
  }
}

// --- published values ---------------------------------------------------------------------------

template <size_t R, size_t C>
void expect_golden(const char* name, const std::vector<double>& got, const double (&want)[R][C]) {
  oracle::expect_printed(name, got, oracle::matrix(want).values, kSixDigits, {R, C});
}

std::vector<double> out(const Call<double>& call) { return run_twin(call, false).out; }
std::vector<double> weights(const Call<double>& call) { return out(with_unit_values(call)); }

TEST(TwinToy, NoPositions) {
  expect_golden("weights", weights(toy()), golden::kToyFullWeights);
  expect_golden("out", out(toy()), golden::kToyFullOut);
  expect_golden("causal weights", weights(causal_toy()), golden::kToyCausalWeights);
  expect_golden("causal out", out(causal_toy()), golden::kToyCausalOut);
}

TEST(TwinToy, Alibi) {
  Call<double> call = causal_toy();
  call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
  expect_golden("weights", weights(call), golden::kAlibiToyWeights);
  expect_golden("out", out(call), golden::kAlibiToyOut);
  call.terms.number->scaled = true;
  expect_golden("inside the scale", weights(call), golden::kAlibiToyWeightsScaled);
}

TEST(TwinToy, ScalarTable) {
  Call<double> call = toy();
  call.terms.number = number(false, {-1, {0, 1, 2}, 0, 2}, {-.5, 0, .25});
  expect_golden("weights", weights(call), golden::kScalarToyWeights);
  expect_golden("out", out(call), golden::kScalarToyOut);
}

TEST(TwinToy, T5) {
  Call<double> call = toy();
  call.options.scale = 1;
  call.terms.number =
      number(false, {-2, {2, 1, 0, 5, 6}, kNoRow, kNoRow}, {-.3, -.2, -.1, 0, .1, .2, .3, .4});
  expect_golden("weights", weights(call), golden::kT5ToyWeights);
  expect_golden("out", out(call), golden::kT5ToyOut);
  call.options.causal = true;
  expect_golden("decoder weights", weights(call), golden::kT5ToyDecoderWeights);
}

TEST(TwinToy, Shaw) {
  Call<double> call = toy();
  const IndexMap index{-1, {0, 1, 2}, 0, 2};
  call.terms.query_rows = rows(index, golden::kShawToyKeyRows);
  expect_golden("weights", weights(call), golden::kShawToyWeights);
  expect_golden("out of keys", out(call), golden::kShawToyOutKeys);
  call.terms.value_rows = value_rows(index, golden::kShawToyValueRows);
  expect_golden("out of keys and values", out(call), golden::kShawToyOutKeysValues);
  call.options.causal = true;
  expect_golden("causal", out(call), golden::kShawToyOutCausalKeysValues);
}

TEST(TwinToy, MusicTransformer) {
  Call<double> call = causal_toy();
  call.terms.query_rows = rows({-2, {0, 1, 2}, kNoRow, kNoRow}, golden::kMusicToyRows);
  expect_golden("weights", weights(call), golden::kMusicToyWeights);
  expect_golden("out", out(call), golden::kMusicToyOut);
}

TEST(TwinToy, Deberta) {
  Call<double> call = toy();
  const IndexMap index{-2, {3, 3, 2, 1, 0}, kNoRow, kNoRow};  // delta(i, j) of i - j = 2 ... -2
  call.terms.query_rows = rows(index, golden::kDebertaToyKr);
  call.terms.key_rows = rows(index, golden::kDebertaToyQr);
  call.terms.scale_factor = 1 / std::sqrt(3.0);
  // Its scores are published; the log-sum-exp of a row is theirs.
  std::vector<double> lse;
  for (const auto& row : golden::kDebertaToyScores) {
    lse.push_back(std::log(std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2])));
  }
  const Results<double> got = run_twin(call, false);
  oracle::expect_printed("lse", got.lse, lse, kSixDigits);
  std::vector<double> want;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j)
      want.push_back(std::exp(golden::kDebertaToyScores[i][j] - lse[size_t(i)]));
  }
  oracle::expect_printed("weights", weights(call), want, 2 * kSixDigits, {3, 3});
}

TEST(TwinToy, TransformerXl) {
  const double v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
  Call<double> call = call_of(golden::kXlQ, golden::kXlK, v);
  call.options.causal = true;  // queries stand at 1 and 2
  Table<double> u(1, 1, 4);
  u.data.assign(golden::kXlU, golden::kXlU + 4);
  call.terms.content_bias = u;
  // (q + v) . R = q . R + v . R: a row and a number per distance. Row r is distance -r.
  std::vector<double> v_dot_r;
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int c = 0; c < 4; ++c) sum += golden::kXlV[c] * golden::kXlSinusoids4[r][c];
    v_dot_r.push_back(sum);
  }
  const IndexMap index{-2, {2, 1, 0}, kNoRow, kNoRow};
  call.terms.query_rows = rows(index, golden::kXlSinusoids4);
  call.terms.number = number(true, index, v_dot_r);
  // The sinusoids are printed with six digits: each score carries four of their roundings.
  oracle::expect_printed("weights", weights(call), oracle::matrix(golden::kXlWeights).values,
                         5 * kSixDigits, {2, 3});
}

// With a single key the log-sum-exp is the score.
double score(const std::vector<double>& q, const std::vector<double>& k, int64_t q_position,
             int64_t k_position, const Rotation& rotation) {
  Call<double> call;
  call.shape.d = int(q.size());
  call.q = q;
  call.k = k;
  call.v = call.out_gradient = {1};
  call.q_positions = {q_position};
  call.k_positions = {k_position};
  call.options.scale = 1;
  call.terms.rotation = rotation;
  return run_twin(call, false).lse[0];
}

TEST(TwinToy, Rotation) {
  Call<double> call = causal_toy();
  call.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {}, 0};
  expect_golden("weights", weights(call), golden::kRopeToyWeights);
  expect_golden("out", out(call), golden::kRopeToyOut);

  const std::vector<double> q = oracle::numbers(golden::kRopeDotQ),
                            k = oracle::numbers(golden::kRopeDotK);
  Rotation r{Rotation::Layout::kInterleaved, 4, {1, .01}, 1, {}, 0};
  EXPECT_NEAR(score(q, k, 3, 1, r), golden::kRopeDotInterleaved3And1, kSixDigits);
  EXPECT_NEAR(score(q, k, 7, 5, r), golden::kRopeDotInterleaved3And1, kSixDigits);
  EXPECT_NEAR(score(q, k, 1, 3, r), golden::kRopeDotInterleaved1And3, kSixDigits);
  EXPECT_NEAR(score(q, k, 0, 0, r), golden::kRopeDotUnturned, kSixDigits);
  r.layout = Rotation::Layout::kHalfSplit;
  EXPECT_NEAR(score(q, k, 3, 1, r), golden::kRopeDotHalfSplit3And1, kSixDigits);
  EXPECT_NEAR(score(q, k, 1, 3, r), golden::kRopeDotHalfSplit1And3, kSixDigits);
}

TEST(TwinToy, D51_xPosScaleComesFromAbsolutePositions) {
  Rotation r{Rotation::Layout::kInterleaved, 8, {1, .1, .01, .001}, 1, {}, 0};
  for (int t = 0; t < 4; ++t) r.log_growth.push_back(std::log((2.0 * t / 8 + .4) / 1.4) / 512);
  const std::vector<double> x = {1, 2, 3, 4, 5, 6, 7, 8};
  for (int64_t center : {0, 55}) {  // harmless for scores
    r.center = center;
    EXPECT_NEAR(score(x, x, 10, 3, r), golden::kXposDot10And3, kSixDigits);
    EXPECT_NEAR(score(x, x, 107, 100, r), golden::kXposDot10And3, kSixDigits);
    EXPECT_NEAR(score(x, x, 3, 10, r), golden::kXposDot3And10, kSixDigits);
  }
}

}  // namespace
}  // namespace locant::test
