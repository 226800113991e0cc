// Any partition of the keys, block by block and merged, is the whole call: forward and backward, every
// scheme of the registry and every term, on every engine.
#include "locant/attention/merge.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>

#include "tests/attention/blocks.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Merge);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Results<double> run_blocks(const Engine& engine, const Call<double>& call,
                           const std::vector<Tokens>& blocks) {
  ThreadPool pool(2);
  if (!engine.single) return run_blocks(call, blocks, pool);
  const Using set(engine.set);
  return widened(call, run_blocks(cast_call<float>(call), blocks, pool));
}

// Keys dealt out to blocks: in stretches of any length, or one by one; some blocks get none.
std::vector<Tokens> random_partition(oracle::Rng& rng, int keys) {
  std::vector<Tokens> blocks(size_t(rng.integer(1, 5)));
  const int last = int(blocks.size()) - 1;
  const bool stretches = rng.chance(0.5);
  int block = 0;
  for (int j = 0; j < keys; ++j) {
    if (!stretches || rng.chance(0.05)) block = rng.integer(0, last);
    blocks[size_t(block)].push_back(j);
  }
  return blocks;
}

TEST_P(Merge, EveryPartitionOfTheKeysOfEveryScheme) {
  int served = 0, number = 0;
  for (const std::string& specification : specifications()) {
    for (const bool causal : {true, false}) {
      Call<double> call;
      call.shape.h = 4, call.shape.hk = 2, call.shape.d = 16, call.shape.dv = 12;
      call.shape.q = GetParam().single ? 70 : 20, call.shape.k = GetParam().single ? 150 : 33;
      call.options.causal = causal;
      // The options of attention in turn.
      ++number;
      if (number % 3 == 0) call.options.softcap = 2;
      if (number % 4 == 1) call.options.window = {40, causal ? 0 : 20};
      try {
        call = scheme_call(specification, call);
      } catch (const std::invalid_argument&) {
        ASSERT_FALSE(causal) << specification << " must serve causal calls";
        continue;
      }
      ++served;
      if (number % 5 == 2) {
        call.key_batches = 1, call.key_heads = 4;
        oracle::Rng rng(5);
        for (int h = 0; h < 4; ++h) {
          const auto numbers = oracle::random_key_numbers(rng, call.shape.k);
          call.key_numbers.insert(call.key_numbers.end(), numbers.begin(), numbers.end());
        }
      }
      call = rounded(with_positions(call));
      SCOPED_TRACE(specification + (causal ? " causal" : " full"));
      const Expected expected(call);
      // One after the other, and none.
      const int k = call.shape.k;
      std::vector<Tokens> striped(3), halves(3);
      for (int j = 0; j < k; ++j) {
        striped[size_t(j % 3)].push_back(j);
        halves[j < k / 3 ? 0 : 2].push_back(j);  // the middle one is empty
      }
      expect_like_twin(call, expected, run_blocks(GetParam(), call, striped), GetParam().eps());
      expect_like_twin(call, expected, run_blocks(GetParam(), call, halves), GetParam().eps());
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(served, int(scheme_names().size()));
}

TEST_P(Merge, AnyMixOfTermsShapesAndOptions) {
  for (uint64_t seed = 3000; seed < 3080; ++seed) {
    oracle::Rng rng(seed);
    unsigned terms = seed % 2 ? rng.bits() & kAllTerms : kSingleTerms[seed / 2 % 7];
    if (seed % 5 == 0) terms |= kDropout;  // by the tokens' numbers in the whole sequence
    const Call<double> call =
        rounded(with_positions(random_call(seed, terms, {2, 4, seed % 4 ? 40 : 150, 24})));
    SCOPED_TRACE(call.text());
    const auto blocks = random_partition(rng, call.shape.k);
    expect_like_twin(call, run_blocks(GetParam(), call, blocks), GetParam().eps());
    if (HasFailure()) return;
  }
}

// Gradients of what a scheme learns, each block with the terms of its own distances.
TEST(MergeOfAScheme, BlocksMayAnswerForTheirOwnDistancesOnly) {
  // As a rank would: it asks the scheme for its block, and adds up the gradients of the parameters.
  const auto scheme = make_scheme("transformer_xl");
  Call<double> call;
  call.shape.h = call.shape.hk = 2, call.shape.q = call.shape.k = 24, call.shape.d = call.shape.dv = 8;
  call.options.causal = true;
  call = with_positions(scheme_call("transformer_xl", call));
  locant::Call asked;
  asked.sizes.heads = 2, asked.sizes.head_size = 8, asked.sizes.width = 16;
  asked.causal = true, asked.length = 24;
  oracle::Rng rng(9);
  const probe::Store store(*scheme, asked.sizes, [&](const ParameterSpec&) { return rng.normal(); });
  const auto lowered = [&](const Call<double>& block) {
    const auto span = attention::span_of(block.inputs(), block.options);
    asked.first_distance = span.first_distance, asked.last_distance = span.last_distance;
    return lower(*scheme, asked, store.views());
  };
  const auto learned = [&](const Call<double>& block, const Terms<double>& gradient,
                           probe::Store& into) {
    lowered(block);  // sets the span again
    auto views = into.gradient_views();
    lower_backward(*scheme, asked, store.views(), gradient, views);
  };
  call.terms = lowered(call);
  const Results<double> whole = run(Engine{}, call);
  probe::Store want(*scheme, asked.sizes), got(*scheme, asked.sizes);
  learned(call, whole.dterms, want);
  Results<double> total(call);
  nothing_seen(total);
  ThreadPool pool(2);
  attention::Workspace workspace;
  const Tokens queries = all_tokens(24), halves[2] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                                                      {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}};
  for (const bool backward : {false, true}) {
    for (const Tokens& keys : halves) {
      Call<double> block = selection(call, queries, keys);
      block.terms = lowered(block);
      Results<double> one(block);
      if (!backward) {
        attention::forward(block.inputs(), block.terms, block.run_options(), one.outputs(block), workspace, pool);
        attention::merge(total.outputs(call), read_only(one.outputs(block)), pool);
      } else {
        attention::backward(block.inputs(), block.terms, block.run_options(), read_only(total.outputs(call)),
                            block.out_gradient_view(), one.gradients(block), workspace, pool);
        learned(block, one.dterms, got);
      }
    }
  }
  ASSERT_FALSE(want.arrays.empty());
  for (const auto& [name, numbers] : want.arrays) {
    oracle::expect_close(name, got.arrays.at(name), numbers, oracle::largest(numbers), 24,
                         oracle::kEpsDouble);
  }
}

TEST_P(Merge, D52_ABlockThatARowDoesNotSeeTakesNoPart) {
  // Query 0 sees key 0 only, query 1 nothing at all, query 2 everything.
  Call<double> call = toy();
  call.out_gradient = {1, 2, 3, 4, 5, 6};
  call.options.causal = true;
  call.q_positions = {5, 1, 9};
  call.k_positions = {5, 7, 9};
  const Results<double> got = run_blocks(GetParam(), with_positions(call), {{0}, {1}, {2}});
  EXPECT_EQ(got.lse[1], -kInfinity);
  for (int c = 0; c < 2; ++c) {
    EXPECT_EQ(got.out[size_t(c)], call.v[size_t(c)]) << "a single key: not a bit may change";
    EXPECT_EQ(got.out[size_t(2 + c)], 0);
    EXPECT_EQ(got.dq[size_t(2 + c)], 0);
  }
  expect_like_twin(call, got, GetParam().eps());
}

// --- merge alone --------------------------------------------------------------------------------

template <class T>
struct Rows {
  std::vector<T> out, lse;
  attention::Outputs<T> view(int64_t heads, int64_t rows, int64_t width) {
    return {{out.data(), {1, heads, rows, width}}, {lse.data(), {1, heads, rows}}};
  }
};
template <class T>
Rows<T> random_rows(uint64_t seed, int n, int width, double spread) {
  oracle::Rng rng(seed);
  Rows<T> rows;
  for (int i = 0; i < n * width; ++i) rows.out.push_back(T(rng.normal()));
  for (int i = 0; i < n; ++i) rows.lse.push_back(T(spread * rng.normal()));
  return rows;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
class MergeOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MergeOf, Types);

TYPED_TEST(MergeOf, IsTheFormula) {
  using T = TypeParam;
  SerialExecutor serial;
  const double eps = sizeof(T) == 4 ? oracle::kEpsFloat : oracle::kEpsDouble;
  for (const double spread : {1.0, 50.0, 1e4}) {
    auto a = random_rows<T>(1, 130, 5, spread), b = random_rows<T>(2, 130, 5, spread);
    Rows<T> to = random_rows<T>(3, 130, 5, 1);
    attention::merge<T>(read_only(a.view(2, 65, 5)), read_only(b.view(2, 65, 5)), to.view(2, 65, 5), serial);
    for (size_t i = 0; i < 130; ++i) {
      const long double x = a.lse[i], y = b.lse[i], wa = 1 / (1 + std::exp(y - x));
      EXPECT_NEAR(double(to.lse[i]), double(std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)))),
                  2 * eps * std::max<double>(1, double(std::abs(std::max(x, y)))));
      for (size_t c = i * 5; c < i * 5 + 5; ++c) {
        EXPECT_NEAR(double(to.out[c]), double(wa * a.out[c] + (1 - wa) * b.out[c]),
                    4 * eps * (std::fabs(a.out[c]) + std::fabs(b.out[c])));
      }
    }
  }
}

