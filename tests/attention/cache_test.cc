// A cached step is a row of the whole pass; biases, rows and angles by absolute position; and the
// gradient of a bias alone.
// On every engine; ids are those of tests/bugs.md.
#include <gtest/gtest.h>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"
#include "tests/golden/alibi.h"
#include "tests/golden/shaw.h"
#include "tests/golden/t5.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Cache);
LOCANT_EACH_ENGINE(BiasGradient);

TEST_P(Cache, D45_ACachedStepIsARowOfTheWholePass) {
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> call;
    call.shape.h = 2, call.shape.hk = 1, call.shape.q = call.shape.k = 12, call.shape.d = 6,
    call.shape.dv = 5;
    call.term_bits = terms;
    call = rounded(random_like(call));
    call.options.causal = true;
    const Results<double> whole = run(call);
    for (int step = 0; step < 12; ++step) {
      // By default positions (queries are the last keys) and by explicit ones.
      Call<double> one = part(call, step, 1, step + 1);
      expect_same_rows(call, whole, one, run(one), step);
      one.q_positions = {step};
      one.k_positions = oracle::consecutive(step + 1);
      expect_same_rows(call, whole, one, run(one), step);
      // A cache longer than what is filled: the causal mask hides the rest.
      Call<double> roomy = part(call, step, 1, 12);
      roomy.q_positions = {step};
      roomy.k_positions = oracle::consecutive(12);
      expect_same_rows(call, whole, roomy, run(roomy), step);
    }
  }
}

// What is added to the scores of the last of n tokens, from the log-sum-exp of one key at a time.
std::vector<double> added_at_last(const Engine& engine, int n,
                                  const NumberPerDistance<double>& term) {
  std::vector<double> added;
  for (int j = 0; j < n; ++j) {
    Call<double> call = scores_are(1, {0});
    call.q_positions = {n - 1};
    call.k_positions = {j};
    call.terms.number = term;
    added.push_back(test::run(engine, call).lse[0]);
  }
  return added;
}

// Powers of two and their logarithms may round twice.
void expect_added(const std::vector<double>& got, const std::vector<double>& want, double eps) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t j = 0; j < want.size(); ++j)
    EXPECT_NEAR(got[j], want[j], 4 * eps * std::fabs(want[j])) << j;
}

TEST_P(Cache, D46_ShawRowsOfADecodingStep) {
  const std::vector<double> want(golden::kShawIndexDecodeK2, golden::kShawIndexDecodeK2 + 4);
  expect_added(
      added_at_last(GetParam(), 4, number(false, {-2, {0, 1, 2, 3, 4}, 0, 4}, {0, 1, 2, 3, 4})),
      want, GetParam().eps());
}

TEST_P(Cache, D03_D06_TheOwnPositionHasBiasZeroWhateverTheOffset) {
  const NumberPerDistance<double> alibi = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
  expect_added(added_at_last(GetParam(), 5, alibi), oracle::numbers(golden::kAlibiDecodeRow5),
               GetParam().eps());
  // The same at an offset of a million: nothing is lost in float.
  Call<double> call = scores_are(1, {0});
  call.terms.number = alibi;
  for (int64_t distance : {0, 1, 2, 3}) {
    call.q_positions = {1000000};
    call.k_positions = {1000000 - distance};
    EXPECT_NEAR(run(call).lse[0], -.5 * double(distance),
                4 * .5 * double(distance) * GetParam().eps());
  }
}

TEST_P(Cache, D08_SymmetricBiasAboveTheDiagonal) {
  Call<double> call = scores_are(1, {0});
  call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5}, {-.5});
  for (int j = 0; j < 4; ++j) {
    call.q_positions = {0};
    call.k_positions = {j};
    EXPECT_NEAR(run(call).lse[0], golden::kAlibiSymmetricRow0[j], 4 * .5 * j * GetParam().eps());
  }
}

TEST_P(Cache, D34_T5BiasAtEveryStep) {
  // Query 19 of 20 and its published buckets, as a table that returns the bucket.
  IndexMap index;
  index.first = -19;
  std::vector<double> table;
  for (int b = 0; b < 32; ++b) table.push_back(b);
  for (int bucket : golden::kT5Uni32Query19) index.rows.push_back(bucket);
  const std::vector<double> want(golden::kT5Uni32Query19, golden::kT5Uni32Query19 + 20);
  expect_added(added_at_last(GetParam(), 20, number(false, index, table)), want, GetParam().eps());
}

