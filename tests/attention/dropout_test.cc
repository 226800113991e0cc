// Dropout: which pairs are dropped, that every engine drops the same ones whatever the shard, and that
// the generator has no pattern.
#include "locant/attention/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Dropout);

Call<double> with_dropout(double rate, int b, int h, int hk, int length, int width, unsigned terms) {
  Call<double> call;
  call.shape.b = b, call.shape.h = h, call.shape.hk = hk, call.shape.q = call.shape.k = length;
  call.shape.d = call.shape.dv = width;
  call.term_bits = terms;
  call = rounded(random_like(call, 4));
  call.options.dropout.rate = rate;
  call.options.dropout.seed = 0x123456789ABCDEFull;
  return call;
}

// All scores are 0 and values are unit vectors: an output is the probability, or 0 where it is dropped.
TEST_P(Dropout, DropsWhatTheFunctionSays) {
  constexpr int kLength = 150;
  Call<double> call = with_dropout(.3, 2, 3, 3, kLength, kLength, kNone);
  std::fill(call.q.begin(), call.q.end(), 0);
  std::fill(call.v.begin(), call.v.end(), 0);
  for (size_t n = 0; n < call.v.size(); ++n) {
    if (n / kLength % kLength == n % kLength) call.v[n] = 1;
  }
  const Results<double> got = run(call);
  size_t n = 0;
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 3; ++h) {
      for (int i = 0; i < kLength; ++i) {
        for (int j = 0; j < kLength; ++j) {
          const bool keep = attention::dropout_keeps(call.options.dropout, b, h, i, j);
          const double want = keep ? 1 / .7 / kLength : 0;
          ASSERT_NEAR(got.out[n++], want, 4 * GetParam().eps()) << b << h << " " << i << ", " << j;
        }
      }
    }
  }
}

TEST_P(Dropout, RateZeroIsNoDropoutBitForBit) {
  Call<double> call = with_dropout(0, 2, 2, 1, 70, 20, kAllTerms);
  Call<double> plain = call;
  plain.options.dropout = {};
  each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
              run(call), run(plain));
}

TEST_P(Dropout, EveryMixOfTermsIsTheTwin) {
  for (unsigned terms : kSingleTerms) {
    for (const bool causal : {false, true}) {
      Call<double> call = with_dropout(.1, 1, 2, 1, 140, 24, terms);
      call.options.causal = call.shape.causal = causal;
      SCOPED_TRACE(call.text());
      expect_like_twin(call, run(call), GetParam().eps());
    }
  }
}

TEST_P(Dropout, AnyNumberOfThreadsGivesTheSameBits) {
  const Call<double> call =
      with_dropout(.2, 1, 2, 1, GetParam().single ? 400 : 40, 24, kNumber | kValueRows);
  const Results<double> one = run(call, 1);
  for (int threads : {2, 3, 8}) {
    each_result([&](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                one, run(call, threads));
  }
}

// A shard of batch, heads or queries drops what the whole drops there.
TEST_P(Dropout, ShardsAreTheirPartOfTheWhole) {
  const int L = 90, D = 8;
  const Call<double> whole = with_dropout(.25, 3, 4, 4, L, D, kNone);
  const Results<double> want = run(whole);
  for (int b = 0; b < 3; ++b) {
    for (int h : {0, 2}) {
      Call<double> shard = whole;
      shard.shape.b = 1, shard.shape.h = shard.shape.hk = 2;
      shard.options.dropout.first_batch = b, shard.options.dropout.first_head = h;
      const auto cut = [&](std::vector<double>& rows) {
        const auto from = rows.begin() + (b * 4 + h) * L * D;
        rows = std::vector<double>(from, from + 2 * L * D);
      };
      cut(shard.q), cut(shard.k), cut(shard.v), cut(shard.out_gradient);
      const Results<double> got = run(shard);
      const auto same = [&](const char* name, const std::vector<double>& part,
                            const std::vector<double>& all) {
        for (size_t n = 0; n < part.size(); ++n) {
          ASSERT_EQ(part[n], all[size_t((b * 4 + h) * L * D) + n]) << name << " " << n;
        }
      };
      same("out", got.out, want.out), same("dq", got.dq, want.dq), same("dk", got.dk, want.dk),
          same("dv", got.dv, want.dv);
    }
  }
  // Every third query and a reversed order of keys, told by their numbers.
  Call<double> some = with_dropout(.25, 1, 1, 1, L, D, kNone);
  const Results<double> all = run(some);
  Call<double> picked = some;
  picked.shape.q = L / 3;
  picked.q.clear(), picked.out_gradient.clear(), picked.k.clear(), picked.v.clear();
  for (int i = 0; i < L; i += 3) {
    picked.q_tokens.push_back(i);
    append(picked.q, some.q, i * D, D), append(picked.out_gradient, some.out_gradient, i * D, D);
  }
  for (int j = L - 1; j >= 0; --j) {
    picked.k_tokens.push_back(j);
    append(picked.k, some.k, j * D, D), append(picked.v, some.v, j * D, D);
  }
  const Results<double> got = run(picked);
  const Results<Sized> sized = run_twin(cast_call<Sized>(picked), false);
  for (int i = 0; i < L / 3; ++i) {
    for (int c = 0; c < D; ++c) {
      EXPECT_NEAR(got.out[size_t(i * D + c)], all.out[size_t(3 * i * D + c)],
                  oracle::kSafety * double(1 + sum_length(picked.shape)) * GetParam().eps() *
                      sized.out[size_t(i * D + c)].size);
    }
  }
}

// --- the generator ------------------------------------------------------------------------------

using attention::dropout_keeps;

// Dropped pairs as numbers of mean 0 and variance 1.
struct Mask {
  int rows, columns;
  double rate;
  std::vector<float> x;
  template <class Keeps>
  Mask(int rows, int columns, double rate, Keeps keeps) : rows(rows), columns(columns), rate(rate) {
    const double deviation = std::sqrt(rate * (1 - rate));
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        x.push_back(float(((keeps(r, c) ? 0 : 1) - rate) / deviation));
      }
    }
  }
  float at(int r, int c) const { return x[size_t(r) * size_t(columns) + size_t(c)]; }
};

