// Extreme numbers: huge, equal, tiny and infinite scores, NaN where nobody looks, positions far apart;
// and slices of heads. Outputs and gradients, on every engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/attention/blocks.h"
#include "tests/attention/new_memory.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Extreme);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Call<double> sized_call(int q, int k, int d, unsigned terms, uint64_t seed = 1) {
  Call<double> call;
  call.shape.h = 2, call.shape.hk = 1;
  call.shape.q = q, call.shape.k = k, call.shape.d = call.shape.dv = d;
  call.term_bits = terms;
  return rounded(random_like(call, seed));
}
void expect_all_finite(const Results<double>& got) {
  each_result(
      [](const std::string& name, const std::vector<double>& numbers) {
        for (double x : numbers) ASSERT_TRUE(std::isfinite(x) || (name == "lse" && x == -kInfinity)) << name;
      },
      got);
}
void expect_equal_results(const Results<double>& a, const Results<double>& b) {
  each_result([](const char* name, const auto& a, const auto& b) { EXPECT_TRUE(a == b) << name << " differs"; },
              a, b);
}

// --- scores -------------------------------------------------------------------------------------

TEST_P(Extreme, ScoresOfTenThousandWithEveryTerm) {
  for (unsigned terms : kSingleTerms) {
    Call<double> call = sized_call(70, 140, 16, terms);
    for (double& x : call.q) x *= 100;
    for (double& x : call.k) x *= 100;
    call.options.causal = terms % 2;
    call = rounded(call);
    SCOPED_TRACE(terms_text(terms));
    const Results<double> got = run(call);
    expect_all_finite(got);
    expect_like_twin(call, got, GetParam().eps());
    // Probabilities are 0 or 1: outputs are values, up to ties.
    call.options.softcap = 30;  // and scores that a softcap bends flat
    expect_like_twin(call, run(call), GetParam().eps());
  }
}

TEST_P(Extreme, ASoftcapFarAboveTheScoresLeavesThemTheirDigits) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    const Call<double> plain = rounded(sized_call(70, 100, 16, terms));
    for (double cap : {30.0, 1e3, 1e6, 1e12}) {
      Call<double> call = plain;
      call.options.softcap = cap;
      SCOPED_TRACE(terms_text(terms) + ", cap " + std::to_string(cap));
      const Results<double> got = run(call);
      expect_like_twin(call, got, GetParam().eps());
      // tanh(x) = x (1 - x^2 / 3 + ...)
      if (cap >= 1e12) expect_like_twin(plain, got, GetParam().eps());
    }
  }
}

TEST_P(Extreme, EqualScoresAreAMean) {
  const int K = 1000;
  Call<double> call = sized_call(3, K, 8, kNone);
  std::fill(call.q.begin(), call.q.end(), 0.0);
  const Results<double> got = run(call);
  const double eps = GetParam().eps();
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(got.lse[size_t(h * 3 + i)], std::log(double(K)), 16 * eps);
      for (int c = 0; c < 8; ++c) {
        double mean = 0, size = 0;
        for (int j = 0; j < K; ++j) {
          mean += call.v[size_t(j * 8 + c)] / K;
          size += std::fabs(call.v[size_t(j * 8 + c)]) / K;
        }
        EXPECT_NEAR(got.out[size_t((h * 3 + i) * 8 + c)], mean, 4 * std::sqrt(double(K)) * eps * size);
      }
    }
  }
  EXPECT_EQ(got.dk, std::vector<double>(got.dk.size(), 0)) << "queries are 0";
  expect_like_twin(call, got, eps);
}

