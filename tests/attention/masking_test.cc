// Who sees whom, and in which order things are done: causal masks by position, windows, padding,
// packing, caches, softcap, scale. On every engine. Ids are those of tests/bugs.md.
#include <gtest/gtest.h>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"
#include "tests/golden/alibi.h"
#include "tests/golden/deberta.h"
#include "tests/golden/masking.h"
#include "tests/golden/shaw.h"
#include "tests/golden/t5.h"
#include "tests/golden/transformer_xl.h"

namespace locant::test {
namespace {

using golden::kSixDigits;

LOCANT_EACH_ENGINE(OrderOfOperations);
LOCANT_EACH_ENGINE(Mask);
LOCANT_EACH_ENGINE(Cache);
LOCANT_EACH_ENGINE(BiasGradient);

// Which keys each query sees: scores are all 0, values unit vectors.
Call<double> who_sees(int queries, int keys) { 
  Call<double> call = scores_are(queries, std::vector<double>(size_t(keys), 0));
  return call;
}
template <size_t Q, size_t K>
void expect_sees(const Results<double>& got, const int (&want)[Q][K]) {
  for (size_t i = 0; i < Q; ++i) {
    int seen = 0;
    for (size_t j = 0; j < K; ++j) seen += want[i][j];
    for (size_t j = 0; j < K; ++j) {
      EXPECT_NEAR(got.out[i * K + j], want[i][j] ? 1.0 / seen : 0, want[i][j] ? 1e-6 : 0) << i << ", " << j;
    }
  }
}

// --- order of operations ---------------------------------------------------------------------------

TEST_P(OrderOfOperations, D36_TheScaleIsNotAppliedToUnscaledBiases) {
  Call<double> call = with_unit_values(causal_toy());
  call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
  oracle::expect_printed("outside", run(call).out, flat(golden::kAlibiToyWeights), GetParam().printed());
  call.terms.number->scaled = true;  // Falcon
  oracle::expect_printed("inside", run(call).out, flat(golden::kAlibiToyWeightsScaled), GetParam().printed());
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
  oracle::expect_printed("weights", run(call).out, oracle::numbers(golden::kSoftcapWeightsLastMasked),
                         GetParam().printed());
  // The same by the causal mask: queries at 1.
  call.key_batches = 0;
  call.key_numbers.clear();
  call.options.causal = true;
  call.q_positions = {1};
  call.k_positions = {0, 1, 2};
  oracle::expect_printed("causal", run(call).out, oracle::numbers(golden::kSoftcapWeightsLastMasked),
                         GetParam().printed());
}

TEST_P(OrderOfOperations, D54_UnscaledTermsAreNotCapped) {
  Call<double> call = scores_are(1, {5, 0});
  call.options.softcap = 1;
  call.terms.number = number(false, {0, {0, 1}, kNoRow, kNoRow}, {0, 30});
  call.q_positions = {0};
  call.k_positions = {0, 1};
  // Capped: tanh(5) against 0; then 30 is added to the second, far above any cap.
  EXPECT_NEAR(run(call).lse[0], 30 + std::log1p(std::exp(std::tanh(5) - 30)), 64 * GetParam().eps());
  call.terms.number->scaled = true;
  EXPECT_NEAR(run(call).lse[0], std::log(std::exp(std::tanh(5)) + std::exp(std::tanh(30))), 8 * GetParam().eps());
}

TEST_P(OrderOfOperations, D55_SoftcapIsUsed) {
  for (int n = 0; n < 3; ++n) {
    Call<double> call = scores_are(1, {golden::kSoftcapLogits[n]});
    call.options.softcap = 2;
    EXPECT_NEAR(run(call).lse[0], golden::kSoftcapped[n], GetParam().printed());  // one key: its score
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

// --- masks -----------------------------------------------------------------------------------------

TEST_P(Mask, D56_CausalIsByPositionWhenLengthsDiffer) {
  Call<double> call = who_sees(2, 5);
  call.options.causal = true;
  expect_sees(run(call), golden::kCausal2x5);
  // More queries than keys: both start at 0.
  Call<double> tall = who_sees(3, 2);
  tall.options.causal = true;
  expect_sees(run(tall), {{1, 0}, {1, 1}, {1, 1}});
}

TEST_P(Mask, D56_CausalByPositionNotByPlace) {
  Call<double> call = who_sees(2, 5);
  call.options.causal = true;
  call.q_positions = {0, 9};
  call.k_positions = {7, 0, 11, 9, 3};
  expect_sees(run(call), {{0, 1, 0, 0, 0}, {1, 1, 0, 1, 1}});
}

TEST_P(Mask, D57_PrefillInChunksIsOnePass) {
  for (unsigned terms : kSingleTerms) {
    Call<double> call = rounded(random_call(5, terms));
    call.shape.b = 1, call.shape.q = call.shape.k = 9;
    call = rounded(random_like(call));
    call.options.causal = true;
    SCOPED_TRACE(terms_text(terms));
    const Results<double> whole = run(call);
    for (int begin = 0; begin < 9; begin += 3) {
      const Call<double> chunk = part(call, begin, 3, begin + 3);
      expect_same_rows(call, whole, chunk, run(chunk), begin);
    }
  }
}

TEST_P(Mask, D58_AWindowOfWKeysHasWKeys) {
  Call<double> call = who_sees(5, 5);
  call.options.causal = true;
  call.options.window = {3 - 1, 0};
  expect_sees(run(call), golden::kWindow3);
  call.options.causal = false;  // right 0 says the same
  expect_sees(run(call), golden::kWindow3);
}

TEST_P(Mask, D58_WindowsOnBothSidesAndOneSide) {
  Call<double> call = who_sees(4, 4);
  call.options.window = {0, 0};
  expect_sees(run(call), {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});
  call.options.window = {1, 2};
  expect_sees(run(call), {{1, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 1}});
  call.options.window = {-1, 1};
  expect_sees(run(call), {{1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  call.options.window = {1, -1};
  expect_sees(run(call), {{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 1}});
}

TEST_P(Mask, D58_WindowsCountPositionsNotPlaces) {
  Call<double> call = who_sees(2, 4);
  call.options.window = {10, 0};
  call.q_positions = {100, 25};
  call.k_positions = {100, 90, 89, 25};
  expect_sees(run(call), {{1, 1, 0, 0}, {0, 0, 0, 1}});
}

TEST_P(Mask, D59_EveryEngineKeepsTheWindow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Call<double> call = rounded(random_call(seed, kAllTerms));
    call.options.window = {1, 0};
    SCOPED_TRACE(call.text());
    expect_like_twin(call, run(call), GetParam().eps());
  }
}

TEST_P(Mask, D43_EveryQuerySeesExactlyItsWindowOfMemory) {
  // Four keys of memory and four of the segment; each query sees itself and the four before it.
  Call<double> call = who_sees(4, 8);
  call.options.causal = true;
  call.options.window = {4, 0};
  expect_sees(run(call), {{1, 1, 1, 1, 1, 0, 0, 0},
                          {0, 1, 1, 1, 1, 1, 0, 0},
                          {0, 0, 1, 1, 1, 1, 1, 0},
                          {0, 0, 0, 1, 1, 1, 1, 1}});
}

TEST_P(Mask, D42_DistancesAreTrueOnBothSides) {
  // Three queries, five keys: the released shift leaves garbage where j > i. Here there is none.
  Call<double> call = scores_are(3, std::vector<double>(5, 0));
  IndexMap index;
  index.first = -4;
  std::vector<double> table;
  for (int d = -4; d <= 2; ++d) {
    index.rows.push_back(d + 4);
    table.push_back(0.25 * d * d + d);
  }
  for (bool causal : {false, true}) {
    call.options.causal = causal;
    call.terms.number = number(true, index, table);
    const Results<double> got = run(call);
    for (int i = 0; i < 3; ++i) {
      double sum = 0;
      for (int j = 0; j < 5; ++j) {
        const int d = j - (i + 2);
        if (!causal || d <= 0) sum += std::exp(table[size_t(d + 4)]);
      }
      EXPECT_NEAR(got.lse[size_t(i)], std::log(sum), 32 * GetParam().eps()) << i;
    }
  }
}

TEST_P(Mask, D47_RowsForMaskedDistancesAreNeverUsed) {
  Call<double> call = rounded(random_call(3, kNone));
  call.shape = {};
  call.shape.q = call.shape.k = 40, call.shape.h = call.shape.hk = 2, call.shape.d = call.shape.dv = 8;
  call = rounded(random_like(call));
  call.options = {};
  call.options.causal = true;
  IndexMap index;
  index.first = -39;
  for (int d = -39; d <= 39; ++d) index.rows.push_back(d + 39);
  const auto filled = [&](double poison) {
    oracle::Rng rng(9);
    Call<double> filled = call;
    Terms<double>& t = filled.terms;
    t.number = number(false, index, oracle::random_numbers(rng, 79));
    t.query_rows.emplace();
    t.query_rows->index = index;
    t.query_rows->rows = Table<double>(1, 79, 8);
    t.query_rows->rows.data = oracle::random_numbers(rng, 79 * 8);
    t.value_rows = ValuePerDistance<double>{index, t.query_rows->rows};
    for (int row = 40; row < 79; ++row) {  // right of the diagonal
      *t.number->table.row(0, row) = poison;
      for (int c = 0; c < 8; ++c) t.query_rows->rows.row(0, row)[c] = t.value_rows->rows.row(0, row)[c] = poison;
    }
    return rounded(filled);
  };
  const Results<double> clean = run(filled(0)), poisoned = run(filled(1e4));
  EXPECT_EQ(clean.out, poisoned.out);
  EXPECT_EQ(clean.lse, poisoned.lse);
  EXPECT_EQ(clean.dq, poisoned.dq);
  EXPECT_EQ(clean.dk, poisoned.dk);
  each_table([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, clean.dterms,
             poisoned.dterms);
}

TEST_P(Mask, D52_AFullyMaskedRowGivesZerosAndZeroGradients) {
  Call<double> call = toy();
  call.out_gradient = {1, 2, 3, 4, 5, 6};
  call.options.causal = true;
  call.q_positions = {2, 0, 3};
  call.k_positions = {1, 2, 3};
  const Results<double> got = run(call);
  EXPECT_EQ(got.out[2], 0);
  EXPECT_EQ(got.out[3], 0);
  EXPECT_EQ(got.lse[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(got.dq[2], 0);
  EXPECT_EQ(got.dq[3], 0);
  expect_like_twin(call, got, GetParam().eps());
}

TEST_P(Mask, D52_NoGradientIsNanWhenEverythingIsMasked) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call = rounded(random_call(21, terms));
    call.key_batches = call.key_heads = 1;
    call.key_numbers.assign(size_t(call.shape.k), -std::numeric_limits<double>::infinity());
    const Results<double> got = run(call);
    each_result(
        [](const std::string& name, const std::vector<double>& numbers) {
          const double want = name == "lse" ? -std::numeric_limits<double>::infinity() : 0;
          for (double x : numbers) ASSERT_EQ(x, want) << name;
        },
        got);
  }
}

TEST_P(Mask, D53_MaskedRowsAreZeroBesideRowsThatAreNot) {
  // Rows masked by each kind of mask, between rows that are not, over several tiles.
  for (int kind = 0; kind < 3; ++kind) {
    Call<double> call;
    call.shape.q = 70, call.shape.k = 130, call.shape.d = call.shape.dv = 16;
    call = rounded(random_like(call));
    for (int i = 0; i < 70; ++i) call.q_positions.push_back(i % 7 == 3 ? (kind == 0 ? 0 : 1000) : 100 + i);
    for (int j = 0; j < 130; ++j) call.k_positions.push_back(50 + j);
    if (kind == 0) call.options.causal = true;
    if (kind > 0) call.options.window = {40, 30};
    if (kind == 2) call.options.causal = true;
    const Results<double> got = run(call);
    for (int i = 3; i < 70; i += 7) {
      for (int c = 0; c < 16; ++c) {
        ASSERT_EQ(got.out[size_t(i * 16 + c)], 0) << i;
        ASSERT_EQ(got.dq[size_t(i * 16 + c)], 0) << i;
      }
      ASSERT_EQ(got.lse[size_t(i)], -std::numeric_limits<double>::infinity()) << i;
    }
    expect_like_twin(call, got, GetParam().eps());
  }
}

TEST_P(Mask, NanInPaddedKeysDoesNotSpread) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call;
    call.shape.b = 2, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 33, call.shape.k = 75;
    call.shape.d = call.shape.dv = 16;
    call.term_bits = terms;
    call = rounded(random_like(call));
    call.key_batches = 2, call.key_heads = 1;
    for (int b = 0; b < 2; ++b) {
      for (int j = 0; j < 75; ++j) {
        const bool padded = b == 0 ? j < 20 : j % 3 == 1;
        call.key_numbers.push_back(padded ? -std::numeric_limits<double>::infinity() : 0);
      }
    }
    const Results<double> clean = run(call);
    Call<double> dirty = call;
    const double poisons[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e30};
    for (int b = 0; b < 2; ++b) {
      for (int j = 0; j < 75; ++j) {
        if (call.key_numbers[size_t(b * 75 + j)] == 0) continue;
        for (int h = 0; h < 2; ++h) {
          for (int c = 0; c < 16; ++c) {
            dirty.rows(dirty.k.data(), 2, 75, 16)(b, h, j, c) = poisons[(j + c) % 3];
            dirty.rows(dirty.v.data(), 2, 75, 16)(b, h, j, c) = poisons[(j + c + 1) % 3];
          }
        }
      }
    }
    const Results<double> got = run(dirty);
    each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, clean, got);
  }
}

TEST_P(Mask, D09_LeftPaddingWithItsOwnPositionsIsTheUnpaddedSequence) {
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> alone;
    alone.shape.h = alone.shape.hk = 2, alone.shape.q = alone.shape.k = 6, alone.shape.d = alone.shape.dv = 4;
    alone.term_bits = terms;
    alone = rounded(random_like(alone));
    alone.options.causal = true;
    Call<double> padded = alone;
    const int pads = 3, L = 6 + pads;
    padded.shape.q = padded.shape.k = L;
    const auto pad = [&](const std::vector<double>& from) {
      std::vector<double> to;
      for (int h = 0; h < 2; ++h) {
        to.insert(to.end(), size_t(pads * 4), 7.0);
        to.insert(to.end(), from.begin() + h * 24, from.begin() + (h + 1) * 24);
      }
      return to;
    };
    padded.q = pad(alone.q), padded.k = pad(alone.k), padded.v = pad(alone.v);
    padded.out_gradient = pad(alone.out_gradient);
    padded.key_batches = padded.key_heads = 1;
    for (int t = 0; t < L; ++t) {
      padded.q_positions.push_back(std::max(0, t - pads));
      padded.key_numbers.push_back(t < pads ? -std::numeric_limits<double>::infinity() : 0);
    }
    padded.k_positions = padded.q_positions;
    const Results<double> want = run(alone), got = run(padded);
    for (int h = 0; h < 2; ++h) {
      for (int t = 0; t < 6; ++t) {
        for (int c = 0; c < 4; ++c) {
          const size_t a = size_t((h * 6 + t) * 4 + c), b = size_t((h * L + t + pads) * 4 + c);
          EXPECT_NEAR(got.out[b], want.out[a], 64 * GetParam().eps()) << h << t << c;
        }
      }
    }
  }
}

TEST_P(Mask, D60_PackedDocumentsAreTheDocumentsAlone) {
  // Two documents in one row, positions that start again. Keeping them apart takes a mask: here one
  // call for each document's queries, with the other document's keys masked by numbers per key.
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> alone;
    alone.shape.q = alone.shape.k = 7, alone.shape.d = alone.shape.dv = 4;
    alone.term_bits = terms;
    alone = rounded(random_like(alone));
    alone.options.causal = true;
    const Results<double> want = run(alone);
    Call<double> packed = alone;  // the same document twice
    packed.shape.k = 14;
    packed.k.insert(packed.k.end(), alone.k.begin(), alone.k.end());
    packed.v.insert(packed.v.end(), alone.v.begin(), alone.v.end());
    for (int t = 0; t < 7; ++t) packed.q_positions.push_back(t);
    for (int t = 0; t < 14; ++t) packed.k_positions.push_back(t % 7);
    packed.key_batches = packed.key_heads = 1;
    const Results<double> leaking = [&] {
      Call<double> open = packed;
      open.key_numbers.assign(14, 0);
      return run(open);
    }();
    for (int document = 0; document < 2; ++document) {
      packed.key_numbers.clear();
      for (int t = 0; t < 14; ++t) {
        packed.key_numbers.push_back(t / 7 == document ? 0 : -std::numeric_limits<double>::infinity());
      }
      const Results<double> got = run(packed);
      for (size_t n = 0; n < want.out.size(); ++n) {
        EXPECT_NEAR(got.out[n], want.out[n], 64 * GetParam().eps()) << document << " " << n;
      }
      for (size_t n = 0; n < want.dk.size(); ++n) {
        EXPECT_EQ(got.dk[size_t(1 - document) * want.dk.size() + n], 0) << "the other document";
      }
    }
    // Resetting positions alone is not enough: the log-sum-exp sees both documents.
    EXPECT_NEAR(leaking.lse[3], want.lse[3] + std::log(2.0), 64 * GetParam().eps());
  }
}

// --- caches ----------------------------------------------------------------------------------------

TEST_P(Cache, D45_ACachedStepIsARowOfTheWholePass) {
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> call;
    call.shape.h = 2, call.shape.hk = 1, call.shape.q = call.shape.k = 12, call.shape.d = 6, call.shape.dv = 5;
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
std::vector<double> added_at_last(const Engine& engine, int n, const NumberPerDistance<double>& term) {
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
  for (size_t j = 0; j < want.size(); ++j) EXPECT_NEAR(got[j], want[j], 4 * eps * std::fabs(want[j])) << j;
}

TEST_P(Cache, D46_ShawRowsOfADecodingStep) {
  const std::vector<double> want(golden::kShawIndexDecodeK2, golden::kShawIndexDecodeK2 + 4);
  expect_added(added_at_last(GetParam(), 4, number(false, {-2, {0, 1, 2, 3, 4}, 0, 4}, {0, 1, 2, 3, 4})), want, GetParam().eps());
}

TEST_P(Cache, D03_D06_TheOwnPositionHasBiasZeroWhateverTheOffset) {
  const NumberPerDistance<double> alibi = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
  expect_added(added_at_last(GetParam(), 5, alibi), oracle::numbers(golden::kAlibiDecodeRow5), GetParam().eps());
  // The same at an offset of a million: nothing is lost in float.
  Call<double> call = scores_are(1, {0});
  call.terms.number = alibi;
  for (int64_t distance : {0, 1, 2, 3}) {
    call.q_positions = {1000000};
    call.k_positions = {1000000 - distance};
    EXPECT_NEAR(run(call).lse[0], -.5 * double(distance), 4 * .5 * double(distance) * GetParam().eps());
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
      attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed), workspace, pool);
      results.push_back(widened(*call, got));
    }
    return results;
  };
  const Using set(GetParam().set);
  const auto got = GetParam().single ? both(float()) : both(double());
  EXPECT_EQ(got[1].out, run(second).out);
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_NEAR(got[1].out[size_t(i * 4 + j)] / got[1].out[size_t(i * 4 + i)], std::exp(-.5 * std::abs(i - j)),
                  16 * GetParam().eps());
    }
  }
}

