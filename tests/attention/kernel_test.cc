// The fast path against the double twin: seeded random shapes, options, positions and terms,
// outputs and every gradient, on every instruction set of this machine; and the sets against each
// other.
#include <gtest/gtest.h>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

// On every engine; false after a failure: one is enough to read.
bool is_twin(const Call<double>& call) {
  SCOPED_TRACE(call.text());
  const Expected expected(call);
  for (const Engine& engine : all_engines()) {
    SCOPED_TRACE(engine.name());
    expect_like_twin(call, expected, run(engine, call), engine.eps());
  }
  return !testing::Test::HasFailure();
}

TEST(Kernel, IsTheTwinOnSmallShapes) {
  for (unsigned terms : kSingleTerms) {
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      const unsigned dropout = seed % 4 ? 0u : unsigned(kDropout);
      if (!is_twin(rounded(random_call(seed, terms | dropout)))) return;
    }
  }
}

TEST(Kernel, IsTheTwinForAnyMixOfTerms) {
  for (uint64_t seed = 1000; seed < 1150; ++seed) {
    const unsigned dropout = seed % 3 ? 0u : unsigned(kDropout);
    const unsigned terms = oracle::Rng(seed).bits() & kAllTerms;
    if (!is_twin(rounded(random_call(seed, terms | dropout)))) return;
  }
}

// Several tiles in each direction, head sizes beyond a few vectors.
TEST(Kernel, IsTheTwinOverManyTiles) {
  for (uint64_t seed = 2000; seed < 2024; ++seed) {
    const unsigned terms =
        seed % 2 ? oracle::Rng(seed).bits() & kAllTerms : kSingleTerms[seed / 2 % 7];
    const unsigned dropout = seed % 3 ? 0u : unsigned(kDropout);
    if (!is_twin(rounded(random_call(seed, terms | dropout, {2, 2, 300, 136})))) return;
  }
}

// Tables of more rows than are multiplied in advance; keys as they are, turned, and with a content bias.
TEST(Kernel, IsTheTwinWithVeryManyRows) {
  for (unsigned terms : {unsigned(kNone), unsigned(kRotation), unsigned(kContentBias)}) {
    if (!is_twin(rounded(random_call_of_many_rows(1, terms)))) return;
  }
}

// One row a distance, far more of them than a call reaches, the last for all beyond: Shaw's table of a
// model for long texts on a short one.
TEST(Kernel, IsTheTwinWithRowsFarBeyondTheCall) {
  const auto far = [](int length, int reach, bool causal, int64_t left) {
    Call<double> call;
    call.shape.q = call.shape.k = length;
    call.shape.d = call.shape.dv = 8;
    call.options.causal = call.shape.causal = causal;
    call.options.window.left = left;
    return rounded(random_call_of_far_rows(call, reach));
  };
  if (!is_twin(far(20, 128, false, -1)) || !is_twin(far(100, 512, false, -1))) return;
  if (!is_twin(far(300, 256, true, -1)) || !is_twin(far(300, 256, false, 16))) return;
}

// Sizes around every tile and vector edge.
TEST(Kernel, IsTheTwinAtTheEdges) {
  for (int length : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 193}) {
    for (int width : {1, 8, 16, 33, 64, 80}) {
      Call<double> call;
      call.shape.q = length, call.shape.k = length, call.shape.d = call.shape.dv = width;
      call.term_bits = kSingleTerms[(length + width) % 7];
      call = rounded(random_like(call, uint64_t(length * 100 + width)));
      call.options.causal = (length + width / 8) % 2;
      call.shape.causal = call.options.causal;
      if (!is_twin(call)) return;
    }
  }
}

TEST(KernelSets, AtLeastTheTwinIsThere) {
  ASSERT_FALSE(simd::available().empty());
  for (simd::Set set : simd::available()) {
    const Using use(set);
    EXPECT_EQ(simd::chosen(), set);
    RecordProperty(std::string(simd::name(set)), "tested");
  }
}

}  // namespace
}  // namespace locant::test