TEST_P(Extreme, DenormalInputsGiveNoNonsense) {
  Call<double> call = sized_call(20, 70, 16, kNumber);
  for (auto* numbers : {&call.q, &call.k, &call.v, &call.out_gradient}) {
    for (double& x : *numbers) x *= 1e-40;
  }
  call = rounded(call);
  const Results<double> got = run(call), want = run_twin(call);
  // Sums of 70 denormals, each a whole number of the smallest one, each product rounded to it.
  const double step = GetParam().single ? 0x1p-149 : 0x1p-1074;
  const auto near = [&](const char* name, const auto& a, const auto& b) {
    for (size_t n = 0; n < a.size(); ++n) {
      ASSERT_NEAR(a[n], b[n], 80 * step + 100 * GetParam().eps() * std::fabs(b[n])) << name << n;
    }
  };
  near("out", got.out, want.out);
  near("dv", got.dv, want.dv);
  near("dq", got.dq, want.dq);
  near("dk", got.dk, want.dk);
  each_table(near, got.dterms, want.dterms);
}

TEST_P(Extreme, OneScoreFarAboveAndFarBelowTheRest) {
  // The reference of the softmax must move at any tile, by any step, and back gradients follow.
  for (const double peak : {200.0, 3e4, -3e4}) {
    for (const int at : {0, 63, 64, 100, 299}) {
      Call<double> call = sized_call(66, 300, 8, kNone, uint64_t(at + 1));
      for (int c = 0; c < 8; ++c) call.k[size_t(at * 8 + c)] *= peak;
      call = rounded(call);
      SCOPED_TRACE(std::to_string(peak) + " at " + std::to_string(at));
      expect_like_twin(call, run(call), GetParam().eps());
      if (HasFailure()) return;
    }
  }
}

TEST_P(Extreme, SteepSlopesOnBothSides) {
  for (const double slope : {-1e6, -1e2, 1e2, 1e6}) {
    Call<double> call = sized_call(70, 200, 8, kNone);
    call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {slope}, {-std::fabs(slope)});
    call = rounded(call);
    SCOPED_TRACE(slope);
    const Results<double> got = run(call);
    expect_all_finite(got);
    expect_like_twin(call, got, GetParam().eps());
    // A steep fall on both sides leaves the own position only.
    if (slope > -1e6) continue;
    for (int i = 0; i < 70; ++i) {
      for (int c = 0; c < 8; ++c)
        EXPECT_NEAR(got.out[size_t(i * 8 + c)], call.v[size_t((130 + i) * 8 + c)], 4 * GetParam().eps() * 8);
    }
  }
}

TEST_P(Extreme, ARowThatStartsAnewLeavesTheOthersAlone) {
  // What a row gives is the same to the last bit whatever the rows of its tile do.
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call = sized_call(64, 400, 16, terms);
    for (int j = 0; j < 400; ++j) {
      for (int c = 0; c < 16; ++c) call.k[size_t(j * 16 + c)] *= 1 + 2 * (j / 64);  // references move
    }
    call = rounded(call);
    const Results<double> quiet = run(call);
    Call<double> loud = call;
    for (int h = 0; h < 2; ++h) {
      for (int c = 0; c < 16; ++c) loud.q[size_t((h * 64 + 7) * 16 + c)] *= 1000;
    }
    const Results<double> got = run(loud);
    SCOPED_TRACE(terms_text(terms));
    expect_like_twin(loud, got, GetParam().eps());
    for (int hi = 0; hi < 128; ++hi) {
      if (hi % 64 == 7) continue;
      EXPECT_EQ(got.lse[size_t(hi)], quiet.lse[size_t(hi)]) << "row " << hi;
      for (int c = 0; c < 16; ++c) {
        ASSERT_EQ(got.out[size_t(hi * 16 + c)], quiet.out[size_t(hi * 16 + c)]) << "row " << hi;
        ASSERT_EQ(got.dq[size_t(hi * 16 + c)], quiet.dq[size_t(hi * 16 + c)]) << "row " << hi;
      }
    }
  }
}

// --- numbers per key ----------------------------------------------------------------------------