TEST_P(Cache, D12_D13_D14_AnglesAreTakenInDouble) {
  // Positions that neither bf16 (256, 257) nor a float angle can tell apart: the score of two tokens
  // depends on their distance only, also at a million.
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

// --- gradients of a bias alone ---------------------------------------------------------------------

TEST_P(BiasGradient, D61_ATableAloneHasAGradient) {
  for (unsigned terms : {unsigned(kNumber), unsigned(kAllTerms)}) {
    const Call<double> call = rounded(random_call(31, terms));
    SCOPED_TRACE(call.text());
    const auto only_tables = [&]<class T>(T) {
      const Call<T> typed = cast_call<T>(call);
      Results<T> got(typed);
      attention::Workspace workspace;
      SerialExecutor serial;
      attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed), workspace, serial);
      attention::Gradients<T> gradients;
      gradients.terms = &got.dterms;
      attention::backward(typed.inputs(), typed.terms, typed.options, read_only(got.outputs(typed)),
                          typed.out_gradient_view(), gradients, workspace, serial);
      return widened(call, got);
    };
    const Using set(GetParam().set);
    const Results<double> got = GetParam().single ? only_tables(float()) : only_tables(double());
    const Results<double> all = run(call);
    each_table([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, got.dterms,
               all.dterms);
    EXPECT_EQ(got.dq, std::vector<double>(got.dq.size(), 0)) << "not asked for, not touched";
  }
}

}  // namespace
}  // namespace locant::test
