// T5, question by question (MPNet: mpnet_test.cc). Keys to the right are in the upper half.
#include "locant/position/t5.h"

#include "tests/golden/t5.h"
#include "tests/oracle/t5.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

constexpr char kTable[] = "relative_attention_bias.weight";

Sizes sizes_of(int64_t heads, int64_t layers = 2) {
  return {.layers = layers, .heads = heads, .head_size = 2, .width = 2 * heads};
}

// b -> .1 b - .3, the toy's table.
Store toy_store(const Scheme& scheme) {
  Store store(scheme, sizes_of(1));
  auto& table = store.arrays.at(kTable);
  for (size_t b = 0; b < table.size(); ++b) table[b] = 0.1 * static_cast<double>(b) - 0.3;
  return store;
}

TEST(T5, Question1AddsNothingToEmbeddings) { expect_no_embedding(*make_scheme("t5"), sizes_of(2)); }

TEST(T5, Question2TurnsNothing) { expect_no_turn(*make_scheme("t5"), square_call(4, true)); }

TEST(T5, Question3ToyEncoderAndDecoder) {
  const auto scheme = make_scheme("t5(buckets=8,max_distance=16)");
  const Store store = toy_store(*scheme);
  auto problem = toy();
  problem.scale = 1;  // T5's own
  const auto encoder = lower(*scheme, square_call(3, false), store.views());
  EXPECT_FALSE(encoder.number->scaled);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(encoder.number->index(j - i), golden::kT5ToyBuckets[i][j]);
  }
  const auto both = attend_rows(encoder, problem);
  expect_matrix(both.weights, golden::kT5ToyWeights, golden::kSixDigits);
  expect_matrix(both.out, golden::kT5ToyOut, golden::kSixDigits);
  problem.causal = true;
  const auto decoder = lower(*scheme, square_call(3, true), store.views());
  expect_matrix(attend_rows(decoder, problem).weights, golden::kT5ToyDecoderWeights,
                golden::kSixDigits);
}

TEST(T5, Question3DirectionFollowsTheCallUnlessSaid) {
  const auto right = [](const char* specification, bool causal) {
    const auto scheme = make_scheme(specification);
    const Store store(*scheme, sizes_of(1));
    return lower(*scheme, square_call(4, causal), store.views()).number->index(1);
  };
  EXPECT_EQ(right("t5", false), 17);  // the two halves of section "halves" in docs/schemes/t5.md
  EXPECT_EQ(right("t5", true), 0);
  EXPECT_EQ(right("t5(bidirectional=yes)", true), 17);
  EXPECT_EQ(right("t5(bidirectional=no)", false), 0);
  EXPECT_EQ(T5().index(true)(-1), 1);
}

TEST(T5, Question3BiasIsNotScaled) {
  // Textbook: content scores .3 and .5, biases +.5 and -.2 for the near and the far key.
  const auto scheme = make_scheme("t5(buckets=2,max_distance=2)");
  Store store(*scheme, sizes_of(1));
  store.arrays.at(kTable) = {0.5, -0.2};
  oracle::Attention a;
  a.q = oracle::Matrix(1, 2);
  a.q.values = {1, 0};
  a.k = oracle::Matrix(2, 2);
  a.k.values = {0.5, 0, 0.3, 0};  // far, near
  a.v = oracle::Matrix(2, 1);
  a.scale = 1;
  a.causal = true;
  const auto logits = attend_rows(lower(*scheme, square_call(2, true), store.views()), a).logits;
  EXPECT_DOUBLE_EQ(logits(0, 0), 0.3);
  EXPECT_DOUBLE_EQ(logits(0, 1), 0.8);
  a.scale = 0.1;  // reaches the product only
  EXPECT_DOUBLE_EQ(attend_rows(lower(*scheme, square_call(2, true), store.views()), a).logits(0, 1),
                   0.03 + 0.5);
}

TEST(T5, Question4AddsNothingToValues) {
  const auto scheme = make_scheme("t5");
  const Store store(*scheme, sizes_of(1));
  const auto terms = lower(*scheme, square_call(3, false), store.views());
  EXPECT_FALSE(terms.value_rows || terms.query_rows || terms.key_rows || terms.content_bias);
  EXPECT_EQ(terms.scale_factor, 1);
}

TEST(T5, Question5LearnsOneTable) {
  const auto specs =
      make_scheme("t5")->learn({.layers = 6, .heads = 8, .head_size = 64, .width = 400});
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, kTable);
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{32, 8}));
  EXPECT_EQ(specs[0].scale, 0.05);  // width^-1/2
  EXPECT_FALSE(specs[0].per_layer);
  EXPECT_TRUE(specs[0].table);
  EXPECT_TRUE(make_scheme("t5(layers=each)")->learn(sizes_of(8))[0].per_layer);  // UMT5
  EXPECT_EQ(make_scheme("t5(heads=shared)")->learn(sizes_of(8))[0].shape,
            (std::vector<int64_t>{32, 1}));
}