TEST_P(Extreme, MinusInfinityByHeadHidesTheKeyFromThatHeadOnly) {
  Call<double> call;
  call.shape.b = 2, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 40, call.shape.k = 130;
  call.shape.d = call.shape.dv = 8;
  call.term_bits = kAllTerms;
  call = rounded(random_like(call, 3));
  call.key_batches = 2, call.key_heads = 4;
  for (int bh = 0; bh < 8; ++bh) {
    for (int j = 0; j < 130; ++j) {
      const bool hidden = (j + bh) % 4 == 0 || (bh == 5 && j < 128);
      call.key_numbers.push_back(hidden ? -kInfinity : 0.25 * (j % 5));
    }
  }
  const Results<double> got = run(call);
  expect_like_twin(call, got, GetParam().eps());
  for (int bh = 0; bh < 8; ++bh) {
    for (int j = 0; j < 130; ++j) {
      const bool hidden = std::isinf(call.key_numbers[size_t(bh * 130 + j)]);
      EXPECT_EQ(got.dkey[size_t(bh * 130 + j)] == 0, hidden) << bh << " " << j;
    }
  }
}

TEST_P(Extreme, ANumberOfMinusTenToTheThirtyEightIsAMaskThatGivesWay) {
  // What checkpoints call a mask: the least finite number. Beside other keys it hides; alone all keys
  // are alike, as everything else is lost in rounding.
  const double least = double(std::numeric_limits<float>::lowest());
  Call<double> call = sized_call(5, 80, 8, kNone);
  call.key_batches = call.key_heads = 1;
  for (int j = 0; j < 80; ++j) call.key_numbers.push_back(j % 2 ? least : 0);
  Call<double> hidden = call;
  for (double& x : hidden.key_numbers) x = x == least ? -kInfinity : 0;
  const Results<double> got = run(call), want = run(hidden);
  for (size_t n = 0; n < got.out.size(); ++n) EXPECT_NEAR(got.out[n], want.out[n], 64 * GetParam().eps());
  for (size_t n = 0; n < got.dk.size(); ++n) EXPECT_NEAR(got.dk[n], want.dk[n], 64 * GetParam().eps());
  call.key_numbers.assign(80, least);
  const Results<double> alone = run(call);
  for (int c = 0; c < 8; ++c) {
    double mean = 0;
    for (int j = 0; j < 80; ++j) mean += call.v[size_t(j * 8 + c)] / 80;
    EXPECT_NEAR(alone.out[size_t(c)], mean, 64 * GetParam().eps());
  }
  expect_all_finite(alone);
}

// --- NaN where nobody looks ---------------------------------------------------------------------

// The call with NaN, infinity and 1e30 in the k and v of the keys chosen.
template <class Chosen>
Call<double> poisoned(Call<double> call, Chosen chosen) {
  const double poisons[] = {kNan, kInfinity, 1e30};
  const oracle::Shape& s = call.shape;
  for (int bh = 0; bh < s.b * s.hk; ++bh) {
    for (int j = 0; j < s.k; ++j) {
      if (!chosen(j)) continue;
      for (int c = 0; c < s.d; ++c) call.k[size_t((bh * s.k + j) * s.d + c)] = poisons[(j + c) % 3];
      for (int c = 0; c < s.dv; ++c) call.v[size_t((bh * s.k + j) * s.dv + c)] = poisons[(j + c + 1) % 3];
    }
  }
  return call;
}

TEST_P(Extreme, NanInKeysThatNoQuerySeesDoesNotSpread) {
  // A cache longer than what is filled, keys behind the window, keys of another time.
  for (unsigned terms : {unsigned(kNone), unsigned(kNumber), unsigned(kAllTerms)}) {
    for (const int queries : {1, 5, 64, 100}) {
      Call<double> call = sized_call(queries, 300, 16, terms);
      call.options.causal = true;
      call.options.window = {40, 0};
      for (int i = 0; i < queries; ++i) call.q_positions.push_back(150 + i);
      call.k_positions = all_tokens(300);
      const auto unseen = [&](int64_t j) { return j < 150 - 40 || j > 150 + queries - 1; };
      SCOPED_TRACE(terms_text(terms) + ", queries " + std::to_string(queries));
      const Results<double> clean = run(call);
      expect_equal_results(clean, run(poisoned(call, unseen)));
      // The same keys in another order of memory.
      Tokens order = all_tokens(300);
      oracle::Rng rng(4);
      for (int n = 299; n > 0; --n) std::swap(order[size_t(n)], order[size_t(rng.integer(0, n))]);
      const Call<double> mixed = selection(with_positions(call), all_tokens(queries), order);
      const auto unseen_there = [&](int j) { return unseen(order[size_t(j)]); };
      expect_equal_results(run(mixed), run(poisoned(mixed, unseen_there)));
      if (HasFailure()) return;
    }
  }
}

