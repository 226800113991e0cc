// Packed sequences of different lengths in one call: they are what each sequence is alone, and what
// they are as a padded batch; results, every gradient, every term. On every engine.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Packing);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t length(const std::vector<int64_t>& starts, int64_t s) {
  return starts[size_t(s) + 1] - starts[size_t(s)];
}

// Sequence s of rows [heads][total][width] in the call's memory order, as [heads][length][width].
std::vector<double> cut_rows(const Call<double>& call, const std::vector<double>& data, int heads,
                             const std::vector<int64_t>& starts, int64_t s, int width) {
  std::vector<double> to;
  const auto view = call.rows(data.data(), heads, starts.back(), width);
  for (int h = 0; h < heads; ++h) {
    for (int64_t t = starts[size_t(s)]; t < starts[size_t(s) + 1]; ++t) {
      for (int c = 0; c < width; ++c) to.push_back(view(0, h, t, c));
    }
  }
  return to;
}
template <class T>
std::vector<T> cut(const std::vector<T>& from, const std::vector<int64_t>& starts, int64_t s) {
  if (from.empty()) return {};
  return {from.begin() + starts[size_t(s)], from.begin() + starts[size_t(s) + 1]};
}

// Sequence s as a call of its own.
Call<double> single(const Call<double>& packed, int64_t s) {
  Call<double> one = packed;
  const oracle::Shape& p = packed.shape;
  one.q_starts.clear(), one.k_starts.clear();
  one.tokens_first = false;
  one.shape.q = int(length(packed.q_starts, s)), one.shape.k = int(length(packed.k_starts, s));
  one.q = cut_rows(packed, packed.q, p.h, packed.q_starts, s, p.d);
  one.k = cut_rows(packed, packed.k, p.hk, packed.k_starts, s, p.d);
  one.v = cut_rows(packed, packed.v, p.hk, packed.k_starts, s, p.dv);
  one.out_gradient = cut_rows(packed, packed.out_gradient, p.h, packed.q_starts, s, p.dv);
  one.q_positions = cut(packed.q_positions, packed.q_starts, s);
  one.k_positions = cut(packed.k_positions, packed.k_starts, s);
  one.q_tokens = cut(packed.q_tokens, packed.q_starts, s);
  one.k_tokens = cut(packed.k_tokens, packed.k_starts, s);
  one.options.dropout.first_batch += s;
  one.key_numbers.clear();
  for (int64_t h = 0; h < packed.key_heads; ++h) {
    for (int64_t j = packed.k_starts[size_t(s)]; j < packed.k_starts[size_t(s) + 1]; ++j) {
      one.key_numbers.push_back(packed.key_numbers[size_t(h * p.k + j)]);
    }
  }
  return one;
}

// Sequence s out of packed results; tables stay empty.
Results<double> single_results(const Call<double>& packed, const Results<double>& from,
                               const Call<double>& one, int64_t s) {
  Results<double> to(one);
  const oracle::Shape& p = packed.shape;
  to.out = cut_rows(packed, from.out, p.h, packed.q_starts, s, p.dv);
  to.dq = cut_rows(packed, from.dq, p.h, packed.q_starts, s, p.d);
  to.dk = cut_rows(packed, from.dk, p.hk, packed.k_starts, s, p.d);
  to.dv = cut_rows(packed, from.dv, p.hk, packed.k_starts, s, p.dv);
  to.lse.clear(), to.dkey.clear();
  for (int h = 0; h < p.h; ++h) {
    for (int64_t i = packed.q_starts[size_t(s)]; i < packed.q_starts[size_t(s) + 1]; ++i) {
      to.lse.push_back(from.lse[size_t(h * p.q + i)]);
    }
  }
  for (int64_t h = 0; h < packed.key_heads; ++h) {
    for (int64_t j = packed.k_starts[size_t(s)]; j < packed.k_starts[size_t(s) + 1]; ++j) {
      to.dkey.push_back(from.dkey[size_t(h * p.k + j)]);
    }
  }
  to.dterms = {};
  return to;
}