TEST(T5, Question5Gradients) {
  for (const char* specification :
       {"t5(buckets=8,max_distance=6)", "t5(buckets=8,max_distance=6,heads=shared)",
        "t5(buckets=7,max_distance=6,rounding=float32)"}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(specification);
      const auto scheme = make_scheme(specification);
      Call call = square_call(9, causal, 4);
      Store store = random_store(*scheme, call.sizes);
      expect_gradients(*scheme, call, store);
      call.first_head = 1;
      call.heads = 2;
      expect_gradients(*scheme, call, store);
    }
  }
}

TEST(T5, Question5ShardOfHeadsHasTheGlobalHeadsNumbers) {
  const auto scheme = make_scheme("t5");
  Call call = square_call(40, false, 4);
  const Store store = random_store(*scheme, call.sizes);
  const auto whole = lower(*scheme, call, store.views());
  call.first_head = 3;
  call.heads = 1;
  const auto part = lower(*scheme, call, store.views());
  for (int64_t d = -40; d <= 40; ++d) EXPECT_EQ(number_at(part, 0, d), number_at(whole, 3, d));
  EXPECT_NE(number_at(whole, 3, 2), number_at(whole, 2, 2));
}

// No distance of training may share a bucket with what training never sees, and none is empty.
TEST(T5, Question5FitReachesEveryBucketInTraining) {
  for (const char* name : {"t5", "mpnet", "t5(bidirectional=no)", "t5(buckets=16)"}) {
    for (const int64_t length : {8, 12, 16, 20, 32, 64, 65, 128, 512, 1024}) {
      SCOPED_TRACE(std::string(name) + " at " + std::to_string(length));
      auto scheme = make_scheme(name);
      scheme->fit({length, 0.02});
      scheme->check();
      auto& t5 = dynamic_cast<T5&>(*scheme);
      EXPECT_EQ(t5.max_distance, std::max<int64_t>(length / 2, 3));
      const bool both = t5.bidirectional == T5::Bidirectional::kYes;
      const IndexMap map = t5.index(both);
      EXPECT_EQ(map(-(length - 1)), map(-1000000)) << "the last bucket is reached";
      EXPECT_EQ(map(-(length / 2)), map(-1000000)) << "and well inside";
    }
  }
  auto scheme = make_scheme("t5");
  scheme->fit({64, 0.02});
  EXPECT_EQ(specification(*scheme), "t5(max_distance=32)");
}

// What was named stays; the rest goes with it.
TEST(T5, Question5FitKeepsWhatIsNamed) {
  for (const int64_t length : {2, 8, 16, 32, 64, 512}) {
    for (const char* sides : {"auto", "yes", "no"}) {
      for (const int64_t buckets : {4, 7, 32, 256}) {
        const std::string text = "t5(buckets=" + std::to_string(buckets) + ",bidirectional=" + sides + ")";
        SCOPED_TRACE(text + " at " + std::to_string(length));
        const auto scheme = make_fitted_scheme(text, length, 0.02);
        scheme->check();
        Call call;
        call.causal = true;
        scheme->check(call);
        EXPECT_EQ(dynamic_cast<T5&>(*scheme).buckets, buckets);
        EXPECT_GE(dynamic_cast<T5&>(*scheme).max_distance, length / 2);
      }
      for (const int64_t reach : {3, 5, 16, 100}) {
        const std::string text = "t5(max_distance=" + std::to_string(reach) + ",bidirectional=" + sides + ")";
        SCOPED_TRACE(text + " at " + std::to_string(length));
        const auto scheme = make_fitted_scheme(text, length, 0.02);
        scheme->check();
        EXPECT_EQ(dynamic_cast<T5&>(*scheme).max_distance, reach);
      }
    }
  }
  EXPECT_EQ(specification(*make_fitted_scheme("t5(buckets=32)", 32, 0.02)), "t5(max_distance=17)");
}

TEST(T5, RefusesBucketsWithoutRoom) {
  EXPECT_SAYS(message_of([] { make_scheme("t5(max_distance=8)"); }),
              "max_distance must be above 8");
  const auto scheme = make_scheme("t5(max_distance=10)");  // enough on two sides, not on one
  EXPECT_NO_THROW(scheme->check(square_call(4, false)));
  EXPECT_SAYS(message_of([&] { scheme->check(square_call(4, true)); }), "32 buckets a side");
}

