// Music Transformer, question by question; the oracle skews as the paper does.
#include "locant/position/music_transformer.h"

#include "tests/golden/music_transformer.h"
#include "tests/oracle/music_transformer.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

Sizes sizes_of(int64_t heads, int64_t head_size) {
  return {.layers = 2, .heads = heads, .head_size = head_size, .width = heads * head_size};
}

TEST(MusicTransformer, Question1AddsNothingToEmbeddings) {
  expect_no_embedding(*make_scheme("music_transformer(rows=4)"), sizes_of(2, 4));
}

TEST(MusicTransformer, Question2TurnsNothing) {
  expect_no_turn(*make_scheme("music_transformer"), square_call(4, true));
}

TEST(MusicTransformer, Question3Toy) {
  const auto scheme = make_scheme("music_transformer(rows=3)");
  Store store(*scheme, sizes_of(1, 2));
  store.arrays.at("relative_embeddings_keys") = oracle::matrix(golden::kMusicToyRows).values;
  const auto terms = lower(*scheme, square_call(3, true), store.views());
  EXPECT_TRUE(terms.query_rows->scaled);
  const auto a = toy(true);
  const auto positions = oracle::consecutive(3);
  const auto scores = added(terms, a.q, a.k, positions, positions).scaled;
  const auto result = attend_rows(terms, a);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j <= i; ++j) {
      EXPECT_EQ(scores(i, j), golden::kMusicToySrel[i][j]);
      EXPECT_NEAR(result.logits(i, j), golden::kMusicToyLogits[i][j], golden::kSixDigits);
    }
  }
  expect_matrix(result.weights, golden::kMusicToyWeights, golden::kSixDigits);
  expect_matrix(result.out, golden::kMusicToyOut, golden::kSixDigits);
}

// Rows count from the far end: a longer table grows at its front, a shorter one gives zeros.
TEST(MusicTransformer, Question3RowsFromTheFarEnd) {
  const auto terms_of = [](const MusicTransformer& scheme, const Store& store, int64_t length) {
    return lower(scheme, square_call(length, true), store.views());
  };
  MusicTransformer two;
  two.rows = 2;
  const auto terms = terms_of(two, Store(two, sizes_of(1, 2)), 4);
  for (int back = 0; back < 4; ++back) {
    EXPECT_EQ(terms.query_rows->index(-back), golden::kMusicRowP2[back]);
  }
  EXPECT_EQ(terms.query_rows->index(-1000000000), kNoRow);
  for (int rows = 1; rows <= 9; ++rows) {  // shorter than, as long as and longer than the text
    MusicTransformer scheme;
    scheme.rows = rows;
    const Store store = random_store(scheme, sizes_of(1, 2));
    oracle::Rng rng(static_cast<uint64_t>(rows));
    const auto q = oracle::random_matrix(rng, 5, 2);
    oracle::Matrix table(rows, 2);
    table.values = store.arrays.at("relative_embeddings_keys");
    const auto positions = oracle::consecutive(5);
    const auto got = added(terms_of(scheme, store, 5), q, q, positions, positions).scaled;
    expect_equal_where_kept(got, oracle::music_by_skew(q, table), positions, positions, true, 2);
    expect_equal_where_kept(got, oracle::music_by_distance(q, table, positions, positions),
                            positions, positions, true, 2);
  }
}

TEST(MusicTransformer, Question4ValuesAreAnOption) {
  const auto plain = make_scheme("music_transformer(rows=3)");
  Store store(*plain, sizes_of(1, 2));
  EXPECT_FALSE(lower(*plain, square_call(3, true), store.views()).value_rows);

  const auto scheme = make_scheme("music_transformer(rows=3,values=yes)");
  const Store both = random_store(*scheme, sizes_of(1, 2));
  const auto terms = lower(*scheme, square_call(3, true), both.views());
  EXPECT_EQ(terms.value_rows->rows.data, both.arrays.at("relative_embeddings_values"));
  EXPECT_EQ(terms.value_rows->index(0), 2);
  EXPECT_EQ(terms.value_rows->index(-3), kNoRow);
}

TEST(MusicTransformer, Question5LearnsOneRowADistance) {
  const auto specs = make_scheme("music_transformer(rows=7,heads=each)")->learn(sizes_of(2, 16));
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{2, 7, 16}));
  EXPECT_EQ(specs[0].scale, 0.25);  // d^-1/2
  EXPECT_TRUE(specs[0].per_layer);
  EXPECT_FALSE(
      make_scheme("music_transformer(layers=shared)")->learn(sizes_of(2, 16))[0].per_layer);
}

TEST(MusicTransformer, Question5Gradients) {
  for (const char* specification :
       {"music_transformer(rows=3)", "music_transformer(rows=6,heads=each,values=yes)"}) {
    SCOPED_TRACE(specification);
    const auto scheme = make_scheme(specification);
    Call call = square_call(5, true, 3, 2);
    Store store = random_store(*scheme, call.sizes);
    expect_gradients(*scheme, call, store);
    call.first_head = 2;
    call.heads = 1;
    expect_gradients(*scheme, call, store);
  }
}

TEST(MusicTransformer, Question5Fit) {
  auto scheme = make_scheme("music_transformer");
  scheme->fit({64, 0.02});
  EXPECT_EQ(specification(*scheme), "music_transformer(rows=64)");
}

// D47: the skewed product does not mask the future by itself.
TEST(MusicTransformer, D47_NeedsTheCausalMask) {
  const auto scheme = make_scheme("music_transformer(rows=8)");
  const Store store(*scheme, sizes_of(1, 2));
  for (int64_t length = 1; length <= 9; ++length) {
    const std::string message =
        message_of([&] { lower(*scheme, square_call(length, false), store.views()); });
    EXPECT_SAYS(message, "[music_transformer]");
    EXPECT_SAYS(message, "causal mask");
    const auto terms = lower(*scheme, square_call(length, true), store.views());
    for (int64_t d = 1; d < 20; ++d) {  // left-overs are never used
      EXPECT_EQ(terms.query_rows->index(d), kNoRow);
    }
  }
}

TEST(MusicTransformer, D47_LeftOversOfTheSkewAreWhereTheGoldenValuesHaveThem) {
  const auto skewed = oracle::skew(oracle::matrix(golden::kSkew3In));
  expect_matrix(skewed, golden::kSkew3Out, 0);
  // Column of the unskewed product that our map reads for (i, j), for every j <= i.
  const IndexMap map = window_map(2, 0);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j <= i; ++j) {
      EXPECT_EQ(golden::kSkew3In[i][map(j - i)], golden::kSkew3Out[i][j]);
    }
  }
}

}  // namespace
}  // namespace locant
