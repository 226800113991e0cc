// DeBERTa, question by question.
#include "locant/position/deberta.h"

#include "tests/golden/deberta.h"
#include "tests/oracle/deberta.h"
#include "tests/position/row_probe.h"

namespace locant {
namespace {

using namespace probe;

constexpr char kTable[] = "rel_embeddings.weight";

Sizes sizes_of(int64_t heads, int64_t head_size, int64_t width) {
  return {.layers = 3, .heads = heads, .head_size = head_size, .width = width};
}

oracle::Matrix linear(const oracle::Matrix& rows, const std::vector<double>& weight,
                      const std::vector<double>& bias, int64_t head, int64_t size) {
  oracle::Matrix out(rows.rows, static_cast<int>(size));
  for (int r = 0; r < out.rows; ++r) {
    for (int d = 0; d < out.cols; ++d) {
      const size_t o = static_cast<size_t>(head * size + d);
      double sum = bias.empty() ? 0 : bias[o];
      for (int c = 0; c < rows.cols; ++c) {
        sum += weight[o * static_cast<size_t>(rows.cols) + static_cast<size_t>(c)] * rows(r, c);
      }
      out(r, d) = sum;
    }
  }
  return out;
}

std::vector<double> array_or_none(const Store& store, const std::string& name) {
  const auto found = store.arrays.find(name);
  return found == store.arrays.end() ? std::vector<double>{} : found->second;
}

// v1, S = 2, with a table and projections that give the toy's Kr and Qr.
struct Toy {
  std::unique_ptr<Scheme> scheme;
  Store store;
};
Toy toy_deberta(const std::string& attention) {
  auto scheme = make_scheme("deberta(version=v1,max_positions=2,pos_att_type=" + attention + ")");
  Store store(*scheme, sizes_of(1, 2, 4));
  auto& table = store.arrays.at(kTable);  // [Kr | Qr]
  for (size_t r = 0; r < 4; ++r) {
    for (size_t c = 0; c < 2; ++c) {
      table[r * 4 + c] = golden::kDebertaToyKr[r][c];
      table[r * 4 + 2 + c] = golden::kDebertaToyQr[r][c];
    }
  }
  if (attention != "p2c") store.arrays.at("pos_proj.weight") = {1, 0, 0, 0, 0, 1, 0, 0};
  if (attention != "c2p") store.arrays.at("pos_q_proj.weight") = {0, 0, 1, 0, 0, 0, 0, 1};
  return {std::move(scheme), store};
}
Terms<double> toy_terms(const Toy& toy) {
  Call call = square_call(3, false);
  call.sizes = sizes_of(1, 2, 4);
  return lower(*toy.scheme, call, toy.store.views());
}

TEST(Deberta, Question1AddsNothingToEmbeddings) {
  expect_no_embedding(*make_scheme("deberta(version=v1,max_positions=4)"), sizes_of(2, 2, 4));
}

TEST(Deberta, Question2TurnsNothing) {
  expect_no_turn(*make_scheme("deberta"), square_call(4, false));
}

TEST(Deberta, Question3Toy) {
  const auto positions = oracle::consecutive(3);
  const auto a = toy();
  const auto c2p = toy_terms(toy_deberta("c2p"));
  EXPECT_TRUE(c2p.query_rows->scaled);
  EXPECT_FALSE(c2p.key_rows);
  EXPECT_EQ(c2p.scale_factor, 1 / std::sqrt(2.0));
  expect_matrix(added(c2p, a.q, a.k, positions, positions).scaled, golden::kDebertaToyC2p, 1e-15);
  const auto both = toy_terms(toy_deberta("both"));
  EXPECT_EQ(both.scale_factor, 1 / std::sqrt(3.0));
  expect_matrix(attend_rows(both, a).logits, golden::kDebertaToyScores, golden::kSixDigits);
}

TEST(Deberta, Question3AgreesWithTheFormulaAtAnyPositions) {
  const struct {
    const char* specification;
    oracle::DebertaIndex how;
    std::string key, query;
  } cases[] = {
      {"deberta(version=v1,max_positions=6)", {6}, "pos_proj", "pos_q_proj"},
      {"deberta(buckets=8,max_positions=16)", {8, true, 16}, "pos_key_proj", "pos_query_proj"},
      {"deberta(buckets=8,max_positions=16,edge=microsoft,share_att_key=yes)",
       {8, true, 16, true},
       "key_proj",
       "query_proj"},
      {"deberta(buckets=24,max_positions=17,rounding=microsoft,edge=microsoft)",
       {24, true, 17, true, oracle::DebertaRule::kMicrosoft},
       "pos_key_proj",
       "pos_query_proj"},
  };
  const oracle::Positions queries{0, 9, 40, 3}, keys{5, 0, 30, 9, 22};
  oracle::Rng rng(9);
  for (const auto& c : cases) {
    SCOPED_TRACE(c.specification);
    const auto scheme = make_scheme(c.specification);
    const Sizes sizes = sizes_of(2, 3, 5);
    const Store store = random_store(*scheme, sizes);
    oracle::Matrix table(2 * c.how.span, 5);
    table.values = store.arrays.at(kTable);
    const auto terms = lower(*scheme, call_over(queries, keys, false, sizes), store.views());
    for (int64_t head = 0; head < 2; ++head) {
      const auto q = oracle::random_matrix(rng, 4, 3), k = oracle::random_matrix(rng, 5, 3);
      const auto kr = linear(table, store.arrays.at(c.key + ".weight"),
                             array_or_none(store, c.key + ".bias"), head, 3);
      const auto qr = linear(table, store.arrays.at(c.query + ".weight"),
                             store.arrays.at(c.query + ".bias"), head, 3);
      const auto want = oracle::sum(oracle::deberta_c2p(q, kr, queries, keys, c.how),
                                    oracle::deberta_p2c(k, qr, queries, keys, c.how));
      expect_equal_where_kept(added(terms, q, k, queries, keys, head).scaled, want, queries, keys,
                              false, 2 * 3 * 6);
    }
  }
}

// A causal call projects no more rows than it can reach.
TEST(Deberta, Question3ProjectsOnlyRowsInReach) {
  const auto scheme = make_scheme("deberta");
  const Call call = square_call(10, true, 2, 2);
  const auto terms = lower(*scheme, call, Store(*scheme, call.sizes).views());
  EXPECT_EQ(terms.query_rows->rows.rows, 10);
  EXPECT_EQ(terms.key_rows->rows.rows, 10);
  // Each knows which rows of the table it has: r(0) = S = 256, the nearest of those to the left.
  EXPECT_EQ(terms.query_rows->index.first_row + terms.query_rows->index(0), 256);
  EXPECT_EQ(terms.key_rows->index.first_row + terms.key_rows->index(-9), 265);
}

TEST(Deberta, Question3NormalisesTheTable) {
  const auto scheme = make_scheme("deberta(version=v1,max_positions=2,norm_rel_ebd=layer_norm)");
  Call call = square_call(3, false);
  call.sizes = sizes_of(1, 2, 4);
  Store store = random_store(*scheme, call.sizes);
  const auto terms = lower(*scheme, call, store.views());
  oracle::Matrix table(4, 4);
  table.values = store.arrays.at(kTable);
  for (int r = 0; r < 4; ++r) {
    double mean = 0, square = 0;
    for (int c = 0; c < 4; ++c) mean += table(r, c) / 4;
    for (int c = 0; c < 4; ++c) square += std::pow(table(r, c) - mean, 2) / 4;
    for (int c = 0; c < 4; ++c) {
      const size_t at = static_cast<size_t>(c);
      table(r, c) = (table(r, c) - mean) / std::sqrt(square + 1e-7) *
                        store.arrays.at("LayerNorm.weight")[at] +
                    store.arrays.at("LayerNorm.bias")[at];
    }
  }
  const auto kr = linear(table, store.arrays.at("pos_proj.weight"), {}, 0, 2);
  for (size_t n = 0; n < kr.values.size(); ++n) {
    EXPECT_NEAR(terms.query_rows->rows.data[n], kr.values[n], 1e-13);
  }
}

TEST(Deberta, Question4AddsNothingToValues) {
  EXPECT_FALSE(toy_terms(toy_deberta("both")).value_rows);
}

TEST(Deberta, Question5NamesOfTheCheckpoints) {
  const auto names = [](const char* specification) {
    std::string text;
    for (const auto& spec : make_scheme(specification)->learn(sizes_of(2, 3, 5))) {
      text += (text.empty() ? "" : " ") + spec.name + (spec.per_layer ? "*" : "");
    }
    return text;
  };
  EXPECT_EQ(names("deberta(version=v1)"),
            "rel_embeddings.weight pos_proj.weight* pos_q_proj.weight* pos_q_proj.bias*");
  EXPECT_EQ(names("deberta(version=v1,pos_att_type=c2p)"),
            "rel_embeddings.weight pos_proj.weight*");
  EXPECT_EQ(names("deberta(norm_rel_ebd=layer_norm)"),
            "rel_embeddings.weight LayerNorm.weight LayerNorm.bias pos_key_proj.weight* "
            "pos_key_proj.bias* pos_query_proj.weight* pos_query_proj.bias*");
  EXPECT_EQ(names("deberta(share_att_key=yes,pos_att_type=p2c)"),
            "rel_embeddings.weight query_proj.weight* query_proj.bias*");
  const auto specs = make_scheme("deberta")->learn(sizes_of(2, 3, 5));
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{512, 5}));
  EXPECT_EQ(specs[1].shape, (std::vector<int64_t>{6, 5}));
  EXPECT_TRUE(specs[0].table);
  EXPECT_FALSE(specs[1].table);
  EXPECT_EQ(make_scheme("deberta(version=v1)")->learn(sizes_of(2, 3, 5))[0].shape,
            (std::vector<int64_t>{1024, 5}));
}