TEST_P(Extreme, NanInKeysBetweenWindowsDoesNotSpread) {
  // Queries stand apart, and none sees what lies between their windows.
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call = sized_call(70, 300, 16, terms);
    call.options.window = {1, 0};
    for (int i = 0; i < 70; ++i) call.q_positions.push_back(4 * ((i * 11) % 70) + 2);
    call.k_positions = all_tokens(300);
    const auto unseen = [&](int j) { return j >= 280 || j % 4 == 0 || j % 4 == 3; };
    SCOPED_TRACE(terms_text(terms));
    expect_equal_results(run(call), run(poisoned(call, unseen)));
  }
}

TEST_P(Extreme, NanInKeysOfASequenceWithoutQueriesDoesNotSpread) {
  for (unsigned terms : {unsigned(kNone), unsigned(kKeyRows), unsigned(kAllTerms)}) {
    Call<double> call = sized_call(70, 100, 16, terms);
    call.q_starts = {0, 0, 70}, call.k_starts = {0, 30, 100};
    SCOPED_TRACE(terms_text(terms));
    expect_equal_results(run(call), run(poisoned(call, [](int j) { return j < 30; })));
  }
}

TEST_P(Extreme, NanInAQueryThatSeesNothingStaysNowhere) {
  // Padding on the left, or queries before all keys, in a tile with others: their numbers are nobody's.
  for (unsigned terms : {unsigned(kNone), unsigned(kNumber), unsigned(kKeyRows), unsigned(kRotation), unsigned(kAllTerms)}) {
    for (const bool padded : {false, true}) {
      for (const int length : {40, 150}) {
        constexpr int kBlind = 20;
        Call<double> call = sized_call(length, length, 16, terms);
        call.options.causal = true;
        call.key_batches = call.key_heads = 1;
        call.key_numbers.assign(size_t(length), 0.25);
        if (padded) {
          std::fill_n(call.key_numbers.begin(), kBlind, -kInfinity);
        } else {
          for (int j = 0; j < length; ++j) call.k_positions.push_back(kBlind + j), call.q_positions.push_back(j);
        }
        Call<double> dirty = call;
        for (int h = 0; h < call.shape.h; ++h) {
          for (int i = 0; i < kBlind; ++i) {
            const int at = (h * length + i) * 16;
            for (int c = 0; c < 16; ++c) {
              dirty.q[size_t(at + c)] = c % 2 ? kNan : kInfinity;
              dirty.out_gradient[size_t(at + c)] = c % 2 ? kInfinity : kNan;
            }
          }
        }
        SCOPED_TRACE(terms_text(terms) + (padded ? ", padded" : ", before all keys") + ", length " + std::to_string(length));
        const Results<double> clean = run(call);
        for (int i = 0; i < kBlind; ++i) ASSERT_EQ(clean.lse[size_t(i)], -kInfinity);
        ASSERT_GT(clean.lse[kBlind], -kInfinity);
        expect_equal_results(clean, run(dirty));
      }
    }
  }
}

