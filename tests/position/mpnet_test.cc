// MPNet: T5's five answers with its own defaults.
#include "locant/position/mpnet.h"

#include "tests/golden/t5.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

constexpr char kTable[] = "relative_attention_bias.weight";

TEST(Mpnet, Question1And2AddNothingAndTurnNothing) {
  const auto scheme = make_scheme("mpnet");
  expect_no_embedding(*scheme, {.heads = 2, .head_size = 2, .width = 4});
  expect_no_turn(*scheme, square_call(4, false));
}

TEST(Mpnet, Question3IsBidirectionalWhateverTheMask) {
  const auto scheme = make_scheme("mpnet");
  for (const bool causal : {false, true}) {
    const Call call = square_call(200, causal);
    const Store store = random_store(*scheme, call.sizes);
    const auto terms = lower(*scheme, call, store.views());
    EXPECT_FALSE(terms.number->scaled) << "after 1/sqrt(d)";
    for (const auto& c : golden::kT5Bi32) {
      EXPECT_EQ(terms.number->index(c.distance), c.bucket) << c.distance;
      EXPECT_EQ(number_at(terms, 0, c.distance),
                store.arrays.at(kTable)[static_cast<size_t>(c.bucket)]);
    }
  }
}

TEST(Mpnet, Question4AddsNothingToValues) {
  const auto scheme = make_scheme("mpnet");
  const Call call = square_call(3, false);
  EXPECT_FALSE(lower(*scheme, call, Store(*scheme, call.sizes).views()).value_rows);
}

TEST(Mpnet, Question5OneTableForAllLayers) {
  const auto specs =
      make_scheme("mpnet")->learn({.layers = 12, .heads = 12, .head_size = 64, .width = 768});
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, kTable);
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{32, 12}));
  EXPECT_FALSE(specs[0].per_layer);
  EXPECT_EQ(specification(*make_scheme("mpnet")), "mpnet");
  EXPECT_EQ(specification(*make_scheme("mpnet(bidirectional=auto)")), "mpnet(bidirectional=auto)");
}

TEST(Mpnet, Question5Gradients) {
  const auto scheme = make_scheme("mpnet(buckets=8,max_distance=6)");
  const Call call = square_call(9, false, 3);
  Store store = random_store(*scheme, call.sizes);
  expect_gradients(*scheme, call, store);
}

TEST(Mpnet, ErrorsNameIt) {
  EXPECT_SAYS(message_of([] { make_scheme("mpnet(buckets=3)"); }), "[mpnet]");
}

}  // namespace
}  // namespace locant
