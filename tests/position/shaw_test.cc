// Shaw and its relatives, question by question.
#include "locant/position/shaw.h"

#include "tests/golden/shaw.h"
#include "tests/oracle/shaw.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

// Published relatives as options (docs/schemes/shaw.md lists the same).
constexpr char kSpeechT5[] = "shaw(on=keys,left=159,right=160,order=i-j,layers=shared)";
constexpr char kWav2Vec2Bert[] = "shaw(on=keys,left=64,right=8)";
constexpr char kRelativeKey[] = "shaw(on=keys,k=511,order=i-j,outside=refuse)";
constexpr char kVits[] = "shaw(k=4,outside=zero)";

Sizes sizes_of(int64_t heads, int64_t head_size) {
  return {.layers = 3, .heads = heads, .head_size = head_size, .width = heads * head_size};
}

// The toy's parameters.
Store toy_store(const Scheme& scheme) {
  Store store(scheme, sizes_of(1, 2));
  for (auto& [name, array] : store.arrays) {
    const auto& rows =
        name == "relative_positions_keys" ? golden::kShawToyKeyRows : golden::kShawToyValueRows;
    array = oracle::matrix(rows).values;
  }
  return store;
}

TEST(Shaw, Question1AddsNothingToEmbeddings) {
  expect_no_embedding(*make_scheme("shaw"), sizes_of(2, 4));
}

TEST(Shaw, Question2TurnsNothing) { expect_no_turn(*make_scheme("shaw"), square_call(4, false)); }

TEST(Shaw, Question3ToyScores) {
  const auto scheme = make_scheme("shaw(on=keys,k=1)");
  const auto terms = lower(*scheme, square_call(3, false), toy_store(*scheme).views());
  EXPECT_TRUE(terms.query_rows->scaled);
  EXPECT_FALSE(terms.value_rows || terms.key_rows || terms.number);
  const auto result = attend_rows(terms, toy());
  expect_matrix(result.logits, golden::kShawToyLogits, golden::kSixDigits);
  expect_matrix(result.weights, golden::kShawToyWeights, golden::kSixDigits);
  expect_matrix(result.out, golden::kShawToyOutKeys, golden::kSixDigits);
}

TEST(Shaw, Question3OrderQueryMinusKeyReadsTheTableMirrored) {
  const auto scheme = make_scheme("shaw(on=keys,k=1,order=i-j)");
  const auto terms = lower(*scheme, square_call(3, false), toy_store(*scheme).views());
  expect_matrix(attend_rows(terms, toy()).logits, golden::kShawToyLogitsQueryMinusKey,
                golden::kSixDigits);
}

TEST(Shaw, Question3RelativesHaveTheirPublishedRows) {
  const struct {
    const char* specification;
    int low, high;
    oracle::Order order;
    oracle::Outside outside;
  } relatives[] = {
      {"shaw(k=2)", 2, 2, oracle::Order::kKeyMinusQuery, oracle::Outside::kClip},
      {"shaw(left=1,right=2,order=i-j)", 2, 1, oracle::Order::kQueryMinusKey,
       oracle::Outside::kClip},
      {kSpeechT5, 160, 159, oracle::Order::kQueryMinusKey, oracle::Outside::kClip},
      {kWav2Vec2Bert, 64, 8, oracle::Order::kKeyMinusQuery, oracle::Outside::kClip},
      {kVits, 4, 4, oracle::Order::kKeyMinusQuery, oracle::Outside::kZero},
  };
  const auto positions = oracle::consecutive(200);
  for (const auto& r : relatives) {
    const auto scheme = make_scheme(r.specification);
    const auto& shaw = dynamic_cast<const Shaw&>(*scheme);
    const auto got = index_of(shaw.index(), positions, positions);
    const auto want =
        oracle::relative_index(positions, positions, r.low, r.high, r.order, r.outside);
    EXPECT_EQ(got.values, want.values) << r.specification;
    EXPECT_EQ(scheme->learn(sizes_of(2, 4))[0].shape, (std::vector<int64_t>{r.low + r.high + 1, 4}))
        << r.specification;
  }
  const auto relative_key = make_scheme("shaw(on=keys,k=4,order=i-j,outside=refuse)");
  const auto index = index_of(dynamic_cast<const Shaw&>(*relative_key).index(),
                              oracle::consecutive(3), oracle::consecutive(3));
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(index(i, j), golden::kBertRelativeKeyIndexP5[i][j]);
  }
}

