// Learned absolute positions and position ids: the five questions in order, then the public bugs.
#include "locant/position/learned.h"

#include "locant/position/position_ids.h"
#include "tests/golden/position_ids.h"
#include "tests/oracle/learned_ids.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using probe::Store;

Sizes width(int64_t width) {
  Sizes sizes;
  sizes.width = width;
  return sizes;
}

// Parameters 0, 1, 2, ...: row r of width w starts with r w.
Store counted(const Scheme& scheme, const Sizes& sizes) {
  double next = 0;
  return Store(scheme, sizes, [&](const ParameterSpec&) { return next++; });
}

double first_of_row(const Scheme& scheme, int64_t position) {
  std::vector<double> row(3, 0.5);
  scheme.embed(&position, 1, width(3), counted(scheme, width(3)).views(), row.data());
  EXPECT_EQ(row[2], row[0] + 2);
  return row[0] - 0.5;  // added to what was there
}

// 1. What do I add to an embedding?
TEST(Learned, AddsTheRowOfThePosition) {
  const auto plain = make_scheme("learned(rows=8)");
  for (int64_t p : {0, 3, 7}) EXPECT_EQ(first_of_row(*plain, p), static_cast<double>(3 * p));
  const auto roberta = make_scheme("learned(rows=8,first_row=2)");
  for (int64_t p : {0, 3, 5})
    EXPECT_EQ(first_of_row(*roberta, p), static_cast<double>(3 * (p + 2)));
}

TEST(Learned, GradientsSumOverThoseWhoShareARow) {
  const std::vector<int64_t> positions{0, 3, 3, 1, 3};
  for (const char* text :
       {"learned(rows=4)", "learned(rows=6,first_row=2)", "learned(rows=3,beyond=repeat)"}) {
    const auto scheme = make_scheme(text);
    Store store = counted(*scheme, width(2));
    probe::expect_embed_gradients(*scheme, positions, width(2), store);
  }
}

// 2. 3. 4. Nothing for queries, keys, scores and values.
TEST(Learned, AddsNothingElse) {
  const auto terms = lower(Learned(), probe::square_call(4, true), {});
  EXPECT_FALSE(terms.rotation || terms.number || terms.query_rows || terms.key_rows ||
               terms.value_rows || terms.content_bias);
}

// 5. A table of rows, and an end.
TEST(Learned, LearnsATable) {
  const auto scheme = make_scheme("learned(rows=514,first_row=2)");
  Sizes sizes = width(768);
  sizes.layers = 12;
  const auto specs = scheme->learn(sizes);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].name, "position_embeddings.weight");
  EXPECT_EQ(specs[0].shape, (std::vector<int64_t>{514, 768}));
  EXPECT_EQ(specs[0].init, ParameterSpec::Init::kNormal);
  EXPECT_EQ(specs[0].scale, 0.02);
  EXPECT_TRUE(specs[0].table);
  EXPECT_EQ(parameter_count(*scheme, sizes), 514 * 768);  // once, not for each layer
  EXPECT_EQ(scheme->table_length(), 512);
}

TEST(Learned, FitGivesTheTrainingLength) {
  Learned scheme;
  scheme.fit({64, 0.02});
  EXPECT_EQ(scheme.table_length(), 64);
  EXPECT_EQ(make_fitted_scheme("learned(first_row=2)", 64, 0.02)->table_length(), 64);
  EXPECT_EQ(make_fitted_scheme("learned(rows=10)", 64, 0.02)->table_length(), 10);
}

TEST(Learned, BeyondTheTable) {
  const auto repeat = make_scheme("learned(rows=4,beyond=repeat)");
  for (int64_t p : {3, 4, 100}) EXPECT_EQ(first_of_row(*repeat, p), 9);
  EXPECT_EQ(repeat->table_length(), 4) << "an evaluation must be able to mark repeated rows";
  EXPECT_SAYS(message_of([&] { first_of_row(*repeat, -1); }), "must be 0 or more, got -1");
  EXPECT_SAYS(message_of([] { make_scheme("learned(rows=2,first_row=2)"); }),
              "first_row must be less than rows, got 2 of 2");
}

// --- position ids ---

template <size_t N>
void expect_ids(const PositionIds& ids, const int (&expected)[N]) {
  EXPECT_EQ(ids, PositionIds(expected, expected + N));
}
template <class Number, size_t N>
std::vector<Number> list(const int (&values)[N]) {
  return std::vector<Number>(values, values + N);
}

