// Transformer-XL, XLNet and the conformer, question by question; the oracle shifts as they do.
#include "locant/position/transformer_xl.h"

#include <set>

#include "tests/golden/transformer_xl.h"
#include "tests/oracle/transformer_xl.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

constexpr const char* kStyles[] = {"xl", "xlnet", "conformer"};

std::string with_style(const std::string& style, const std::string& more = "") {
  return "transformer_xl(style=" + style + (more.empty() ? "" : "," + more) + ")";
}

const char* projection_name(const std::string& style) {
  return style == "xl" ? "r_net.weight" : style == "xlnet" ? "r" : "linear_pos.weight";
}

// W_R of one head, [D][width], from the layout of the style.
oracle::Matrix projection_of(const Store& store, const std::string& style, const Sizes& sizes,
                             int64_t head) {
  const auto& array = store.arrays.at(projection_name(style));
  oracle::Matrix w(static_cast<int>(sizes.head_size), static_cast<int>(sizes.width));
  for (int d = 0; d < w.rows; ++d) {
    for (int c = 0; c < w.cols; ++c) {
      const int64_t out = head * sizes.head_size + d;
      const int64_t at =
          style == "xlnet" ? c * sizes.heads * sizes.head_size + out : out * sizes.width + c;
      w(d, c) = array[static_cast<size_t>(at)];
    }
  }
  return w;
}

std::vector<double> bias_of(const Store& store, const char* name, const Sizes& sizes,
                            int64_t head) {
  const auto& array = store.arrays.at(name);
  const auto first = array.begin() + head * sizes.head_size;
  return {first, first + sizes.head_size};
}

oracle::SinusoidalLayout layout_of(const std::string& style) {
  return style == "conformer" ? oracle::SinusoidalLayout::kAlternating
                              : oracle::SinusoidalLayout::kConcatenated;
}

TEST(TransformerXl, Question1AddsNothingToEmbeddings) {
  expect_no_embedding(*make_scheme("transformer_xl"), {.heads = 2, .head_size = 4, .width = 8});
}

TEST(TransformerXl, Question2TurnsNothing) {
  expect_no_turn(*make_scheme("transformer_xl"), square_call(4, true));
}

TEST(TransformerXl, Question3Sinusoids) {
  const auto r = distance_sinusoids(4, 5, 4, 10000, TransformerXl::Style::kXl);
  for (int row = 0; row < 5; ++row) {
    for (int c = 0; c < 4; ++c) {
      EXPECT_NEAR(r[static_cast<size_t>((4 - row) * 4 + c)], golden::kXlSinusoids4[row][c],
                  golden::kSixDigits);
    }
  }
}

// The four-term example of the founding definitions, two queries, one key of memory.
TEST(TransformerXl, Question3FourTerms) {
  for (const bool clamped : {false, true}) {
    const auto scheme = make_scheme(clamped ? "transformer_xl(clamp_len=1)" : "transformer_xl");
    const Sizes sizes{.layers = 1, .heads = 1, .head_size = 4, .width = 4};
    Store store(*scheme, sizes);
    store.arrays.at("r_w_bias") = oracle::numbers(golden::kXlU);
    store.arrays.at("r_r_bias") = oracle::numbers(golden::kXlV);
    for (size_t n = 0; n < 4; ++n) store.arrays.at("r_net.weight")[5 * n] = 1;  // identity
    oracle::Attention a;
    a.q = oracle::matrix(golden::kXlQ);
    a.k = oracle::matrix(golden::kXlK);
    a.v = oracle::Matrix(3, 3);
    a.scale = 0.5;
    a.causal = true;
    const auto queries = oracle::consecutive(2, 1), keys = oracle::consecutive(3);
    const auto terms = lower(*scheme, call_over(queries, keys, true, sizes), store.views());
    EXPECT_TRUE(terms.number->scaled && terms.query_rows->scaled);

    auto content = terms, position = terms;
    content.number.reset();
    content.query_rows.reset();
    position.content_bias.reset();
    const auto qk = oracle::times_transposed(a.q, a.k);
    const auto c = oracle::sum(qk, added(content, a.q, a.k, queries, keys).scaled);
    const auto p = added(position, a.q, a.k, queries, keys).scaled;
    const auto result = attend_rows(terms, a);
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j <= i + 1; ++j) {
        EXPECT_NEAR(c(i, j), golden::kXlContent[i][j], golden::kSixDigits);
        EXPECT_NEAR(p(i, j), clamped ? golden::kXlPositionClamp1[i][j] : golden::kXlPosition[i][j],
                    golden::kSixDigits);
        if (!clamped) {
          EXPECT_NEAR(result.logits(i, j), golden::kXlScores[i][j], golden::kSixDigits);
          EXPECT_NEAR(result.weights(i, j), golden::kXlWeights[i][j], golden::kSixDigits);
        }
      }
    }
    EXPECT_EQ(result.weights(0, 2), 0);
  }
}

