// Sinusoidal positions: the five questions in order, then the public bugs.
#include "locant/position/sinusoidal.h"

#include "tests/golden/sinusoidal.h"
#include "tests/golden/toy.h"
#include "tests/oracle/sinusoidal.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using Layout = Sinusoidal::Layout;

std::vector<double> row_at(const std::string& specification, int64_t position, int64_t width) {
  const auto scheme = make_scheme(specification);
  Sizes sizes;
  sizes.width = width;
  std::vector<double> row(static_cast<size_t>(width), 0.0);
  scheme->embed(&position, 1, sizes, {}, row.data());
  return row;
}

const std::string kA = "sinusoidal", kB = "sinusoidal(layout=concatenated)",
                  kC = "sinusoidal(layout=tensor2tensor)";

// 1. What do I add to an embedding?
TEST(Sinusoidal, AddsThePublishedRows) {
  for (int n = 0; n < 4; ++n) {
    probe::expect_row(row_at(kA, golden::kSinusoidalPositionsA8[n], 8), golden::kSinusoidalA8[n],
                      golden::kSixDigits);
  }
  probe::expect_row(row_at(kB, 1, 8), golden::kSinusoidalB8Position1, golden::kSixDigits);
  probe::expect_row(row_at(kC, 1, 8), golden::kSinusoidalC8Position1, golden::kSixDigits);
  probe::expect_row(row_at(kC, 3, 8), golden::kSinusoidalC8Position3, golden::kSixDigits);
  probe::expect_row(row_at(kB, 1, 6), golden::kSinusoidalB6Position1, golden::kFourDigits);
  probe::expect_row(row_at(kB, 1, 512), golden::kSinusoidalB512Position1, golden::kFourDigits);
  probe::expect_row(row_at(kB, 2, 512), golden::kSinusoidalB512Position2, golden::kFourDigits);
  probe::expect_row(row_at(kB, 1, 5), golden::kSinusoidalB5Position1, golden::kSixDigits);
}

TEST(Sinusoidal, FrequenciesOfTheLayouts) {
  probe::expect_row(sinusoidal_frequencies(8, 10000, Layout::kInterleaved),
                    golden::kSinusoidalFrequencies8, 1e-15);
  probe::expect_row(sinusoidal_frequencies(8, 10000, Layout::kConcatenated),
                    golden::kSinusoidalFrequencies8, 1e-15);
  const auto c = sinusoidal_frequencies(8, 10000, Layout::kTensor2Tensor);
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_NEAR(c[t] / golden::kSinusoidalFrequenciesC8[t], 1, 5e-6) << t;
  }
  for (int64_t width : {4, 6, 30, 128}) {  // the last timescale is exactly the base
    EXPECT_DOUBLE_EQ(sinusoidal_frequencies(width, 10000, Layout::kTensor2Tensor).back(), 1e-4);
  }
}

TEST(Sinusoidal, EqualsTheFormulaAtEveryWidth) {
  const std::vector<std::pair<std::string, oracle::SinusoidalLayout>> layouts{
      {"interleaved", oracle::SinusoidalLayout::kAlternating},
      {"concatenated", oracle::SinusoidalLayout::kConcatenated},
      {"tensor2tensor", oracle::SinusoidalLayout::kTensor2Tensor}};
  const oracle::Positions positions{0, 1, 2, 77, 1000, 65537};
  for (const auto& [word, layout] : layouts) {
    const std::string text = "sinusoidal(base=500,amplitude=3,layout=" + word + ")";
    for (int width = 1; width <= 17; ++width) {
      const auto expected = oracle::sinusoidal(positions, width, 500, layout);
      for (int r = 0; r < expected.rows; ++r) {
        const auto row = row_at(text, positions[static_cast<size_t>(r)], width);
        for (int c = 0; c < width; ++c) {
          // Both take pow to the last bit or two; the angle multiplies that by up to 65537.
          EXPECT_NEAR(row[static_cast<size_t>(c)], 3 * expected(r, c), 1e-10)
              << word << ", width " << width << ", row " << r << ", column " << c;
        }
      }
    }
  }
}