TEST_P(Cache, D04_ABiasNeverComesFromAnEarlierCall) {
  // One workspace for 4 x 5 and then 4 x 4: the diagonal of the second has bias 0.
  Call<double> first = scores_are(4, std::vector<double>(5, 0));
  first.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5}, {-.5});
  Call<double> second = scores_are(4, std::vector<double>(4, 0));
  second.terms = first.terms;
  const auto both = [&]<class T>(T) {
    attention::Workspace workspace;
    ThreadPool pool(2);
    std::vector<Results<double>> results;
    for (const Call<double>* call : {&first, &second}) {
      const Call<T> typed = cast_call<T>(*call);
      Results<T> got(typed);
      attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed), workspace,
                         pool);
      results.push_back(widened(*call, got));
    }
    return results;
  };
  const Using set(GetParam().set);
  const auto got = GetParam().single ? both(float()) : both(double());
  EXPECT_EQ(got[1].out, run(second).out);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(got[1].out[size_t(i * 4 + j)] / got[1].out[size_t(i * 4 + i)],
                  std::exp(-.5 * std::abs(i - j)), 16 * GetParam().eps());
    }
  }
}

TEST_P(Cache, D12_D13_D14_AnglesAreTakenInDouble) {
  // Positions that neither bf16 (256, 257) nor a float angle can tell apart: the score of two
  // tokens depends on their distance only, also at a million.
  Rotation r{Rotation::Layout::kHalfSplit, 32, {}, 1, {}, 0};
  for (int t = 0; t < 16; ++t) r.frequency.push_back(std::pow(10000.0, -t / 16.0));
  Call<double> call;
  call.shape.d = 32;
  oracle::Rng rng(4);
  call.q = oracle::random_numbers(rng, 32), call.k = oracle::random_numbers(rng, 32);
  call.v = call.out_gradient = {1};
  call.options.scale = 1;
  call.terms.rotation = r;
  const auto score_at = [&](int64_t q, int64_t k) {
    call.q_positions = {q};
    call.k_positions = {k};
    return run(rounded(call)).lse[0];
  };
  double size = 0;
  for (int c = 0; c < 32; ++c) size += std::fabs(call.q[size_t(c)]) + std::fabs(call.k[size_t(c)]);
  for (int64_t offset : {256, 1857, 131071, 1000003}) {
    // In double the angle itself rounds: offset * eps.
    const double allowed = size * 32 * (GetParam().eps() + double(offset) * oracle::kEpsDouble);
    EXPECT_NEAR(score_at(offset + 1, offset), score_at(1, 0), allowed) << offset;
    EXPECT_NEAR(score_at(offset, offset), score_at(0, 0), allowed) << offset;
  }
}

TEST_P(BiasGradient, D61_ATableAloneHasAGradient) {
  for (unsigned terms : {unsigned(kNumber), unsigned(kAllTerms)}) {
    const Call<double> call = rounded(random_call(31, terms));
    SCOPED_TRACE(call.text());
    const auto only_tables = [&]<class T>(T) {
      const Call<T> typed = cast_call<T>(call);
      Results<T> got(typed);
      attention::Workspace workspace;
      SerialExecutor serial;
      attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed), workspace,
                         serial);
      attention::Gradients<T> gradients;
      gradients.terms = &got.dterms;
      attention::backward(typed.inputs(), typed.terms, typed.options, read_only(got.outputs(typed)),
                          typed.out_gradient_view(), gradients, workspace, serial);
      return widened(call, got);
    };
    const Using set(GetParam().set);
    const Results<double> got = GetParam().single ? only_tables(float()) : only_tables(double());
    const Results<double> all = run(call);
    each_table([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
               got.dterms, all.dterms);
    EXPECT_EQ(got.dq, std::vector<double>(got.dq.size(), 0)) << "not asked for, not touched";
  }
}

}  // namespace
}  // namespace locant::test