TEST_P(Extreme, NanInAQueryStaysInItsRow) {
  // Forward, and the gradients of the other queries; keys and tables get a NaN rightly.
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    for (const bool causal : {false, true}) {
      Call<double> call = sized_call(70, 200, 16, terms);
      call.options.causal = causal;
      // Scores that rise by more than floats' exponents hold: references must move for the others.
      for (int j = 64; j < 200; ++j) {
        for (int c = 0; c < 16; ++c) call.k[size_t(j * 16 + c)] *= 64.0 * (j / 64);
      }
      call = rounded(call);
      const Results<double> clean = run(call);
      Call<double> dirty = call;
      for (const int row : {63, 69}) {  // the last ones of their tiles: what is kept of a tile is kept last
        for (int h = 0; h < 2; ++h) dirty.q[size_t((h * 70 + row) * 16 + 5)] = kNan;
      }
      const Results<double> got = run(dirty);
      for (int hi = 0; hi < 140; ++hi) {
        const bool is_dirty = hi % 70 == 63 || hi % 70 == 69;
        EXPECT_EQ(std::isnan(got.lse[size_t(hi)]), is_dirty) << hi;
        for (int c = 0; c < 16; ++c) {
          const size_t at = size_t(hi * 16 + c);
          ASSERT_EQ(std::isnan(got.out[at]), is_dirty) << terms_text(terms) << " query " << hi;
          if (is_dirty) continue;
          ASSERT_EQ(got.out[at], clean.out[at]) << terms_text(terms) << " query " << hi;
          ASSERT_EQ(got.dq[at], clean.dq[at]) << terms_text(terms) << " query " << hi;
        }
      }
    }
  }
}

TEST_P(Extreme, WhatScratchMemoryHeldDoesNotMatter) {
  // Masked pairs read what lies beside the columns of a table's rows that are multiplied.
  if (!GetParam().single) return;
  const Using use(GetParam().set);
  SerialExecutor executor;
  constexpr int kLength = 35;
  for (unsigned terms : {unsigned(kQueryRows), unsigned(kKeyRows), unsigned(kAllTerms)}) {
    for (int edge = 0; edge < 16; ++edge) {  // where it lies in a vector of distances
      Call<double> call = sized_call(kLength, kLength, 4, terms);
      // A row for every distance, also for those that are masked.
      IndexMap index;
      index.first = -kLength;
      for (int32_t row = 0; row <= 2 * kLength; ++row) index.rows.push_back(row);
      oracle::Rng rng(7);
      for (auto* term : {&call.terms.query_rows, &call.terms.key_rows}) {
        if (!*term) continue;
        *term = RowPerDistance<double>{true, index, Table<double>(2, 2 * kLength + 1, 4)};
        for (double& x : (*term)->rows.data) x = 0.5 * rng.normal();
      }
      call.options.softcap = 8;
      call.options.window = {edge, edge};
      const Call<float> single = cast_call<float>(call);
      const auto with = [&](int byte) {
        attention::Workspace of_forward, of_backward;
        new_memory = byte;
        Results<float> results(single);
        attention::forward(single.inputs(), single.terms, single.run_options(), results.outputs(single), of_forward,
                           executor);
        attention::backward(single.inputs(), single.terms, single.run_options(), read_only(results.outputs(single)),
                            single.out_gradient_view(), results.gradients(single), of_backward, executor);
        return widened(call, results);
      };
      SCOPED_TRACE(terms_text(terms) + ", window " + std::to_string(edge));
      expect_equal_results(with(0), with(kNanBytes));
    }
  }
}

// --- positions ----------------------------------------------------------------------------------

TEST_P(Extreme, PositionsAtTheEndsOfTheirRange) {
  const int64_t end = (int64_t{1} << 31) - 1;
  for (unsigned terms : kSingleTerms) {
    if (terms == kRotation) continue;  // below
    Call<double> call = sized_call(9, 80, 8, terms);
    if (call.terms.number) {
      for (auto* side : {&call.terms.number->left, &call.terms.number->right}) {
        for (double& x : *side) x *= 1e-9;
      }
    }
    for (int i = 0; i < 9; ++i) call.q_positions.push_back(i % 3 == 0 ? end : i % 3 == 1 ? 0 : end / 2 + i);
    for (int j = 0; j < 80; ++j) call.k_positions.push_back(j % 4 == 0 ? end - j : j % 4 == 1 ? j : 25000000ll * j);
    call = rounded(call);
    SCOPED_TRACE(terms_text(terms));
    for (const bool causal : {false, true}) {
      call.options.causal = causal;
      expect_like_twin(call, run(call), GetParam().eps());
    }
    call.options.window = {int64_t{1} << 30, int64_t{1} << 40};
    expect_like_twin(call, run(call), GetParam().eps());
  }
}

