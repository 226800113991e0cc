// The same bits for any number of threads and from run to run: every term, outputs and gradients,
// also with one batch and one head, with enough tiles that every worker gets some.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Determinism);

// EXPECT_EQ of doubles would let 0 and -0 pass as equal.
void expect_same_bits(const Results<double>& a, const Results<double>& b) {
  each_result(
      [](const char* name, const auto& a, const auto& b) {
        ASSERT_EQ(a.size(), b.size()) << name;
        if (a.empty()) return;
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]), 0) << name << " differs";
      },
      a, b);
}

// The twin in double is serial and slow: it gets a short one.
Call<double> long_call(const Engine& engine, int b, int h, int hk, unsigned terms, bool causal) {
  Call<double> call;
  call.shape.b = b, call.shape.h = h, call.shape.hk = hk;
  call.shape.q = call.shape.k = engine.single ? 500 : 50;
  call.shape.d = call.shape.dv = 24;
  call.term_bits = terms;
  call = random_like(call);
  call.options.causal = causal;
  return call;
}

TEST_P(Determinism, AnyNumberOfThreadsGivesTheSameBits) {
  for (unsigned terms :
       {unsigned(kNone), unsigned(kNumber), unsigned(kQueryRows), unsigned(kKeyRows),
        unsigned(kValueRows), unsigned(kContentBias), unsigned(kRotation), unsigned(kAllTerms)}) {
    for (const auto& [b, h, hk] : {std::tuple(1, 1, 1), {2, 4, 2}}) {
      const Call<double> call = long_call(GetParam(), b, h, hk, terms, terms % 2);
      SCOPED_TRACE(terms_text(terms) + " batch " + std::to_string(b));
      const Results<double> one = run(call, 1);
      for (int threads : {2, 3, 8}) {
        SCOPED_TRACE(std::to_string(threads) + " threads");
        expect_same_bits(one, run(call, threads));
      }
    }
  }
}

TEST_P(Determinism, RunAfterRunGivesTheSameBits) {
  const Call<double> call = long_call(GetParam(), 1, 2, 1, kAllTerms, true);
  const Results<double> first = run(call, 3);
  for (int repeat = 0; repeat < 5; ++repeat) expect_same_bits(first, run(call, 3));
}

TEST_P(Determinism, AWindowAndUnsortedPositionsToo) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Call<double> call =
        random_call(seed, kAllTerms | (seed % 2 ? unsigned(kDropout) : 0u), {2, 2, 200, 20});
    SCOPED_TRACE(call.text());
    expect_same_bits(run(call, 1), run(call, 3));
  }
}

}  // namespace
}  // namespace locant::test