TEST(PositionIds, OfThePublishedModels) {
  EXPECT_EQ(plain_ids(4), (PositionIds{0, 1, 2, 3}));
  EXPECT_EQ(plain_ids(2, 7), (PositionIds{7, 8}));
  const auto mask = list<int>(golden::kIdsMask);
  expect_ids(ids_from_mask(mask), golden::kIdsGpt2Generate);
  expect_ids(opt_ids(mask), golden::kIdsOpt);
  expect_ids(bloom_ids(mask), golden::kIdsBloom);
  expect_ids(roberta_ids(list<int64_t>(golden::kRobertaTokensRightPadded), golden::kRobertaPad),
             golden::kIdsRobertaRightPadded);
  expect_ids(roberta_ids(list<int64_t>(golden::kRobertaTokensLeftPadded), golden::kRobertaPad),
             golden::kIdsRobertaLeftPadded);
  EXPECT_EQ(roberta_ids({31414}, golden::kRobertaPad, 3),
            PositionIds{golden::kIdsRobertaOneTokenAfter3});
  EXPECT_EQ(roberta_ids_without_tokens(3, golden::kRobertaPad), (PositionIds{2, 3, 4}));
}

TEST(PositionIds, EqualTheFormulasOnEveryMask) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    std::vector<int> mask, tokens;
    std::vector<int64_t> wide;
    for (unsigned t = 0; t < 8; ++t) {
      mask.push_back((bits >> t) & 1);
      tokens.push_back(mask.back() ? 50 : 1);
      wide.push_back(tokens.back());
    }
    EXPECT_EQ(ids_from_mask(mask), oracle::generate_ids(mask)) << bits;
    EXPECT_EQ(bloom_ids(mask), oracle::bloom_ids(mask)) << bits;
    EXPECT_EQ(opt_ids(mask), oracle::opt_ids(mask)) << bits;
    EXPECT_EQ(roberta_ids(wide, 1, 5), oracle::roberta_ids(tokens, 1, 5)) << bits;
  }
}

TEST(PositionIds, RefuseWhatIsNoMask) {
  EXPECT_SAYS(message_of([] { ids_from_mask({0, 2}); }), "a mask holds 0 and 1, got 2");
}

// Left padding: a row's ids depend on its own mask, so a padded row reads the rows of the unpadded.
TEST(PositionIds, D09_LeftPaddedRowsEqualUnpaddedOnes) {
  for (int padding = 0; padding < 6; ++padding) {
    for (int real = 1; real < 6; ++real) {
      std::vector<int> mask(static_cast<size_t>(padding), 0);
      mask.insert(mask.end(), static_cast<size_t>(real), 1);
      for (const auto& rule : {ids_from_mask, bloom_ids, opt_ids}) {
        const PositionIds padded = rule(mask);
        const PositionIds unpadded = rule(std::vector<int>(static_cast<size_t>(real), 1));
        EXPECT_EQ(PositionIds(padded.begin() + padding, padded.end()), unpadded);
        // One decoded token more: the ids before it stay, the last column is its own.
        std::vector<int> longer = mask;
        longer.push_back(1);
        PositionIds next = rule(longer);
        EXPECT_EQ(next.back(), unpadded.back() + 1);
        next.pop_back();
        EXPECT_EQ(next, padded);
      }
    }
  }
}

// RoBERTa's first row is padding + 1, so its table holds fewer tokens than rows.
TEST(Learned, D48_UsableLengthIsCheckedBeforeLookup) {
  EXPECT_EQ(usable_length(golden::kRobertaRows, 1), golden::kRobertaUsablePad1);
  EXPECT_EQ(usable_length(golden::kRobertaRows, 3), golden::kRobertaUsablePad3);
  for (int64_t padding : {0, 1, 3, 7}) {
    const int64_t usable = usable_length(golden::kRobertaRows, padding);
    const auto scheme =
        make_scheme("learned(rows=514,first_row=" + std::to_string(padding + 1) + ")");
    EXPECT_EQ(scheme->table_length(), usable);
    EXPECT_EQ(first_of_row(*scheme, usable - 1), 3 * 513);
    EXPECT_SAYS(message_of([&] { first_of_row(*scheme, usable); }), "needs length");
    // The same by ids: rows are counted from the padding id.
    const auto by_ids = make_scheme("learned(rows=514)");
    const std::vector<int64_t> tokens(static_cast<size_t>(usable), 100);
    EXPECT_EQ(first_of_row(*by_ids, roberta_ids(tokens, padding).back()), 3 * 513);
    const int64_t one_more = roberta_ids({100}, padding, usable).back();
    EXPECT_SAYS(message_of([&] { first_of_row(*by_ids, one_more); }), "needs length 515");
  }
}

TEST(Learned, D49_TheErrorNamesBothLengths) {
  for (int64_t rows : {1, 64, 512}) {
    const auto scheme = make_scheme("learned(rows=" + std::to_string(rows) + ")");
    for (int64_t position : {rows, rows + 1, 10 * rows}) {
      const std::string said = message_of([&] { first_of_row(*scheme, position); });
      EXPECT_SAYS(said, "[learned] position " + std::to_string(position));
      EXPECT_SAYS(said, "needs length " + std::to_string(position + 1));
      EXPECT_SAYS(said, "rows for " + std::to_string(rows));
    }
  }
}

}  // namespace
}  // namespace locant