TEST(Deberta, Question5Gradients) {
  for (const char* specification :
       {"deberta(version=v1,max_positions=3)", "deberta(buckets=4,max_positions=8)",
        "deberta(buckets=4,max_positions=8,pos_att_type=c2p,norm_rel_ebd=layer_norm)",
        "deberta(buckets=4,max_positions=8,norm_rel_ebd=layer_norm)",
        "deberta(version=v1,max_positions=3,pos_att_type=p2c)"}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(specification);
      const auto scheme = make_scheme(specification);
      Call call = square_call(6, causal);
      call.sizes = sizes_of(2, 2, 5);
      Store store = random_store(*scheme, call.sizes);
      expect_gradients(*scheme, call, store, 1e-8);  // a norm of five numbers bends strongly
      call.first_head = 1;
      call.heads = 1;
      expect_gradients(*scheme, call, store, 1e-8);
    }
  }
}

TEST(Deberta, Question5FitReachesTheLastRows) {
  for (const char* name : {"deberta", "deberta(version=v1)"}) {
    for (const int64_t length : {1, 4, 7, 8, 64, 100, 512}) {
      auto scheme = make_scheme(name);
      scheme->fit({length, 0.02});
      scheme->check();
      const IndexMap map = dynamic_cast<const Deberta&>(*scheme).index();
      if (length >= 4) {
        EXPECT_EQ(map(-(length - 1)), map(-1000000)) << name << " at " << length;
      }
    }
  }
  auto scheme = make_scheme("deberta");
  scheme->fit({512, 0.02});
  EXPECT_EQ(specification(*scheme), "deberta") << "the published proportion";
  scheme->fit({64, 0.02});
  EXPECT_EQ(specification(*scheme), "deberta(buckets=32,max_positions=64)");
}

