// bf16 calls on every instruction set: at most twice the error of a plain bf16 computation, for all
// terms and shapes; exactly the float kernel, rounded, where there is no bf16 arithmetic; the same
// bits for any number of threads.
#include "locant/base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "tests/attention/engines.h"
#include "tests/attention/number_hook.h"
#include "tests/attention/plain_bf16.h"

namespace locant::test {
namespace {

bool has_bf16_arithmetic(simd::Set set) { return set == simd::Set::kAvx512Bf16; }

// q, k, v and the gradient of the output rounded to bf16, all else to float.
Call<double> rounded_to_bf16(const Call<double>& call) {
  Call<double> to = rounded(call);
  for (auto* numbers : {&to.q, &to.k, &to.v, &to.out_gradient}) {
    for (double& x : *numbers) x = to_float(to_bf16(float(x)));
  }
  return to;
}

std::vector<Bf16> halves(const std::vector<double>& from) {
  std::vector<Bf16> to;
  for (double x : from) to.push_back(to_bf16(float(x)));
  return to;
}
void widen(const std::vector<Bf16>& from, std::vector<double>& to) {
  for (size_t n = 0; n < from.size(); ++n) to[n] = to_float(from[n]);
}

// The public functions in bf16.
Results<double> run_bf16(const Call<double>& call, int threads) {
  ThreadPool pool(threads);
  const oracle::Shape& s = call.shape;
  const Call<float> single = cast_call<float>(call);
  Results<float> r(single);
  const std::vector<Bf16> q = halves(call.q), k = halves(call.k), v = halves(call.v),
                          dout = halves(call.out_gradient);
  std::vector<Bf16> out = dout, dq = q, dk = k, dv = v;
  const attention::Inputs<float> like = single.inputs();
  attention::Inputs<Bf16> in;
  in.q = call.rows(q.data(), s.h, s.q, s.d);
  in.k = call.rows(k.data(), s.hk, s.k, s.d);
  in.v = call.rows(v.data(), s.hk, s.k, s.dv);
  in.number_per_key = like.number_per_key;
  in.q_positions = like.q_positions, in.k_positions = like.k_positions;
  in.cu_seqlens_q = like.cu_seqlens_q, in.cu_seqlens_k = like.cu_seqlens_k;
  const attention::Outputs<Bf16> to{call.rows(out.data(), s.h, s.q, s.dv), r.outputs(single).lse};
  attention::Workspace workspace;
  attention::forward(in, single.terms, call.run_options(), to, workspace, pool);
  const attention::Gradients<float> tables = r.gradients(single);
  attention::Gradients<Bf16> g;
  g.q = call.rows(dq.data(), s.h, s.q, s.d);
  g.k = call.rows(dk.data(), s.hk, s.k, s.d);
  g.v = call.rows(dv.data(), s.hk, s.k, s.dv);
  g.number_per_key = tables.number_per_key, g.terms = tables.terms;
  attention::backward<Bf16>(in, single.terms, call.run_options(), {to.out, to.lse},
                            call.rows(dout.data(), s.h, s.q, s.dv), g, workspace, pool);
  Results<double> results = widened(call, r);
  widen(out, results.out), widen(dq, results.dq), widen(dk, results.dk), widen(dv, results.dv);
  return results;
}

// number_as_hook: its number per distance is added by a hook, to the same effect.
bool is_close(const Call<double>& random, bool number_as_hook = false) {
  const Call<double> call = rounded_to_bf16(random);
  SCOPED_TRACE(call.text());
  const Expected expected(call);
  const Results<Plain> plain = run_twin(cast_call<Plain>(call));
  for (simd::Set set : simd::available()) {
    SCOPED_TRACE(simd::name(set));
    const Using use(set);
    each_result(
        [&](const char* name, const auto& got, const auto& plain, const auto& want,
            const auto& sized) {
          std::vector<double> rough, size;
          for (const Plain& x : plain) rough.push_back(x.value);
          for (const Sized& x : sized) size.push_back(x.size);
          oracle::expect_bf16_close(name, got, rough, want, size);
        },
        number_as_hook ? as_number(call, run_bf16(with_hook(call), 2)) : run_bf16(call, 2), plain, expected.want,
        expected.sized);
  }
  return !testing::Test::HasFailure();
}

TEST(Bf16, IsNearTheTwinOnSmallShapes) {
  for (unsigned terms : kSingleTerms) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      const unsigned dropout = seed % 4 ? 0u : unsigned(kDropout);
      if (!is_close(random_call(seed, terms | dropout))) return;
    }
  }
}