TEST(TransformerXl, Question3AgreesWithTheFormulaAtAnyPositions) {
  oracle::Rng rng(11);
  for (const std::string style : kStyles) {
    for (const int64_t clamp : {0, 1, 3, 50}) {
      for (const bool causal : {true, false}) {
        if (style == "xl" && !causal) continue;
        SCOPED_TRACE(style + ", clamp " + std::to_string(clamp));
        const auto scheme = make_scheme(with_style(style, "clamp_len=" + std::to_string(clamp)));
        const Sizes sizes{.layers = 2, .heads = 3, .head_size = 5, .width = 6};
        const Store store = random_store(*scheme, sizes);
        const oracle::Positions queries{7, 4, 4, 30}, keys{0, 5, 3, 12, 31, 4};
        const auto terms = lower(*scheme, call_over(queries, keys, causal, sizes), store.views());
        for (int64_t head = 0; head < 3; ++head) {
          const auto q = oracle::random_matrix(rng, 4, 5), k = oracle::random_matrix(rng, 6, 5);
          const char* u_name = style == "conformer" ? "pos_bias_u" : "r_w_bias";
          const char* v_name = style == "conformer" ? "pos_bias_v" : "r_r_bias";
          auto want = oracle::xl_position_term(q, bias_of(store, v_name, sizes, head),
                                               projection_of(store, style, sizes, head), queries,
                                               keys, clamp ? clamp : -1, true, layout_of(style));
          const auto u = oracle::xl_key_numbers(k, bias_of(store, u_name, sizes, head));
          for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 6; ++j) want(i, j) += u[static_cast<size_t>(j)];
          }
          expect_equal_where_kept(added(terms, q, k, queries, keys, head).scaled, want, queries,
                                  keys, causal, 5 * 6 + 5);
        }
      }
    }
  }
}

TEST(TransformerXl, Question3XlNeedsTheCausalMask) {
  const auto scheme = make_scheme("transformer_xl");
  EXPECT_SAYS(message_of([&] { scheme->check(square_call(4, false)); }), "causal");
  EXPECT_NO_THROW(scheme->check(square_call(4, true)));
  EXPECT_NO_THROW(make_scheme(with_style("xlnet"))->check(square_call(4, false)));
}

TEST(TransformerXl, Question3RefusesMoreRowsThanItCanCompute) {
  Call far = square_call(4, true);
  far.first_distance = -(int64_t{1} << 31);
  EXPECT_SAYS(message_of([&] { make_scheme("transformer_xl")->check(far); }), "clamp_len");
  EXPECT_NO_THROW(make_scheme("transformer_xl(clamp_len=100)")->check(far));
}

TEST(TransformerXl, Question4AddsNothingToValues) {
  const auto scheme = make_scheme("transformer_xl");
  const Call call = square_call(3, true, 2, 4);
  EXPECT_FALSE(lower(*scheme, call, Store(*scheme, call.sizes).views()).value_rows);
}