TYPED_TEST(MergeOf, OrderThreadsAndPlaceDoNotChangeABit) {
  using T = TypeParam;
  auto a = random_rows<T>(1, 300, 7, 3), b = random_rows<T>(2, 300, 7, 3);
  a.lse[17] = b.lse[18] = a.lse[19] = b.lse[19] = T(-kInfinity);
  Rows<T> ab = random_rows<T>(3, 300, 7, 1), ba = ab, threaded = ab;
  SerialExecutor serial;
  ThreadPool pool(3);
  attention::merge<T>(read_only(a.view(2, 150, 7)), read_only(b.view(2, 150, 7)), ab.view(2, 150, 7), serial);
  attention::merge<T>(read_only(b.view(2, 150, 7)), read_only(a.view(2, 150, 7)), ba.view(2, 150, 7), serial);
  attention::merge<T>(read_only(a.view(2, 150, 7)), read_only(b.view(2, 150, 7)), threaded.view(2, 150, 7), pool);
  EXPECT_TRUE(same_bits(ab.out, ba.out) && same_bits(ab.lse, ba.lse));
  EXPECT_TRUE(same_bits(ab.out, threaded.out) && same_bits(ab.lse, threaded.lse));
  Rows<T> second = b;
  attention::merge<T>(read_only(a.view(2, 150, 7)), read_only(second.view(2, 150, 7)), second.view(2, 150, 7), serial);
  attention::merge<T>(a.view(2, 150, 7), read_only(b.view(2, 150, 7)), pool);
  EXPECT_TRUE(same_bits(ab.out, a.out) && same_bits(ab.lse, a.lse)) << "in place of a";
  EXPECT_TRUE(same_bits(ab.out, second.out) && same_bits(ab.lse, second.lse)) << "in place of b";
}

