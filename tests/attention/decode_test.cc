// Decoding over a cache is the twin's forward on the gathered cache: seeded random shapes, options,
// positions and terms, every layout of the cache, on every engine; and it depends on nothing else.
#include <gtest/gtest.h>

#include "tests/attention/decode_cache.h"
#include "tests/attention/plain_bf16.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Decode);

// Every engine with one layout each, or all of them; false after a failure.
bool is_twin(const Call<double>& call, bool every_layout = false) {
  SCOPED_TRACE(call.text());
  const Results<double> want = run_twin(call, false);
  const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
  const int64_t chain = sum_length(call.shape);
  const auto sizes = [](const std::vector<Sized>& from) {
    std::vector<double> size;
    for (const Sized& x : from) size.push_back(x.size);
    return size;
  };
  size_t turn = size_t(call.shape.seed);
  for (const Engine& engine : all_engines()) {
    SCOPED_TRACE(engine.name());
    for (size_t n = 0; n < (every_layout ? cache_layouts().size() : 1); ++n) {
      const CacheLayout& layout = cache_layouts()[turn++ % cache_layouts().size()];
      SCOPED_TRACE(layout.text());
      for (bool keys_turned : {true, false}) {
        if (!keys_turned && !call.terms.rotation) continue;
        const Decoded got = decode_call(engine, call, layout, 2, 11, keys_turned);
        oracle::expect_close("out", got.out, want.out, sizes(sized.out), chain, engine.eps());
        oracle::expect_close("lse", got.lse, want.lse, sizes(sized.lse), chain, engine.eps());
      }
    }
  }
  return !testing::Test::HasFailure();
}

TEST(DecodeKernel, IsTheTwinOnSmallShapes) {
  for (unsigned terms : kSingleTerms) {
    for (uint64_t seed = 1; seed <= 40; ++seed) {
      if (!is_twin(rounded(random_call(seed, terms)))) return;
    }
  }
}

TEST(DecodeKernel, IsTheTwinForAnyMixOfTerms) {
  for (uint64_t seed = 1000; seed < 1120; ++seed) {
    if (!is_twin(rounded(random_call(seed, oracle::Rng(seed).bits() & kAllTerms)))) return;
  }
}

TEST(DecodeKernel, IsTheTwinInEveryLayout) {
  for (uint64_t seed = 3000; seed < 3012; ++seed) {
    if (!is_twin(rounded(random_call(seed, oracle::Rng(seed).bits() & kAllTerms, {3, 4, 90, 40})), true)) return;
  }
}

// Several splits of keys, head sizes beyond a few vectors, and those that have code of their own.
TEST(DecodeKernel, IsTheTwinOverManySplits) {
  int n = 0;
  for (int width : {64, 128, 80, 37, 64, 128, 16, 130}) {
    for (unsigned terms : {kSingleTerms[n % 7], unsigned(kAllTerms) & ~(n % 2 ? unsigned(kKeyRows) : 0u)}) {
      Call<double> call;
      call.shape.seed = uint64_t(n);
      call.shape.h = n % 3 == 0 ? 4 : n % 3 == 1 ? 3 : 2;
      call.shape.hk = n % 3 == 2 ? 2 : 1;
      call.shape.q = n % 4 == 0 ? 1 : n % 4 * 5;
      call.shape.k = 900 + 171 * (n % 5);
      call.shape.d = width, call.shape.dv = n % 2 ? width : 64;
      call.term_bits = terms;
      call = random_like(call, uint64_t(n));
      call.options.causal = n % 3 != 0;
      if (n % 5 == 1) call.options.window = {700, -1};
      if (n % 4 == 1) call.options.softcap = 2;
      if (!is_twin(rounded(call))) return;
      ++n;
    }
  }
}