TEST(TransformerXl, Question5NamesAndShapes) {
  const Sizes sizes{.layers = 4, .heads = 2, .head_size = 3, .width = 8};
  const auto xl = make_scheme("transformer_xl")->learn(sizes);
  ASSERT_EQ(xl.size(), 3u);
  EXPECT_EQ(xl[0].name, "r_w_bias");
  EXPECT_EQ(xl[1].name, "r_r_bias");
  EXPECT_EQ(xl[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_FALSE(xl[0].per_layer || xl[1].per_layer);
  EXPECT_EQ(xl[2].name, "r_net.weight");
  EXPECT_EQ(xl[2].shape, (std::vector<int64_t>{6, 8}));
  EXPECT_TRUE(xl[2].per_layer);
  EXPECT_TRUE(make_scheme("transformer_xl(untie_r=yes)")->learn(sizes)[0].per_layer);
  const auto xlnet = make_scheme(with_style("xlnet"))->learn(sizes);
  EXPECT_EQ(xlnet[2].name, "r");
  EXPECT_EQ(xlnet[2].shape, (std::vector<int64_t>{8, 2, 3}));
  EXPECT_TRUE(xlnet[0].per_layer);
  const auto conformer = make_scheme(with_style("conformer"))->learn(sizes);
  EXPECT_EQ(conformer[1].name, "pos_bias_v");
  EXPECT_EQ(conformer[2].name, "linear_pos.weight");
  EXPECT_EQ(conformer[0].high, std::sqrt(6.0 / 5));
}

TEST(TransformerXl, Question5Gradients) {
  for (const std::string style : kStyles) {
    for (const char* more : {"clamp_len=0", "clamp_len=2"}) {
      SCOPED_TRACE(style + " " + more);
      const auto scheme = make_scheme(with_style(style, more));
      Call call = square_call(5, style == "xl", 3, 2);
      call.sizes.width = 7;  // odd, and not heads times head size
      Store store = random_store(*scheme, call.sizes);
      expect_gradients(*scheme, call, store);
      call.first_head = 1;
      call.heads = 2;
      expect_gradients(*scheme, call, store);
    }
  }
}

TEST(TransformerXl, Question5ShardOfHeads) {
  for (const std::string style : kStyles) {
    const auto scheme = make_scheme(with_style(style));
    Call call = square_call(4, true, 4, 3);
    const Store store = random_store(*scheme, call.sizes);
    const auto whole = lower(*scheme, call, store.views());
    call.first_head = 1;
    call.heads = 2;
    const auto part = lower(*scheme, call, store.views());
    for (int h = 0; h < 2; ++h) {
      EXPECT_EQ(table_of(part.query_rows->rows, h).values,
                table_of(whole.query_rows->rows, h + 1).values);
      EXPECT_EQ(table_of(part.number->table, h).values,
                table_of(whole.number->table, h + 1).values);
      EXPECT_EQ(table_of(*part.content_bias, h).values,
                table_of(*whole.content_bias, h + 1).values);
    }
  }
}

// A one-hot q reads, from a table whose rows are the distances themselves, which distance (i, j)
// has.
oracle::Matrix distances_of(const std::string& style, const oracle::Positions& queries,
                            const oracle::Positions& keys, bool causal) {
  const auto scheme = make_scheme(with_style(style));
  const Sizes sizes{.layers = 1, .heads = 1, .head_size = 2, .width = 2};
  Store store(*scheme, sizes);
  auto& w = store.arrays.at(projection_name(style));
  w = {1, 0, 0, 1};  // W_R = identity: the row is (sin x, cos x)
  const auto terms = lower(*scheme, call_over(queries, keys, causal, sizes), store.views());
  oracle::Matrix result(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < result.rows; ++i) {
    for (int j = 0; j < result.cols; ++j) {
      const auto& t = *terms.query_rows;
      const int32_t row = t.index(keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
      result(i, j) = row == kNoRow
                         ? golden::kGarbage
                         : std::round(std::atan2(t.rows.row(0, row)[0], t.rows.row(0, row)[1]));
    }
  }
  return result;
}

// D41: a shift that drops the last row in place of the first. Distances come from positions here;
// they must be those of the published shift wherever that is defined.
TEST(TransformerXl, D41_DistancesAreThoseOfTheShiftThatDropsTheFirstRow) {
  expect_matrix(oracle::rel_shift([] {
                  oracle::Matrix x(2, 4);
                  for (int n = 0; n < 8; ++n) x.values[static_cast<size_t>(n)] = n + 1;
                  return x;
                }()),
                golden::kRelShift2x4, 0);
  const auto two_by_four =
      distances_of("xl", oracle::consecutive(2, 2), oracle::consecutive(4), true);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j <= i + 2; ++j) EXPECT_EQ(two_by_four(i, j), golden::kXlDistances2x4[i][j]);
  }
  oracle::Rng rng(2);
  for (int lk = 1; lk <= 6; ++lk) {
    for (int lq = 1; lq <= lk; ++lq) {
      const auto scheme = make_scheme("transformer_xl");
      const Sizes sizes{.layers = 1, .heads = 1, .head_size = 3, .width = 4};
      const Store store = random_store(*scheme, sizes);
      const auto q = oracle::random_matrix(rng, lq, 3), k = oracle::random_matrix(rng, lk, 3);
      const auto queries = oracle::consecutive(lq, lk - lq), keys = oracle::consecutive(lk);
      auto terms = lower(*scheme, call_over(queries, keys, true, sizes), store.views());
      terms.content_bias.reset();
      expect_equal_where_kept(
          added(terms, q, k, queries, keys).scaled,
          oracle::xl_position_by_shift(q, bias_of(store, "r_r_bias", sizes, 0),
                                       projection_of(store, "xl", sizes, 0), lk, -1),
          queries, keys, true, 12);
    }
  }
}

TEST(TransformerXl, D41_XlnetDistancesAreThoseOfItsShift) {
  expect_matrix(distances_of("xlnet", oracle::consecutive(2, 2), oracle::consecutive(4), false),
                {{2, 1, 0, -1}, {3, 2, 1, 0}}, 0);
  oracle::Rng rng(4);
  for (const int64_t clamp : {0, 2}) {
    const auto scheme = make_scheme(with_style("xlnet", "clamp_len=" + std::to_string(clamp)));
    const Sizes sizes{.layers = 1, .heads = 1, .head_size = 3, .width = 4};
    const Store store = random_store(*scheme, sizes);
    const auto q = oracle::random_matrix(rng, 3, 3), k = oracle::random_matrix(rng, 5, 3);
    const auto queries = oracle::consecutive(3, 2), keys = oracle::consecutive(5);
    auto terms = lower(*scheme, call_over(queries, keys, false, sizes), store.views());
    terms.content_bias.reset();
    expect_equal_where_kept(added(terms, q, k, queries, keys).scaled,
                            oracle::xlnet_position_by_shift(q, bias_of(store, "r_r_bias", sizes, 0),
                                                            projection_of(store, "xlnet", sizes, 0),
                                                            5, clamp ? clamp : -1),
                            queries, keys, false, 12);
  }
}

// D43: the same_length mask hid the first memory slot from the first query. Our rule: each query
// sees its own place and exactly `memory` keys before it, whatever the memory and the segment.
TEST(TransformerXl, D43_EachQuerySeesExactlyItsWindow) {
  for (int memory = 0; memory <= 6; ++memory) {
    for (int length = 1; length <= 6; ++length) {
      oracle::Attention a;
      a.q = oracle::Matrix(length, 1);
      a.k = oracle::Matrix(memory + length, 1);
      a.v = oracle::Matrix(memory + length, 1);
      a.causal = true;
      a.window_left = same_length_left(memory);
      const auto weights = oracle::attention(a).weights;
      for (int i = 0; i < length; ++i) {
        int seen = 0;
        for (int j = 0; j < memory + length; ++j) seen += weights(i, j) > 0;
        EXPECT_EQ(seen, memory + 1) << "query " << i << " of " << length;
      }
      EXPECT_GT(weights(0, 0), 0) << "memory slot 0, query 0";
      EXPECT_GT(weights(0, memory), 0) << "its own place";
    }
  }
}

// D44: a relative table equal to the absolute one, without negative distances.
TEST(TransformerXl, D44_ConformerHasBothSides) {
  const auto positions = oracle::consecutive(3);
  const auto distances = distances_of("conformer", positions, positions, false);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(distances(i, j), golden::kConformerDistances3[i][j]);
  }
  oracle::Rng rng(6);
  for (int t = 1; t <= 7; ++t) {
    const auto scheme = make_scheme(with_style("conformer"));
    const Sizes sizes{.layers = 1, .heads = 1, .head_size = 3, .width = 6};
    const Store store = random_store(*scheme, sizes);
    const auto q = oracle::random_matrix(rng, t, 3);
    const auto all = oracle::consecutive(t);
    auto terms = lower(*scheme, call_over(all, all, false, sizes), store.views());
    EXPECT_EQ(terms.query_rows->rows.rows, 2 * t - 1);
    std::set<std::vector<double>> different;
    for (int64_t r = 0; r < terms.query_rows->rows.rows; ++r) {
      const double* row = terms.query_rows->rows.row(0, r);
      different.insert({row, row + 3});
    }
    EXPECT_EQ(different.size(), static_cast<size_t>(2 * t - 1)) << "a distance is not its negative";
    terms.content_bias.reset();
    expect_equal_where_kept(
        added(terms, q, q, all, all).scaled,
        oracle::conformer_position_by_shift(q, bias_of(store, "pos_bias_v", sizes, 0),
                                            projection_of(store, "conformer", sizes, 0)),
        all, all, false, 18);
  }
}

}  // namespace
}  // namespace locant