TEST(Sinusoidal, AddsToWhatIsThere) {
  const std::vector<int64_t> positions{5, 5, 2};
  Sizes sizes;
  sizes.width = 4;
  std::vector<double> rows(12, 1.0);
  Sinusoidal().embed(positions.data(), 3, sizes, {}, rows.data());
  for (size_t c = 0; c < 4; ++c) {
    EXPECT_DOUBLE_EQ(rows[c], 1 + row_at(kA, 5, 4)[c]);
    EXPECT_EQ(rows[c], rows[4 + c]);
    EXPECT_DOUBLE_EQ(rows[8 + c], 1 + row_at(kA, 2, 4)[c]);
  }
}

TEST(Sinusoidal, RefusesNegativePositions) {
  EXPECT_SAYS(message_of([] { row_at(kA, -1, 4); }), "positions must be 0 or more, got -1");
}

// Fitted to embeddings of deviation s, a row's root mean square is s, as theirs is.
TEST(Sinusoidal, FitMatchesTheEmbeddings) {
  Sinusoidal scheme;
  scheme.fit({64, 0.02});
  for (int64_t position : {0, 1, 63, 1000}) {
    const auto row = row_at(specification(scheme), position, 128);
    EXPECT_NEAR(std::sqrt(probe::dot(row, row) / 128), 0.02, 1e-15);
  }
}

// 2. 3. 4. Nothing for queries, keys, scores and values.
TEST(Sinusoidal, AddsNothingElse) {
  const Sinusoidal scheme;
  EXPECT_TRUE(scheme.embeds());
  const auto terms = lower(scheme, probe::square_call(4, true), {});
  EXPECT_FALSE(terms.rotation || terms.number || terms.query_rows || terms.key_rows ||
               terms.value_rows || terms.content_bias);
  EXPECT_EQ(terms.scale_factor, 1);
}

// 5. Nothing is learned and there is no end.
TEST(Sinusoidal, LearnsNothingAndHasNoEnd) {
  EXPECT_TRUE(Sinusoidal().learn({}).empty());
  EXPECT_EQ(Sinusoidal().table_length(), -1);
  for (double x : row_at(kA, (int64_t{1} << 31) - 1, 64)) EXPECT_LE(std::fabs(x), 1);
}

// Layouts are never mixed silently: the same numbers in another order, or other numbers.
TEST(Sinusoidal, D50_LayoutsAreAnOption) {
  for (int64_t width : {6, 7, 8, 64}) {
    const auto a = row_at(kA, 3, width), b = row_at(kB, 3, width), c = row_at(kC, 3, width);
    EXPECT_NE(a, b);
    EXPECT_NE(b, c);
    const size_t sines = static_cast<size_t>((width + 1) / 2);
    for (size_t t = 0; t < sines; ++t) {
      EXPECT_EQ(a[2 * t], b[t]);
      if (t < static_cast<size_t>(width / 2)) {
        EXPECT_EQ(a[2 * t + 1], b[sines + t]);
      }
    }
    auto sorted_a = a, sorted_c = c;
    std::sort(sorted_a.begin(), sorted_a.end());
    std::sort(sorted_c.begin(), sorted_c.end());
    EXPECT_NE(sorted_a, sorted_c) << "tensor2tensor has frequencies of its own";
    if (width % 2 == 1) {
      EXPECT_EQ(c.back(), 0);
    }
  }
}

// Neighbouring large positions stay apart: angles are double, positions integers.
TEST(Sinusoidal, D12_LargePositionsStayApart) {
  for (int64_t position : {256, 2048, 65536, 16777216}) {
    const auto here = row_at(kA, position, 64), next = row_at(kA, position + 1, 64);
    const double expected = std::sin(static_cast<double>(position + 1));
    EXPECT_NEAR(next[0], expected, 1e-15);
    EXPECT_GT(std::fabs(next[0] - here[0]) + std::fabs(next[1] - here[1]), 0.9);
  }
}

}  // namespace
}  // namespace locant