// One row a distance and more of them than a call keeps products of: rows are multiplied split by split.
TEST(DecodeKernel, IsTheTwinWithRowsForEveryDistance) {
  for (int step : {1, -1}) {
    for (int first : {-4000, -1700}) {
      Call<double> call;
      call.shape.h = 2, call.shape.hk = 1, call.shape.q = 3, call.shape.k = 3000;
      call.shape.d = call.shape.dv = 8;
      call.term_bits = kNone;
      call = random_like(call, 5);
      call.options.causal = true;
      if (step < 0) call.options.window = {1400, 0};
      IndexMap map;
      map.first = first;
      const int rows = 4100 + first % 7;
      for (int n = 0; n < rows; ++n) map.rows.push_back(step > 0 ? n : rows - 1 - n);
      map.before = 3, map.after = 4;
      oracle::Rng rng(6);
      const auto table = [&](int heads) {
        Table<double> t(heads, rows, 8);
        for (double& x : t.data) x = 0.3 * rng.normal();
        return t;
      };
      call.terms.query_rows = {true, map, table(2)};
      call.terms.key_rows = {true, map, table(1)};
      call.terms.value_rows = {map, table(2)};
      if (!is_twin(rounded(call))) return;
    }
  }
}

// Scores that rise by tens from block to block: everything summed so far has to shrink with them, what
// lies inside the map of the value rows and what lies on either side.
TEST(DecodeKernel, SumsFollowRisingScores) {
  for (int reach : {300, 40, 2}) {
    Call<double> call;
    call.shape.h = 2, call.shape.hk = 1, call.shape.q = 2, call.shape.k = 300;
    call.shape.d = call.shape.dv = 8;
    call = random_like(call, 9);
    call.options.scale = 1;
    for (int j = 0; j < 300; ++j) call.k[size_t(j * 8)] = 0.3 * j;
    for (int r = 0; r < 4; ++r) call.q[size_t(r * 8)] = 1;
    oracle::Rng rng(2);
    IndexMap map;
    map.first = -150 - reach / 2;
    for (int n = 0; n < reach; ++n) map.rows.push_back(n);
    map.before = 0, map.after = reach - 1;
    Table<double> table(2, reach, 8);
    for (double& x : table.data) x = rng.normal();
    call.terms.value_rows = {map, table};
    if (!is_twin(rounded(call))) return;
  }
}

TEST_P(Decode, EveryLayoutGivesTheSameBits) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Call<double> call = rounded(random_call(seed, oracle::Rng(seed).bits() & kAllTerms, {2, 4, 80, 70}));
    SCOPED_TRACE(call.text());
    const Decoded first = decode_call(GetParam(), call, cache_layouts()[0]);
    for (const CacheLayout& layout : cache_layouts()) {
      SCOPED_TRACE(layout.text());
      EXPECT_EQ(decode_call(GetParam(), call, layout), first);
    }
  }
}

Call<double> long_call(const Engine& engine, unsigned terms) {
  Call<double> call;
  call.shape.b = 2, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 2;
  call.shape.k = engine.single ? 3000 : 100;
  call.shape.d = call.shape.dv = 24;
  call.term_bits = terms;
  call = random_like(call);
  call.options.causal = true;
  return call;
}

TEST_P(Decode, AnyNumberOfThreadsGivesTheSameBits) {
  for (unsigned terms : {unsigned(kNone), unsigned(kQueryRows), unsigned(kValueRows), unsigned(kAllTerms)}) {
    const Call<double> call = long_call(GetParam(), terms);
    SCOPED_TRACE(terms_text(terms));
    for (const CacheLayout& layout : {CacheLayout{0, false, 0}, CacheLayout{16, true, 0}}) {
      const Decoded one = decode_call(GetParam(), call, layout, 1);
      for (int threads : {2, 3, 8}) EXPECT_EQ(decode_call(GetParam(), call, layout, threads), one) << threads;
      EXPECT_EQ(decode_call(GetParam(), call, layout, 3), one) << "once more";
    }
  }
}

// However the tokens came into the cache.
TEST_P(Decode, ChunksOfAppendDoNotMatter) {
  const Call<double> call = rounded(random_call(12, kAllTerms, {3, 4, 60, 30}));
  const Decoded whole = decode_call(GetParam(), call, cache_layouts()[0]);
  for (int64_t chunk : {1, 7, 16}) {
    EXPECT_EQ(decode_call(GetParam(), call, cache_layouts()[5], 2, chunk), whole) << chunk;
  }
}