TEST(Bf16, IsNearTheTwinForAnyMixOfTerms) {
  for (uint64_t seed = 1000; seed < 1100; ++seed) {
    const unsigned dropout = seed % 3 ? 0u : unsigned(kDropout);
    const unsigned terms = oracle::Rng(seed).bits() & kAllTerms;
    if (!is_close(random_call(seed, terms | dropout))) return;
  }
}

TEST(Bf16, IsNearTheTwinOverManyTiles) {
  for (uint64_t seed = 2000; seed < 2028; ++seed) {
    const unsigned terms =
        seed % 2 ? oracle::Rng(seed).bits() & kAllTerms : kSingleTerms[seed / 2 % 7];
    const unsigned dropout = seed % 3 ? 0u : unsigned(kDropout);
    if (!is_close(random_call(seed, terms | dropout, {2, 2, 300, 136}))) return;
  }
}

TEST(Bf16, IsNearTheTwinWithVeryManyRows) {
  is_close(random_call_of_many_rows(1, kNone));
  is_close(random_call_of_many_rows(2, kRotation));
}

TEST(Bf16, IsNearTheTwinForPackedSequences) {
  for (uint64_t seed = 3000; seed < 3060; ++seed) {
    const unsigned terms =
        seed % 2 ? oracle::Rng(seed).bits() & kAllTerms : kSingleTerms[seed / 2 % 7];
    Call<double> call = random_call(seed, terms, {1, 2, 150, 40});
    call.q_starts = {0, call.shape.q / 3, call.shape.q};
    call.k_starts = {0, call.shape.k / 2, call.shape.k};
    if (!is_close(call)) return;
  }
}

TEST(Bf16, IsNearTheTwinWithAHook) {
  for (uint64_t seed = 4000; seed < 4060; ++seed) {
    const unsigned others = seed % 3 ? 0u : oracle::Rng(seed).bits() & (kAllTerms | kDropout);
    Call<double> call = number_call(seed, others, {2, 2, seed % 4 ? 40 : 200, 40});
    if (seed % 5 == 0 && call.shape.b == 1 && call.q_positions.empty()) {
      call.q_starts = {0, call.shape.q / 3, call.shape.q};
      call.k_starts = {0, call.shape.k / 2, call.shape.k};
    }
    if (!is_close(call, true)) return;
  }
}