TEST(Deberta, Question5FitKeepsWhatIsNamed) {
  const auto fitted = [](const char* text, int64_t length) {
    const auto scheme = make_fitted_scheme(text, length, 0.02);
    scheme->check();
    return specification(*scheme);
  };
  EXPECT_EQ(fitted("deberta(buckets=256)", 32), "deberta(max_positions=130)");
  EXPECT_EQ(fitted("deberta(buckets=8)", 32), "deberta(buckets=8,max_positions=32)");
  EXPECT_EQ(fitted("deberta(max_positions=20)", 512), "deberta(buckets=10,max_positions=20)");
  EXPECT_EQ(fitted("deberta(max_positions=20,buckets=4)", 512), "deberta(buckets=4,max_positions=20)");
}

// D38: the paper's p2c takes delta(j, i), the code and so the checkpoints delta(i, j).
TEST(Deberta, D38_PositionToContentUsesDeltaIJ) {
  const auto positions = oracle::consecutive(3);
  const auto a = toy();
  const auto p2c = toy_terms(toy_deberta("p2c"));
  const auto got = added(p2c, a.q, a.k, positions, positions).scaled;
  expect_matrix(got, golden::kDebertaToyP2c, 1e-15);
  EXPECT_NE(got(0, 1), golden::kDebertaToyP2cPaper[0][1]);
  const auto both = toy_terms(toy_deberta("both"));
  for (int64_t d = -5; d <= 5; ++d) {
    EXPECT_EQ(both.query_rows->index(d), both.key_rows->index(d)) << "one delta for both terms";
  }
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(p2c.key_rows->index(j - i), golden::kDebertaToyDelta[i][j]);
    }
  }
}