// The packed results are those of the twin on each sequence alone, tables their sum.
void expect_each_alone(const Call<double>& packed, const Results<double>& got, double eps) {
  SCOPED_TRACE(packed.text());
  Results<double> sum(packed);
  Results<Sized> sizes(cast_call<Sized>(packed));
  const auto add = [](const char*, auto& to, const auto& from) {
    for (size_t n = 0; n < to.size(); ++n) to[n] += from[n];
  };
  for (int64_t s = 0; s + 1 < int64_t(packed.q_starts.size()); ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    const Call<double> one = single(packed, s);
    Expected expected(one);
    each_table(add, sum.dterms, expected.want.dterms);
    each_table(add, sizes.dterms, expected.sized.dterms);
    expected.want.dterms = {}, expected.sized.dterms = {};
    expect_like_twin(one, expected, single_results(packed, got, one, s), eps);
  }
  each_table(
      [&](const char* name, const auto& got, const auto& want, const auto& sized) {
        std::vector<double> size;
        for (const Sized& x : sized) size.push_back(x.size);
        oracle::expect_close(name, got, want, size, sum_length(packed.shape), eps);
      },
      got.dterms, sum.dterms, sizes.dterms);
}

TEST_P(Packing, EverySequenceIsItselfAlone) {
  for (unsigned terms : kSingleTerms) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const unsigned dropout = seed % 2 ? 0u : unsigned(kDropout);
      const Call<double> call = random_packed(seed, terms | dropout, {}, 1 + int(seed % 5));
      expect_each_alone(call, run(call, 1 + int(seed % 3)), GetParam().eps());
      if (HasFailure()) return;
    }
  }
}

TEST_P(Packing, AnyMixOfTermsOverManyTiles) {
  for (uint64_t seed = 100; seed < 116; ++seed) {
    const unsigned terms = oracle::Rng(seed).bits() & (kAllTerms | kDropout);
    const Call<double> call = random_packed(seed, terms, {1, 4, 420, 40}, 1 + int(seed % 7));
    expect_each_alone(call, run(call), GetParam().eps());
    if (HasFailure()) return;
  }
}

// D60: documents packed in a row count their positions again and do not see each other: twice the
// same document gives twice the same output, bit for bit.
TEST_P(Packing, D60_TheSameDocumentTwiceGivesTheSameTwice) {
  for (unsigned terms : kSingleTerms) {
    const int L = 77, D = 16;
    Call<double> call;
    call.shape.h = call.shape.hk = 2, call.shape.q = call.shape.k = 2 * L;
    call.shape.d = call.shape.dv = D;
    call.term_bits = terms;
    call = rounded(random_like(call));
    call.options.causal = true;
    call.q_starts = call.k_starts = {0, L, 2 * L};
    for (auto* rows : {&call.q, &call.k, &call.v, &call.out_gradient}) {
      for (int h = 0; h < 2; ++h) {
        std::copy_n(rows->begin() + 2 * h * L * D, L * D, rows->begin() + (2 * h + 1) * L * D);
      }
    }
    const Results<double> got = run(call);
    for (const auto* rows : {&got.out, &got.dq, &got.dk, &got.dv}) {
      for (int h = 0; h < 2; ++h) {
        const double* first = rows->data() + 2 * h * L * D;
        EXPECT_EQ(std::memcmp(first, first + L * D, L * D * sizeof(double)), 0) << terms_text(terms);
      }
    }
  }
}