// A sequence of a ragged batch is that sequence alone, whatever stands beyond its length.
TEST_P(Decode, SequencesOfABatchAreTheSequencesAlone) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call;
    call.shape.b = 4, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 1, call.shape.k = 600;
    call.shape.d = 16, call.shape.dv = 12;
    call.term_bits = terms;
    call = rounded(random_like(call, 3));
    call.options.causal = true;
    const std::vector<int64_t> lengths{600, 1, 0, 515};
    for (const CacheLayout& layout : cache_layouts()) {
      SCOPED_TRACE(layout.text());
      const Decoded all = decode_call(GetParam(), call, layout, 2, 100, true, lengths);
      for (int b = 0; b < 4; ++b) {
        const oracle::Shape& s = call.shape;
        Call<double> one = call;
        one.shape.b = 1, one.shape.k = int(lengths[size_t(b)]);
        const auto rows = [&](const std::vector<double>& from, int heads, int n, int of, int width) {
          std::vector<double> to;
          for (int h = 0; h < heads; ++h) append(to, from, int64_t(b * heads + h) * of * width, n * width);
          return to;
        };
        one.q = rows(call.q, s.h, s.q, s.q, s.d);
        one.k = rows(call.k, s.hk, one.shape.k, s.k, s.d);
        one.v = rows(call.v, s.hk, one.shape.k, s.k, s.dv);
        one.out_gradient = rows(call.out_gradient, s.h, s.q, s.q, s.dv);
        const Decoded alone = decode_call(GetParam(), one, cache_layouts()[0]);
        const std::vector<double> part(all.out.begin() + b * s.h * s.dv, all.out.begin() + (b + 1) * s.h * s.dv);
        EXPECT_EQ(part, alone.out) << "sequence " << b;
        for (int h = 0; h < s.h; ++h) EXPECT_EQ(all.lse[size_t(b * s.h + h)], alone.lse[size_t(h)]);
      }
    }
  }
}

// A key that one query sees and another does not keeps its NaN from the other.
TEST_P(Decode, NanOfAKeyReachesOnlyTheQueriesThatSeeIt) {
  Call<double> call;
  call.shape.h = 2, call.shape.hk = 1, call.shape.q = 4, call.shape.k = 40, call.shape.d = call.shape.dv = 16;
  call = rounded(random_like(call, 8));
  call.options.causal = true;
  for (int c = 0; c < 16; ++c) {
    call.k[size_t(38 * 16 + c)] = call.v[size_t(38 * 16 + c)] = std::numeric_limits<double>::quiet_NaN();
  }
  const Decoded got = decode_call(GetParam(), call, cache_layouts()[2]);
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < 4; ++i) {
      for (int c = 0; c < 16; ++c) {
        EXPECT_EQ(std::isnan(got.out[size_t((h * 4 + i) * 16 + c)]), i >= 2) << "query " << i;
      }
    }
  }
}

// The same for a NaN in a key or a query alone, in the outputs and in the lse.
TEST_P(Decode, NanOfAKeyOrAQueryShowsInTheLse) {
  for (const bool in_query : {true, false}) {
    Call<double> call;
    call.shape.h = 2, call.shape.hk = 1, call.shape.q = 4, call.shape.k = 1100, call.shape.d = call.shape.dv = 16;
    call = rounded(random_like(call, 9));
    call.options.causal = true;
    const auto dirty = [&](int i) { return in_query ? i == 2 : i >= 2; };
    if (in_query) {
      for (int h = 0; h < 2; ++h) call.q[size_t((h * 4 + 2) * 16 + 3)] = std::numeric_limits<double>::quiet_NaN();
    } else {
      call.k[size_t(1098 * 16 + 3)] = std::numeric_limits<double>::quiet_NaN();
    }
    const Decoded got = decode_call(GetParam(), call, cache_layouts()[2]);
    for (int hi = 0; hi < 8; ++hi) {
      EXPECT_EQ(std::isnan(got.lse[size_t(hi)]), dirty(hi % 4)) << "query " << hi % 4;
      for (int c = 0; c < 16; ++c) EXPECT_EQ(std::isnan(got.out[size_t(hi * 16 + c)]), dirty(hi % 4));
    }
  }
}