// D39: the length of the text in the place of max_positions. Rows may not depend on the call.
TEST(Deberta, D39_BucketsDoNotDependOnTheLength) {
  const auto scheme = make_scheme("deberta");
  const IndexMap map = dynamic_cast<const Deberta&>(*scheme).index();
  for (const auto& c : golden::kDebertaLength300) EXPECT_EQ(map(-c.x), 256 + c.value);
  const Sizes sizes = sizes_of(1, 1, 1);
  Store store(*scheme, sizes);
  auto& table = store.arrays.at(kTable);
  for (size_t r = 0; r < table.size(); ++r) table[r] = static_cast<double>(r);
  store.arrays.at("pos_key_proj.weight") = {1};
  for (const int length : {1, 2, 130, 300, 511, 600, 2000}) {
    Call call = square_call(length, false);
    call.sizes = sizes;
    const auto terms = lower(*scheme, call, store.views());
    for (int64_t d = 1 - length; d < length; ++d) {
      ASSERT_EQ(*terms.query_rows->rows.row(0, terms.query_rows->index(d)), map(d))
          << "length " << length << ", distance " << d;
    }
  }
}

// D40: p2p crashed; it is refused with a reason.
TEST(Deberta, D40_PositionToPositionIsRefused) {
  for (const char* version : {"v1", "v2"}) {
    const std::string message = message_of(
        [&] { make_scheme(std::string("deberta(pos_att_type=p2p,version=") + version + ")"); });
    EXPECT_SAYS(message, "[deberta]");
    EXPECT_SAYS(message, "p2p");
    EXPECT_SAYS(message, "there are c2p, p2c and both");
  }
}

TEST(Deberta, RefusesWhatIsContradictory) {
  EXPECT_SAYS(message_of([] { make_scheme("deberta(version=v1,share_att_key=yes)"); }),
              "version=v2");
  EXPECT_SAYS(message_of([] { make_scheme("deberta(buckets=9)"); }), "even");
  EXPECT_SAYS(message_of([] { make_scheme("deberta(max_positions=100)"); }), "max_positions");
}

}  // namespace
}  // namespace locant