TEST(Shaw, Question3RelativeKeyQueryAddsTheSameRowsOnKeys) {
  const auto scheme = make_scheme("shaw(on=keys,k=4,order=i-j,times_key=yes)");
  const Sizes sizes = sizes_of(1, 3);
  const Store store = random_store(*scheme, sizes);
  oracle::Rng rng(3);
  const auto q = oracle::random_matrix(rng, 5, 3), k = oracle::random_matrix(rng, 5, 3);
  const auto positions = oracle::consecutive(5);
  oracle::Matrix table(9, 3);
  table.values = store.arrays.at("relative_positions_keys");
  const auto index = oracle::relative_index(positions, positions, 4, 4,
                                            oracle::Order::kQueryMinusKey, oracle::Outside::kClip);
  const auto want =
      oracle::sum(oracle::query_row_term(q, table, index), oracle::key_row_term(k, table, index));
  const auto terms = lower(*scheme, call_over(positions, positions, false, sizes), store.views());
  expect_equal_where_kept(added(terms, q, k, positions, positions).scaled, want, positions,
                          positions, false, 6);
}

TEST(Shaw, Question3RefusesOutsideItsRows) {
  const auto scheme = make_scheme("shaw(on=keys,k=2,order=i-j,outside=refuse)");
  EXPECT_NO_THROW(scheme->check(square_call(3, false)));
  const std::string message = message_of([&] { scheme->check(square_call(4, true)); });
  EXPECT_SAYS(message, "[shaw]");
  EXPECT_SAYS(message, "-2 to 2");
  EXPECT_SAYS(message, "-3 to 0");
}

TEST(Shaw, Question4ToyOutputs) {
  const auto scheme = make_scheme("shaw(k=1)");
  const Store store = toy_store(*scheme);
  for (const bool causal : {false, true}) {
    const auto terms = lower(*scheme, square_call(3, causal), store.views());
    const auto result = attend_rows(terms, toy(causal));
    expect_matrix(result.out,
                  causal ? golden::kShawToyOutCausalKeysValues : golden::kShawToyOutKeysValues,
                  golden::kSixDigits);
  }
  const auto values = make_scheme("shaw(on=values,k=1)");
  const auto terms = lower(*values, square_call(3, false), toy_store(*values).views());
  EXPECT_FALSE(terms.query_rows);
  EXPECT_TRUE(terms.value_rows);
}

// A value row outside the window is zero, not the last one.
TEST(Shaw, Question4ZeroOutside) {
  const auto scheme = make_scheme("shaw(on=values,k=1,outside=zero)");
  const auto terms = lower(*scheme, square_call(4, false), toy_store(*scheme).views());
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_EQ(terms.value_rows->index(j - i), golden::kVitsIndexW1[i][j]);
    }
  }
}

TEST(Shaw, Question5LearnsTwoTables) {
  Sizes sizes = sizes_of(4, 8);
  sizes.value_size = 5;
  const auto specs = make_scheme("shaw")->learn(sizes);
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_EQ(specs[0].name, "relative_positions_keys");
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{33, 8}));
  EXPECT_EQ(specs[1].name, "relative_positions_values");
  EXPECT_EQ(specs[1].shape, (std::vector<int64_t>{33, 5}));
  EXPECT_TRUE(specs[0].per_layer && specs[1].per_layer && specs[0].table);
  const auto each = make_scheme("shaw(on=keys,heads=each,layers=shared)")->learn(sizes);
  ASSERT_EQ(each.size(), 1u);
  EXPECT_EQ(each[0].shape, (std::vector<int64_t>{4, 33, 8}));
  EXPECT_FALSE(each[0].per_layer);
}

TEST(Shaw, Question5Gradients) {
  for (const char* specification :
       {"shaw(k=2)", "shaw(k=2,heads=each)", "shaw(on=keys,left=1,right=3,order=i-j)",
        "shaw(on=keys,k=2,times_key=yes,heads=each)", "shaw(on=values,k=2,outside=zero)",
        "shaw(k=1,times_key=yes)"}) {
    SCOPED_TRACE(specification);
    const auto scheme = make_scheme(specification);
    Call call = square_call(5, false, 4, 3);
    call.sizes.value_size = 2;
    Store store = random_store(*scheme, call.sizes);
    expect_gradients(*scheme, call, store);
    call.first_head = 1;  // a shard of the heads
    call.heads = 2;
    expect_gradients(*scheme, call, store);
  }
}

