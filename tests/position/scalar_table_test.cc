// The clipped scalar table, question by question.
#include "locant/position/scalar_table.h"

#include "tests/golden/scalar_table.h"
#include "tests/oracle/scalar_table.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

constexpr char kTable[] = "relative_position_bias_table";

Sizes sizes_of(int64_t heads) {
  return {.layers = 2, .heads = heads, .head_size = 2, .width = 2 * heads};
}

TEST(ScalarTable, Question1AddsNothingToEmbeddings) {
  expect_no_embedding(*make_scheme("scalar_table"), sizes_of(2));
}

TEST(ScalarTable, Question2TurnsNothing) {
  expect_no_turn(*make_scheme("scalar_table"), square_call(4, true));
}

TEST(ScalarTable, Question3Toy) {
  const auto scheme = make_scheme("scalar_table(clip=1)");
  Store store(*scheme, sizes_of(1));
  store.arrays.at(kTable) = oracle::numbers(golden::kScalarToyTable);
  const auto terms = lower(*scheme, square_call(3, false), store.views());
  EXPECT_FALSE(terms.number->scaled);
  const auto positions = oracle::consecutive(3);
  const auto a = toy();
  expect_matrix(added(terms, a.q, a.k, positions, positions).unscaled, golden::kScalarToyBias, 0);
  const auto result = attend_rows(terms, a);
  expect_matrix(result.weights, golden::kScalarToyWeights, golden::kSixDigits);
  expect_matrix(result.out, golden::kScalarToyOut, golden::kSixDigits);
}

TEST(ScalarTable, Question3BothOrdersAgreeWithTheOracle) {
  const oracle::Positions queries{0, 3, 4, 11}, keys{2, 0, 9, 4, 30};
  for (const bool mirrored : {false, true}) {
    for (int clip : {0, 1, 4, 7, 40}) {
      ScalarTable scheme;
      scheme.clip = clip;
      scheme.order = mirrored ? Order::kQueryMinusKey : Order::kKeyMinusQuery;
      const Store store = random_store(scheme, sizes_of(1));
      const auto terms = lower(scheme, call_over(queries, keys, false, sizes_of(1)), store.views());
      const auto want = oracle::scalar_table_bias(
          store.arrays.at(kTable), clip,
          mirrored ? oracle::Order::kQueryMinusKey : oracle::Order::kKeyMinusQuery, queries, keys);
      const auto got =
          added(terms, oracle::Matrix(4, 2), oracle::Matrix(5, 2), queries, keys).unscaled;
      EXPECT_EQ(got.values, want.values) << "clip " << clip;
    }
  }
}

TEST(ScalarTable, Question4AddsNothingToValues) {
  const auto scheme = make_scheme("scalar_table");
  const Store store(*scheme, sizes_of(1));
  EXPECT_FALSE(lower(*scheme, square_call(3, false), store.views()).value_rows);
}

TEST(ScalarTable, Question5LearnsOneTable) {
  const auto specs = make_scheme("scalar_table(clip=5)")->learn(sizes_of(3));
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{11, 3}));
  EXPECT_FALSE(specs[0].per_layer);
  const auto others =
      make_scheme("scalar_table(clip=0,heads=shared,layers=each)")->learn(sizes_of(3));
  EXPECT_EQ(others[0].shape, (std::vector<int64_t>{1, 1}));
  EXPECT_TRUE(others[0].per_layer);
}

TEST(ScalarTable, Question5Gradients) {
  for (const char* specification : {"scalar_table(clip=3)", "scalar_table(clip=9,order=i-j)",
                                    "scalar_table(clip=2,heads=shared)"}) {
    SCOPED_TRACE(specification);
    const auto scheme = make_scheme(specification);
    Call call = square_call(5, false, 4);
    Store store = random_store(*scheme, call.sizes);
    expect_gradients(*scheme, call, store);
    call.first_head = 2;
    call.heads = 2;
    expect_gradients(*scheme, call, store);
  }
}

TEST(ScalarTable, Question5FitHasANumberForEachDistance) {
  auto scheme = make_scheme("scalar_table");
  scheme->fit({64, 0.02});
  EXPECT_EQ(specification(*scheme), "scalar_table(clip=63)");
}

}  // namespace
}  // namespace locant