TYPED_TEST(MergeOf, NothingChangesNothing) {
  using T = TypeParam;
  const auto some = random_rows<T>(1, 9, 4, 3);
  Rows<T> a = some, nothing = some;
  for (T& x : nothing.lse) x = T(-kInfinity);
  for (T& x : nothing.out) x = std::numeric_limits<T>::quiet_NaN();
  SerialExecutor serial;
  attention::merge<T>(a.view(1, 9, 4), read_only(nothing.view(1, 9, 4)), serial);
  EXPECT_TRUE(same_bits(a.out, some.out) && same_bits(a.lse, some.lse));
  Rows<T> still = nothing;
  attention::merge<T>(still.view(1, 9, 4), read_only(nothing.view(1, 9, 4)), serial);
  for (T x : still.out) EXPECT_EQ(x, 0) << "two blocks that saw nothing";
  for (T x : still.lse) EXPECT_EQ(x, T(-kInfinity));
  attention::merge<T>(still.view(1, 9, 4), read_only(a.view(1, 9, 4)), serial);
  EXPECT_TRUE(same_bits(still.out, some.out) && same_bits(still.lse, some.lse));
}

TYPED_TEST(MergeOf, NanIsNotHidden) {
  using T = TypeParam;
  Rows<T> a = random_rows<T>(1, 2, 3, 1), b = random_rows<T>(2, 2, 3, 1);
  b.lse[0] = std::numeric_limits<T>::quiet_NaN();
  SerialExecutor serial;
  attention::merge<T>(a.view(1, 2, 3), read_only(b.view(1, 2, 3)), serial);
  EXPECT_TRUE(std::isnan(a.lse[0]) && std::isnan(a.out[0]));
  EXPECT_TRUE(std::isfinite(a.lse[1]) && std::isfinite(a.out[3])) << "and stays in its row";
}