// A cache that is not filled: what stands behind the last query is never looked at, although a product
// takes keys two at a time.
TEST(Bf16, NanBehindTheLastQueryDoesNotSpread) {
  for (int filled : {1, 2, 5, 17, 32, 33, 64, 71}) {
    for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
      Call<double> clean;
      clean.shape.h = 2, clean.shape.q = filled, clean.shape.k = 100;
      clean.shape.d = clean.shape.dv = 20;
      clean.term_bits = terms;
      clean = rounded_to_bf16(random_like(clean, uint64_t(filled)));
      clean.options.causal = true;
      for (int t = 0; t < filled; ++t) clean.q_positions.push_back(t);
      for (int t = 0; t < 100; ++t) clean.k_positions.push_back(t);
      Call<double> dirty = clean;
      const double nan = std::numeric_limits<double>::quiet_NaN();
      for (size_t n = size_t(filled) * 20; n < dirty.k.size(); ++n) dirty.k[n] = dirty.v[n] = nan;
      for (simd::Set set : simd::available()) {
        SCOPED_TRACE(std::string(simd::name(set)) + ", " + std::to_string(filled) + " filled");
        const Using use(set);
        each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                    run_bf16(clean, 1), run_bf16(dirty, 1));
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Padding on the left: q and the gradient of the output may be anything where no key is seen.
TEST(Bf16, NanInAQueryThatSeesNothingStaysNowhere) {
  constexpr int kBlind = 21;  // a pair of rows has one of them and one that sees
  for (int length : {40, 150}) {
    for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
      Call<double> clean;
      clean.shape.h = 2, clean.shape.q = clean.shape.k = length;
      clean.shape.d = clean.shape.dv = 20;
      clean.term_bits = terms;
      clean = rounded_to_bf16(random_like(clean, uint64_t(length)));
      clean.options.causal = true;
      clean.key_batches = clean.key_heads = 1;
      clean.key_numbers.assign(size_t(length), 0.25);
      std::fill_n(clean.key_numbers.begin(), kBlind, -std::numeric_limits<double>::infinity());
      Call<double> dirty = clean;
      for (int h = 0; h < 2; ++h) {
        const size_t at = size_t(h * length) * 20;
        std::fill_n(dirty.q.begin() + at, kBlind * 20, std::numeric_limits<double>::quiet_NaN());
        std::fill_n(dirty.out_gradient.begin() + at, kBlind * 20, std::numeric_limits<double>::infinity());
      }
      for (simd::Set set : simd::available()) {
        SCOPED_TRACE(std::string(simd::name(set)) + ", length " + std::to_string(length));
        const Using use(set);
        each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                    run_bf16(clean, 1), run_bf16(dirty, 1));
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Bf16, IsNearTheTwinAtTheEdges) {
  for (int length : {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 193}) {
    for (int width : {1, 8, 16, 33, 64, 80}) {
      Call<double> call;
      call.shape.q = length, call.shape.k = length, call.shape.d = call.shape.dv = width;
      call.term_bits = kSingleTerms[(length + width) % 7];
      call = random_like(call, uint64_t(length * 100 + width));
      call.options.causal = call.shape.causal = (length + width / 8) % 2;
      if (!is_close(call)) return;
    }
  }
}

// Without bf16 arithmetic only rows are converted: the float kernel's results, rounded.
TEST(Bf16, IsTheRoundedFloatKernelWhereOnlyTheStorageIsBf16) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const unsigned terms = seed % 3 ? oracle::Rng(seed).bits() & kAllTerms : unsigned(kNone);
    const unsigned dropout = seed % 4 ? 0u : unsigned(kDropout);
    const Call<double> call =
        rounded_to_bf16(random_call(seed, terms | dropout, {2, 2, 150, 80}));
    SCOPED_TRACE(call.text());
    for (simd::Set set : simd::available()) {
      if (has_bf16_arithmetic(set)) continue;
      SCOPED_TRACE(simd::name(set));
      const Using use(set);
      const Results<double> got = run_bf16(call, 1);
      // The float kernel, its backward on the rounded output.
      SerialExecutor executor;
      const Call<float> single = cast_call<float>(call);
      attention::Workspace workspace;
      Results<float> want(single);
      attention::forward(single.inputs(), single.terms, single.run_options(), want.outputs(single),
                         workspace, executor);
      for (float& x : want.out) x = to_float(to_bf16(x));
      attention::backward(single.inputs(), single.terms, single.run_options(),
                          read_only(want.outputs(single)), single.out_gradient_view(),
                          want.gradients(single), workspace, executor);
      for (auto* numbers : {&want.dq, &want.dk, &want.dv}) {
        for (float& x : *numbers) x = to_float(to_bf16(x));
      }
      each_result(
          [](const char* name, const auto& got, const auto& want) {
            for (size_t n = 0; n < got.size(); ++n) {
              ASSERT_EQ(got[n], double(want[n])) << name << " at " << n;
            }
          },
          got, want);
    }
    if (testing::Test::HasFailure()) return;
  }
}

// One key: the output is its value, whatever it is. Two keys with the same score: their mean, to the
// nearest. Kernels have conversions of their own, so all values pass through them.
TEST(Bf16, KernelsConvertLikeTheDefinition) {
  constexpr int kWidth = 250;
  for (simd::Set set : simd::available()) {
    SCOPED_TRACE(simd::name(set));
    const Using use(set);
    for (uint32_t first = 0; first < 1u << 16; first += kWidth) {
      for (int keys : {1, 2}) {
        std::vector<Bf16> v, out(kWidth);
        for (int j = 0; j < keys; ++j) {
          for (int c = 0; c < kWidth; ++c) {
            v.push_back({static_cast<uint16_t>(first + uint32_t(c) + uint32_t(j) * 77)});
          }
        }
        const std::vector<Bf16> q(1), k(2);
        attention::Inputs<Bf16> in;
        in.q = {q.data(), {1, 1, 1, 1}};
        in.k = {k.data(), {1, 1, keys, 1}};
        in.v = {v.data(), {1, 1, keys, kWidth}};
        attention::Workspace workspace;
        SerialExecutor executor;
        attention::forward(in, {}, {}, {{out.data(), {1, 1, 1, kWidth}}, {}}, workspace, executor);
        for (int c = 0; c < kWidth; ++c) {
          float want = to_float(v[size_t(c)]);
          if (keys == 2) want = (want + to_float(v[size_t(kWidth + c)])) * 0.5f;
          const float got = to_float(out[size_t(c)]);
          // The dot product of AVX-512 takes denormals as zero.
          const bool vanishes = has_bf16_arithmetic(set) && std::fabs(want) < 0x1p-120f;
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << "value " << first + uint32_t(c);
          } else if (vanishes) {
            ASSERT_LE(std::fabs(got), 0x1p-119f);
          } else if (std::isfinite(want)) {
            ASSERT_EQ(got, to_float(to_bf16(want))) << "value " << first + uint32_t(c);
          }
        }
      }
    }
  }
}