TEST_P(Packing, EqualsThePaddedBatch) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms), unsigned(kAllTerms | kDropout)}) {
    const int L = 90, H = 2, D = 8;
    const std::vector<int64_t> starts{0, 90, 90, 131, 200};
    Call<double> packed;
    packed.shape.h = packed.shape.hk = H, packed.shape.q = packed.shape.k = 200;
    packed.shape.d = packed.shape.dv = D;
    packed.term_bits = terms & kAllTerms;
    packed = rounded(random_like(packed));
    packed.options.causal = true;
    if (terms & kDropout) packed.options.dropout.rate = .2, packed.options.dropout.seed = 9;
    packed.q_starts = packed.k_starts = starts;
    Call<double> padded = packed;
    padded.q_starts.clear(), padded.k_starts.clear();
    padded.shape.b = 4, padded.shape.q = padded.shape.k = L;
    padded.key_batches = 4, padded.key_heads = 1;
    padded.key_numbers.assign(4 * L, -kInfinity);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto pad = [&](const std::vector<double>& from, double filler) {
      std::vector<double> to(size_t(4 * H * L * D), filler);
      for (int64_t s = 0; s < 4; ++s) {
        for (int h = 0; h < H; ++h) {
          std::copy_n(from.begin() + (h * 200 + starts[size_t(s)]) * D, length(starts, s) * D,
                      to.begin() + ((s * H + h) * L) * D);
        }
        std::fill_n(padded.key_numbers.begin() + s * L, length(starts, s), 0.0);
      }
      return to;
    };
    padded.q = pad(packed.q, 1), padded.k = pad(packed.k, nan), padded.v = pad(packed.v, nan);
    padded.out_gradient = pad(packed.out_gradient, 0);  // nobody asks for padding
    const Results<double> want = run(padded), got = run(packed);
    const Expected expected(packed);
    const double allowed = oracle::kSafety * double(1 + sum_length(packed.shape)) * GetParam().eps();
    const auto compare = [&](const char* name, const std::vector<double>& got,
                             const std::vector<double>& want, const std::vector<Sized>& sized) {
      for (int64_t s = 0; s < 4; ++s) {
        for (int h = 0; h < H; ++h) {
          for (int64_t n = 0; n < length(starts, s) * D; ++n) {
            const size_t at = size_t((h * 200 + starts[size_t(s)]) * D + n);
            ASSERT_NEAR(got[at], want[size_t(((s * H + h) * L) * D + n)], 2 * allowed * sized[at].size)
                << name << " sequence " << s;
          }
        }
      }
    };
    compare("out", got.out, want.out, expected.sized.out);
    compare("dq", got.dq, want.dq, expected.sized.dq);
    compare("dk", got.dk, want.dk, expected.sized.dk);
    compare("dv", got.dv, want.dv, expected.sized.dv);
    each_table(
        [&](const char* name, const auto& got, const auto& want, const auto& sized) {
          for (size_t n = 0; n < got.size(); ++n)
            ASSERT_NEAR(got[n], want[n], 2 * allowed * sized[n].size) << name;
        },
        got.dterms, want.dterms, expected.sized.dterms);
  }
}

// One long sequence among short ones, and so many that they share the sums of their tables.
TEST_P(Packing, AnyNumberOfThreadsGivesTheSameBits) {
  for (const int count : {5, 150}) {
    for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms), unsigned(kAllTerms | kDropout)}) {
      const int scale = GetParam().single ? 1 : 4;  // the twin in double is slow
      Call<double> call;
      call.shape.h = 4, call.shape.hk = 2, call.shape.d = call.shape.dv = 12;
      call.q_starts = {0};
      for (int s = 0; s < count / scale; ++s) {
        const int length = s == 1 ? 400 / scale : s * 7 % 23;
        call.q_starts.push_back(call.q_starts.back() + length);
      }
      const std::vector<int64_t> starts = call.q_starts;
      call.shape.q = call.shape.k = int(starts.back());
      call.term_bits = terms & kAllTerms;
      call = random_like(call);
      call.q_starts = call.k_starts = starts;
      call.options.causal = terms != kNone;
      if (terms & kDropout) call.options.dropout.rate = .1;
      const Results<double> one = run(call, 1);
      for (int threads : {2, 3, 8}) {
        each_result(
            [&](const char* name, const auto& a, const auto& b) {
              ASSERT_EQ(a.size(), b.size());
              EXPECT_EQ(a.empty() ? 0 : std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]), 0)
                  << name << " of " << count << " sequences, " << threads << " threads";
            },
            one, run(call, threads));
      }
    }
  }
}

TEST_P(Packing, NoSequencesAtAll) {
  Call<double> call;
  call.shape.h = 2, call.shape.hk = 1, call.shape.q = call.shape.k = 0;
  call.shape.d = call.shape.dv = 4;
  const Call<double> full = [&] {
    Call<double> like = call;
    like.shape.q = like.shape.k = 3;
    like.term_bits = kAllTerms;
    return random_like(like);
  }();
  call.terms = full.terms;
  for (const std::vector<int64_t>& starts : {std::vector<int64_t>{0}, {0, 0, 0}}) {
    call.q_starts = call.k_starts = starts;
    const Results<double> got = run(call);
    each_table(
        [](const char* name, const auto& numbers) {
          for (double x : numbers) EXPECT_EQ(x, 0) << name;
        },
        got.dterms);
  }
}

}  // namespace
}  // namespace locant::test