TYPED_TEST(MergeOf, ErrorsNameEveryReason) {
  using T = TypeParam;
  Rows<T> a = random_rows<T>(1, 12, 4, 1), b = random_rows<T>(2, 12, 4, 1), to = a;
  SerialExecutor serial;
  const auto message = [&](const attention::Outputs<T>& x, const attention::Outputs<T>& y,
                           const attention::Outputs<T>& z) {
    return probe::message_of([&] { attention::merge<T>(read_only(x), read_only(y), z, serial); });
  };
  const auto good = [](Rows<T>& rows) { return rows.view(1, 12, 4); };
  EXPECT_EQ(message(good(a), good(b), good(to)), "nothing was thrown");
  const auto wrong = [&](auto change) {
    attention::Outputs<T> y = good(b);
    change(y);
    return message(good(a), y, good(to));
  };
  EXPECT_SAYS(wrong([](auto& y) { y.out.shape[2] = 11; }),
              "b.out must have the shape of a.out, [1, 1, 12, 4], got [1, 1, 11, 4]");
  EXPECT_SAYS(wrong([](auto& y) { y.lse.shape[2] = 11; }), "b.lse must be [1, 1, 12]");
  EXPECT_SAYS(wrong([](auto& y) { y.lse.data = nullptr; }), "b.lse is not given");
  EXPECT_SAYS(wrong([](auto& y) { y.out.data = nullptr; }), "b.out is not given");
  EXPECT_SAYS(wrong([](auto& y) { y.out.stride[3] = 2; }), "last stride 1, got 2");
  const std::string both = wrong([](auto& y) { y.lse.data = nullptr, y.out.shape[3] = 3; });
  EXPECT_SAYS(both, "[attention merge]");
  EXPECT_SAYS(both, "b.out must");
  EXPECT_SAYS(both, "b.lse is not given");
  attention::Outputs<T> shifted = good(a);  // row n of the output is row n + 1 of a
  shifted.out.shape[2] = shifted.lse.shape[2] = 11;
  shifted.out.data += 4;
  attention::Outputs<T> short_a = good(a), short_b = good(b);
  short_a.out.shape[2] = short_a.lse.shape[2] = short_b.out.shape[2] = short_b.lse.shape[2] = 11;
  EXPECT_SAYS(message(short_a, short_b, shifted), "outputs.out overlaps a.out");
}

TYPED_TEST(MergeOf, EmptyThingsAreFine) {
  using T = TypeParam;
  SerialExecutor serial;
  attention::Outputs<T> none{{nullptr, {0, 2, 3, 4}}, {nullptr, {0, 2, 3}}};
  attention::merge<T>(none, read_only(none), serial);
  std::vector<T> lse_a{1, 2}, lse_b{1, T(-kInfinity)};
  const attention::Outputs<T> a{{nullptr, {1, 1, 2, 0}}, {lse_a.data(), {1, 1, 2}}};
  const attention::Outputs<T> b{{nullptr, {1, 1, 2, 0}}, {lse_b.data(), {1, 1, 2}}};
  attention::merge<T>(a, read_only(b), serial);  // values of no channels: lse alone
  EXPECT_NEAR(double(lse_a[0]), 1 + std::log(2.0), 1e-6);
  EXPECT_EQ(lse_a[1], 2);
}

}  // namespace
}  // namespace locant::test