TEST_P(Extreme, RotationsFarFromZeroDependOnDistancesOnly) {
  Call<double> call = sized_call(9, 30, 8, kRotation);
  call.terms.rotation->log_growth.clear();
  call.terms.rotation->frequency = {1, 0.25, 0.0625, 0.001};
  call.terms.rotation->width = 8;
  for (int i = 0; i < 9; ++i) call.q_positions.push_back(21 + i);
  call.k_positions = all_tokens(30);
  const Results<double> near = run(call);
  // Angles are taken in double: at 2^31 they are good to 2^31 times its eps.
  for (auto* list : {&call.q_positions, &call.k_positions}) {
    for (int64_t& p : *list) p += (int64_t{1} << 31) - 31;
  }
  const Results<double> far = run(call);
  const double allowed = 64 * (GetParam().eps() + 0x1p31 * oracle::kEpsDouble);
  for (size_t n = 0; n < near.out.size(); ++n) EXPECT_NEAR(far.out[n], near.out[n], allowed);
}

// --- slices of heads ----------------------------------------------------------------------------

TEST_P(Extreme, D05_HeadSlicesOfEverySchemeAreTheHeads) {
  // Six heads: ALiBi's slopes are no single series. A slice asks its scheme for its heads by their
  // numbers in the whole model; its outputs and gradients are those of the whole, bit by bit.
  for (const std::string& specification : specifications()) {
    Call<double> call;
    call.shape.h = call.shape.hk = 6, call.shape.q = call.shape.k = GetParam().single ? 70 : 20;
    call.shape.d = call.shape.dv = 8;
    call.options.causal = true;
    call = rounded(random_like(call));
    call.options.causal = true;
    const auto scheme = make_scheme(specification);
    locant::Call asked;
    asked.sizes.heads = 6, asked.sizes.head_size = 8, asked.sizes.width = 48;
    asked.causal = true, asked.length = call.shape.k, asked.first_distance = 1 - call.shape.k;
    oracle::Rng rng(3);
    const probe::Store store(*scheme, asked.sizes, [&](const ParameterSpec& spec) {
      return spec.init == ParameterSpec::Init::kUniform ? rng.uniform(spec.low, spec.high) : 0.5 * rng.normal();
    });
    const auto lowered = [&](int first, int heads) {
      asked.first_head = first, asked.heads = heads;
      return cast<double>(cast<float>(lower(*scheme, asked, store.views())));
    };
    call.terms = lowered(0, 0);
    const Results<double> whole = run(call);
    probe::Store want(*scheme, asked.sizes), got(*scheme, asked.sizes);
    const auto learn = [&](const Terms<double>& gradient, probe::Store& into) {
      auto views = into.gradient_views();
      lower_backward(*scheme, asked, store.views(), gradient, views);
    };
    learn(whole.dterms, want);
    SCOPED_TRACE(specification);
    for (const auto& some : {std::pair(0, 1), {1, 3}, {4, 2}}) {
      const int first = some.first, heads = some.second;
      Call<double> slice = call;
      slice.shape.h = slice.shape.hk = heads;
      slice.terms = lowered(first, heads);
      const int n = call.shape.q * 8;
      const auto cut = [&](std::vector<double>& rows) {
        rows = std::vector<double>(rows.begin() + first * n, rows.begin() + (first + heads) * n);
      };
      cut(slice.q), cut(slice.k), cut(slice.v), cut(slice.out_gradient);
      const Results<double> part = run(slice);
      const auto same = [&](const char* name, const std::vector<double>& part, const std::vector<double>& whole) {
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first * n)) << name << " of head " << first;
      };
      same("out", part.out, whole.out);
      same("dq", part.dq, whole.dq);
      same("dk", part.dk, whole.dk);
      same("dv", part.dv, whole.dv);
      learn(part.dterms, got);
    }
    for (const auto& [name, numbers] : want.arrays) {
      // Shared tables are added up in another order.
      oracle::expect_close(name, got.arrays.at(name), numbers, oracle::largest(numbers),
                           sum_length(call.shape), GetParam().eps());
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace locant::test