// Against the twin in double, at most twice the error of a plain bf16 computation.
bool is_near_twin_in_bf16(const Call<double>& random) {
  Call<double> call = rounded(random);
  for (auto* numbers : {&call.q, &call.k, &call.v}) {
    for (double& x : *numbers) x = to_double(number<Bf16>(x));
  }
  SCOPED_TRACE(call.text());
  const Results<double> want = run_twin(call, false);
  const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
  const Results<Plain> plain = run_twin(cast_call<Plain>(call), false);
  const auto near = [](const char* name, const std::vector<double>& got, const std::vector<Plain>& rough,
                       const std::vector<double>& want, const std::vector<Sized>& sized) {
    std::vector<double> values, size;
    for (const Plain& x : rough) values.push_back(double(x.value));
    for (const Sized& x : sized) size.push_back(x.size);
    oracle::expect_bf16_close(name, got, values, want, size);
  };
  for (simd::Set set : simd::available()) {
    SCOPED_TRACE(simd::name(set));
    const Using use(set);
    ThreadPool pool(2);
    const CacheLayout& layout = cache_layouts()[call.shape.seed % cache_layouts().size()];
    SCOPED_TRACE(layout.text());
    for (bool keys_turned : {true, false}) {
      if (!keys_turned && !call.terms.rotation) continue;
      const Decoded got = decode_call<Bf16>(call, layout, pool, 9, keys_turned);
      near("out", got.out, plain.out, want.out, sized.out);
      near("lse", got.lse, plain.lse, want.lse, sized.lse);
    }
  }
  return !testing::Test::HasFailure();
}

TEST(DecodeBf16, IsNearTheTwinOnSmallShapes) {
  for (unsigned terms : kSingleTerms) {
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      if (!is_near_twin_in_bf16(random_call(seed, terms))) return;
    }
  }
}

TEST(DecodeBf16, IsNearTheTwinForAnyMixOfTerms) {
  for (uint64_t seed = 1000; seed < 1080; ++seed) {
    if (!is_near_twin_in_bf16(random_call(seed, oracle::Rng(seed).bits() & kAllTerms, {3, 4, 60, 80}))) return;
  }
}

TEST(DecodeBf16, IsNearTheTwinOverManySplits) {
  int n = 0;
  for (int width : {64, 128, 80, 37, 34, 130}) {
    Call<double> call;
    call.shape.seed = uint64_t(n);
    call.shape.h = n % 2 ? 4 : 3, call.shape.hk = 1;
    call.shape.q = n % 3 + 1, call.shape.k = 900 + 171 * n;
    call.shape.d = width, call.shape.dv = n % 2 ? width : 64;
    call.term_bits = n % 2 ? unsigned(kAllTerms) : unsigned(kRotation);
    call = random_like(call, uint64_t(n));
    call.options.causal = true;
    if (!is_near_twin_in_bf16(call)) return;
    ++n;
  }
}

TEST(DecodeBf16, EveryLayoutAndNumberOfThreadsGivesTheSameBits) {
  const Call<double> call = random_call(7, kAllTerms, {2, 4, 80, 70});
  for (simd::Set set : simd::available()) {
    const Using use(set);
    ThreadPool one(1), three(3);
    const Decoded first = decode_call<Bf16>(call, cache_layouts()[0], one);
    for (const CacheLayout& layout : cache_layouts()) {
      EXPECT_EQ(decode_call<Bf16>(call, layout, three), first) << simd::name(set) << ", " << layout.text();
    }
  }
}

TEST_P(Decode, EmptyCallsDoNothing) {
  for (const auto& [b, q, k] : {std::tuple(0, 1, 5), {1, 0, 5}, {1, 2, 0}}) {
    Call<double> call;
    call.shape.b = b, call.shape.q = q, call.shape.k = k, call.shape.d = call.shape.dv = 4;
    call.q.assign(size_t(b * q * 4), 1), call.k.assign(size_t(b * k * 4), 1), call.v = call.k;
    call.out_gradient = call.q;
    const Decoded got = decode_call(GetParam(), call, cache_layouts()[0]);
    EXPECT_EQ(got.out, std::vector<double>(size_t(b * q * 4), 0));
    for (double x : got.lse) EXPECT_EQ(x, -std::numeric_limits<double>::infinity());
  }
}

}  // namespace
}  // namespace locant::test