TEST(Bf16, AnyNumberOfThreadsGivesTheSameBits) {
  for (simd::Set set : simd::available()) {
    SCOPED_TRACE(simd::name(set));
    const Using use(set);
    for (unsigned terms : {unsigned(kNone), unsigned(kNumber), unsigned(kQueryRows),
                           unsigned(kKeyRows), unsigned(kValueRows), unsigned(kAllTerms)}) {
      for (const auto& [b, h, hk] : {std::tuple(1, 1, 1), {2, 4, 2}}) {
        Call<double> call;
        call.shape.b = b, call.shape.h = h, call.shape.hk = hk;
        call.shape.q = call.shape.k = 500;
        call.shape.d = call.shape.dv = 24;
        call.term_bits = terms;
        call = random_like(call);
        call.options.causal = terms % 2;
        SCOPED_TRACE(terms_text(terms) + " batch " + std::to_string(b));
        const Results<double> one = run_bf16(call, 1);
        for (int threads : {2, 3, 8}) {
          each_result(
              [&](const char* name, const auto& a, const auto& b) {
                if (a.empty()) return;
                EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]), 0)
                    << name << " differs with " << threads << " threads";
              },
              one, run_bf16(call, threads));
        }
      }
    }
  }
}

TEST(Bf16, WrongShapesAreRefused) {
  const std::vector<Bf16> q(8), k(12);
  std::vector<Bf16> out(8);
  attention::Inputs<Bf16> in;
  in.q = {q.data(), {1, 1, 2, 4}};
  in.k = {k.data(), {1, 1, 3, 4}};
  in.v = {k.data(), {1, 1, 4, 3}};
  attention::Workspace workspace;
  SerialExecutor executor;
  const attention::Outputs<Bf16> outputs{{out.data(), {1, 1, 2, 4}}, {}};
  EXPECT_THROW(attention::forward(in, {}, {}, outputs, workspace, executor), std::invalid_argument);
}

}  // namespace
}  // namespace locant::test