// D32: cross attention has no bias, whatever the table.
TEST(T5, D32_CrossAttentionHasNoBias) {
  for (const std::string& name : scheme_names()) {
    SCOPED_TRACE(name);
    const auto scheme = make_scheme(name);
    Call call = square_call(4, true, 2, 4);
    call.cross = true;
    Store store = random_store(*scheme, call.sizes);
    const auto terms = lower(*scheme, call, store.views());
    EXPECT_FALSE(terms.number || terms.query_rows || terms.key_rows || terms.value_rows ||
                 terms.content_bias || terms.rotation);
    EXPECT_EQ(terms.scale_factor, 1);
    Store gradients(*scheme, call.sizes);
    auto views = gradients.gradient_views();
    lower_backward(*scheme, call, store.views(), terms, views);
    for (const auto& [array, numbers] : gradients.arrays) {
      for (double x : numbers) EXPECT_EQ(x, 0) << array;
    }
  }
}

// D33: logarithmic buckets wrong. The whole range, both modes, through the scheme.
TEST(T5, D33_AllBucketsOfBothModes) {
  const struct {
    int buckets, max_distance;
  } counts[] = {{32, 128}, {16, 128}, {64, 256}, {12, 10}, {10, 160}, {48, 81}};
  for (const auto& [buckets, max_distance] : counts) {
    for (const bool causal : {false, true}) {
      for (const bool rounded : {false, true}) {
        const auto scheme = make_scheme("t5(buckets=" + std::to_string(buckets) +
                                        ",max_distance=" + std::to_string(max_distance) +
                                        (rounded ? ",rounding=float32)" : ")"));
        Store store(*scheme, sizes_of(1));
        auto& table = store.arrays.at(kTable);
        for (size_t b = 0; b < table.size(); ++b) table[b] = static_cast<double>(b);
        const auto terms = lower(*scheme, square_call(600, causal), store.views());
        for (int64_t d = -600; d <= (causal ? 0 : 600); ++d) {
          ASSERT_EQ(
              number_at(terms, 0, d),
              oracle::t5_bucket(d, buckets, max_distance, !causal,
                                rounded ? oracle::T5Rule::kTorchFloat32 : oracle::T5Rule::kExact))
              << buckets << "/" << max_distance << " at " << d;
        }
      }
    }
  }
}

// D34: the bias was dropped once a cache existed. A step has the row of its absolute position.
TEST(T5, D34_CachedStepHasItsRow) {
  const auto scheme = make_scheme("t5");
  Store store(*scheme, sizes_of(1));
  auto& table = store.arrays.at(kTable);
  for (size_t b = 0; b < table.size(); ++b) table[b] = static_cast<double>(b) + 0.5;
  const oracle::Matrix q(1, 2), k(20, 2);
  const auto query = oracle::consecutive(1, 19), keys = oracle::consecutive(20);
  const auto terms = lower(*scheme, call_over(query, keys, true, sizes_of(1)), store.views());
  const auto step = added(terms, q, k, query, keys).unscaled;
  for (int j = 0; j < 20; ++j) {
    EXPECT_EQ(step(0, j), golden::kT5Uni32Query19[j] + 0.5) << "key " << j;
  }
  // Every step of every length equals the row of the uncached call.
  for (int n : {1, 2, 16, 17, 120, 300}) {
    const auto all = oracle::consecutive(n), last = oracle::consecutive(1, n - 1);
    const auto whole = lower(*scheme, call_over(all, all, true, sizes_of(1)), store.views());
    const auto one = lower(*scheme, call_over(last, all, true, sizes_of(1)), store.views());
    for (int j = 0; j < n; ++j) {
      EXPECT_EQ(number_at(one, 0, j - n + 1), number_at(whole, 0, j - n + 1));
      EXPECT_NE(number_at(one, 0, j - n + 1), 0);
    }
  }
}

// D35: one table acts in every layer of the stack; its gradient is the sum over the layers.
TEST(T5, D35_OneTableActsInEveryLayer) {
  const auto shared = make_scheme("t5(buckets=8,max_distance=16)");
  EXPECT_TRUE(shared->same_in_every_layer());
  EXPECT_FALSE(make_scheme("t5(layers=each)")->same_in_every_layer());
  const Sizes sizes = sizes_of(2, 3);
  Store store = random_store(*shared, sizes);
  Store gradients(*shared, sizes);
  auto views = gradients.gradient_views();
  for (int layer = 0; layer < 3; ++layer) {
    Call call = square_call(6, true, 2);
    call.layer = layer;
    const double before = number_at(lower(*shared, call, store.views()), 1, -2);
    store.arrays.at(kTable)[2 * 2 + 1] += 1;  // bucket 2 of head 1
    auto terms = lower(*shared, call, store.views());
    EXPECT_EQ(number_at(terms, 1, -2), before + 1) << "layer " << layer;
    auto ones = zeros_like(terms);
    for (double& x : ones.number->table.data) x = 1;
    lower_backward(*shared, call, store.views(), ones, views);
  }
  for (double x : gradients.arrays.at(kTable)) EXPECT_EQ(x, 3);
}

}  // namespace
}  // namespace locant