// A sum of n independent products in units of its deviation: 5 of them happen once in two million.
constexpr double kChance = 5;
double correlation(const Mask& a, const Mask& b, int row_step, int column_step) {
  double sum = 0, n = 0;
  for (int r = 0; r + row_step < a.rows; ++r) {
    for (int c = 0; c + column_step < a.columns; ++c, ++n) {
      sum += double(a.at(r, c)) * double(b.at(r + row_step, c + column_step));
    }
  }
  return sum / std::sqrt(n);
}

TEST(DropoutGenerator, HasTheRateAndNoPattern) {
  for (double rate : {.1, .5, .02}) {
    attention::Dropout dropout;
    dropout.rate = rate, dropout.seed = 77;
    const auto mask = [&](int64_t b, int64_t h, const attention::Dropout& d) {
      return Mask(512, 1024, rate, [&](int i, int j) { return dropout_keeps(d, b, h, i, j); });
    };
    const Mask base = mask(0, 0, dropout);
    double sum = 0;
    for (float x : base.x) sum += double(x);
    EXPECT_LT(std::fabs(sum) / std::sqrt(double(base.x.size())), kChance) << rate;
    // Rows and columns are neither too even nor too uneven: their sums have variance 1.
    const auto variance = [&](int n, int m, auto at) {
      double squares = 0;
      for (int a = 0; a < n; ++a) {
        double line = 0;
        for (int b = 0; b < m; ++b) line += double(at(a, b));
        squares += line * line / m;
      }
      EXPECT_LT(std::fabs(squares / n - 1) / std::sqrt(2.0 / n), kChance) << rate << " " << n;
    };
    variance(base.rows, base.columns, [&](int a, int b) { return base.at(a, b); });
    variance(base.columns, base.rows, [&](int a, int b) { return base.at(b, a); });
    for (const auto& [i, j] : {std::pair(0, 1), {0, 2}, {0, 3}, {0, 16}, {0, 64}, {0, 512}, {1, 0},
                               {1, 1}, {2, 1}, {64, 0}, {64, 64}, {17, 5}}) {
      EXPECT_LT(std::fabs(correlation(base, base, i, j)), kChance) << rate << " " << i << " " << j;
    }
    // Another head, batch or seed is another mask.
    attention::Dropout other = dropout, high = dropout;
    other.seed = 78;
    high.seed = dropout.seed + (uint64_t{1} << 32);
    const Mask others[] = {mask(0, 1, dropout), mask(1, 0, dropout), mask(0, 0, other), mask(0, 0, high)};
    for (const Mask& one : others) {
      for (const auto& [i, j] : {std::pair(0, 0), {0, 1}, {1, 0}, {1, 1}}) {
        EXPECT_LT(std::fabs(correlation(base, one, i, j)), kChance) << rate << " " << i << " " << j;
      }
    }
    // Runs: three neighbours dropped together come as often as chance has it.
    double triples = 0, n = 0;
    for (int r = 0; r < base.rows; ++r) {
      for (int c = 0; c + 2 < base.columns; ++c, ++n) {
        triples += double(base.at(r, c)) * double(base.at(r, c + 1)) * double(base.at(r, c + 2));
      }
    }
    EXPECT_LT(std::fabs(triples) / std::sqrt(n), kChance) << rate;
  }
}

// Published nowhere and fixed for ever: a mask must not change between versions.
TEST(DropoutGenerator, IsFixed) {
  attention::Dropout dropout;
  dropout.rate = .5, dropout.seed = 42, dropout.first_batch = 1, dropout.first_head = 2;
  uint32_t bits = 0;
  for (int j = 0; j < 32; ++j) bits |= uint32_t(dropout_keeps(dropout, 3, 4, 5, j)) << j;
  EXPECT_EQ(bits, 0xFCF8FDBu);
  EXPECT_EQ(attention::dropout_threshold(0), 0u);
  EXPECT_EQ(attention::dropout_threshold(.5), 0x80000000u);
  EXPECT_EQ(attention::dropout_threshold(1 - 0x1p-40), UINT32_MAX);
}

}  // namespace
}  // namespace locant::test