TEST(Shaw, Question5ShardOfHeadsHasTheGlobalHeadsRows) {
  const auto scheme = make_scheme("shaw(k=1,heads=each)");
  Call call = square_call(4, false, 4, 3);
  const Store store = random_store(*scheme, call.sizes);
  const auto whole = lower(*scheme, call, store.views());
  call.first_head = 2;
  call.heads = 2;
  const auto part = lower(*scheme, call, store.views());
  ASSERT_EQ(part.query_rows->rows.heads, 2);
  for (int h = 0; h < 2; ++h) {
    EXPECT_EQ(table_of(part.query_rows->rows, h).values,
              table_of(whole.query_rows->rows, h + 2).values);
    EXPECT_EQ(table_of(part.value_rows->rows, h).values,
              table_of(whole.value_rows->rows, h + 2).values);
  }
}

TEST(Shaw, Question5FitLeavesNoRowUntrained) {
  auto scheme = make_scheme("shaw");
  scheme->fit({64, 0.02});
  EXPECT_EQ(specification(*scheme), "shaw");
  scheme->fit({8, 0.02});
  EXPECT_EQ(specification(*scheme), "shaw(k=7)");
}

TEST(Shaw, TextbookDistance40) {
  const IndexMap map = Shaw().index();
  EXPECT_EQ(map(40), 32);
  EXPECT_EQ(map.rows.size(), 33u);
  EXPECT_EQ(map(-40), 0);
}

TEST(Shaw, RefusesKeyRowsWithoutKeys) {
  EXPECT_SAYS(message_of([] { make_scheme("shaw(on=values,times_key=yes)"); }), "times_key");
}

// D45: with a cache the distance was 0 for every step. Every window, order and step.
TEST(Shaw, D45_CachedStepsHaveTheDistancesOfTheWholeSequence) {
  for (const char* specification : {"shaw(on=keys,k=511,order=i-j,outside=refuse)", "shaw(k=2)",
                                    "shaw(k=2,order=i-j)", "shaw(left=3,right=1,outside=zero)"}) {
    SCOPED_TRACE(specification);
    const auto scheme = make_scheme(specification);
    const Sizes sizes = sizes_of(1, 3);
    const Store store = random_store(*scheme, sizes);
    oracle::Rng rng(5);
    const auto q = oracle::random_matrix(rng, 6, 3), k = oracle::random_matrix(rng, 6, 3);
    const auto all = oracle::consecutive(6);
    const auto whole =
        added(lower(*scheme, call_over(all, all, true, sizes), store.views()), q, k, all, all);
    for (int n = 0; n < 6; ++n) {
      const auto query = oracle::consecutive(1, n), keys = oracle::consecutive(n + 1);
      oracle::Matrix one(1, 3), cached(n + 1, 3);
      for (int c = 0; c < 3; ++c) one(0, c) = q(n, c);
      std::copy_n(k.values.begin(), 3 * (n + 1), cached.values.begin());
      const auto terms = lower(*scheme, call_over(query, keys, true, sizes), store.views());
      const auto step = added(terms, one, cached, query, keys);
      for (int j = 0; j <= n; ++j)
        EXPECT_EQ(step.scaled(0, j), whole.scaled(n, j)) << n << " " << j;
    }
  }
  // Third token: rows 2 1 0 counted from the middle one.
  const IndexMap map = dynamic_cast<const Shaw&>(*make_scheme(kRelativeKey)).index();
  EXPECT_EQ(map(-2) - 511, 2);
  EXPECT_EQ(map(-1) - 511, 1);
  EXPECT_EQ(map(0) - 511, 0);
}

// D46: stepwise decoding crashed: one query row of -n ... 0, clipped.
TEST(Shaw, D46_OneQueryAfterCachedKeys) {
  Shaw shaw;
  shaw.k = 2;
  for (int n = 0; n < 4; ++n) {
    EXPECT_EQ(shaw.index()(n - 3), golden::kShawIndexDecodeK2[n]) << "key " << n;
  }
  const Sizes sizes = sizes_of(2, 4);
  const Store store = random_store(shaw, sizes);
  for (int64_t past = 0; past < 7; ++past) {
    const auto query = oracle::consecutive(1, past);
    const auto keys = oracle::consecutive(static_cast<int>(past) + 1);
    const auto terms = lower(shaw, call_over(query, keys, true, sizes), store.views());
    for (int64_t j = 0; j <= past; ++j) {
      const int64_t clipped = std::max<int64_t>(j - past, -2);
      EXPECT_EQ(terms.query_rows->index(j - past), clipped + 2);
      EXPECT_EQ(terms.value_rows->index(j - past), clipped + 2);
    }
  }
}

}  // namespace
}  // namespace locant
