// Schemes that act on each token alone - rotations of queries and keys, rows added to embeddings -
// against the dense formulas of tests/oracle for random parameters, positions and options.
#include <gtest/gtest.h>

#include "tests/oracle/rope.h"
#include "tests/oracle/rope_scaling.h"
#include "tests/oracle/sinusoidal.h"
#include "tests/oracle/xpos.h"
#include "tests/position/materialise.h"

namespace locant::dense {
namespace {

std::string joined(const std::vector<double>& values) {
  std::ostringstream out;
  out.precision(17);
  for (size_t n = 0; n < values.size(); ++n) out << (n ? "/" : "") << values[n];
  return out.str();
}

TEST(SchemeOracle, RopeAndItsScalings) {
  Rng rng(9);
  for (int n = 0; n < 6 * kCases; ++n) {
    Case c = random_case(rng);
    const int d = c.a.q.cols;
    const int r = rng.chance(0.5) ? d : 2 * rng.integer(1, d / 2);
    const double base = pick(rng, {10000.0, 500000.0, 100.0});
    const bool interleaved = rng.chance(0.5);
    const std::string scaling = pick<std::string>(
        rng, {"none", "linear", "ntk", "dynamic", "yarn", "llama3", "longrope"});
    if (r == 2 && (scaling == "ntk" || scaling == "dynamic")) continue;
    const double factor = pick(rng, {2.0, 4.0, 10.0});
    const int original = pick(rng, {16, 64, 4096});
    std::string options = "rope(width=" + text(r) + ",base=" + text(base) +
                          ",layout=" + (interleaved ? "interleaved" : "half-split") +
                          ",scaling=" + scaling;
    if (scaling != "none") options += ",factor=" + text(factor);
    double length = static_cast<double>(c.call.length);
    double magnitude = 1;
    double softmax = 1;
    std::vector<double> theta = oracle::rope_frequencies(r, base);
    if (scaling != "none" && scaling != "linear" && scaling != "ntk") {
      options += ",original=" + text(original);
    }
    if (scaling == "linear") theta = oracle::rope_linear(r, base, factor);
    if (scaling == "ntk") theta = oracle::rope_frequencies(r, oracle::ntk_base(r, base, factor));
    if (scaling == "dynamic") {
      theta = oracle::rope_frequencies(
          r, oracle::dynamic_ntk_base(r, base, factor, original, length));
    }
    if (scaling == "yarn") {
      oracle::Yarn yarn{.factor = factor, .original = static_cast<double>(original)};
      yarn.truncate = rng.chance(0.5);
      yarn.beta_fast = rng.chance(0.5) ? 32 : 8;
      options += std::string(",truncate=") + (yarn.truncate ? "yes" : "no") +
                 ",beta_fast=" + text(yarn.beta_fast);
      theta = oracle::rope_yarn(r, base, yarn);
      magnitude = oracle::yarn_mscale(factor);
      if (rng.chance(0.3)) {
        magnitude = 0.75;
        options += ",attention_factor=0.75";
      } else if (rng.chance(0.5)) {  // DeepSeek
        options += ",mscale=0.5,mscale_all_dim=0.8,scale_softmax=yes";
        magnitude = oracle::yarn_mscale(factor, 0.5) / oracle::yarn_mscale(factor, 0.8);
        softmax = std::pow(oracle::yarn_mscale(factor, 0.8), 2);
      }
    }
    if (scaling == "llama3") theta = oracle::rope_llama3(r, base, factor, 1, 4, original);
    if (scaling == "longrope") {
      std::vector<double> shorter, longer;
      for (int t = 0; t < r / 2; ++t) {
        shorter.push_back(rng.uniform(1, 3));
        longer.push_back(rng.uniform(3, 40));
      }
      options += ",short_factor=" + joined(shorter) + ",long_factor=" + joined(longer);
      theta = oracle::rope_long(r, base, shorter, longer, original, length);
      magnitude = oracle::rope_long_magnitude(factor * original, original);
    }
    const auto scheme = make_scheme(options + ")");
    const auto layout =
        interleaved ? oracle::RopeLayout::kInterleaved : oracle::RopeLayout::kHalfSplit;
    Attention want = c.a;
    want.q = oracle::rope(c.a.q, c.queries(), theta, layout, magnitude);
    want.k = oracle::rope(c.a.k, c.keys(), theta, layout, magnitude);
    want.scale *= softmax;
    // An angle is a position times a frequency of a few roundings: its error is that many units of
    // the largest position.
    expect_same(*scheme, c, {}, want, 1 + static_cast<double>(c.call.length));
  }
}

TEST(SchemeOracle, RopeByLayer) {
  Rng rng(10);
  for (int n = 0; n < kCases; ++n) {
    Case c = random_case(rng, {.consecutive = true});
    const int d = c.a.q.cols;
    const auto scheme = make_scheme(
        "rope(rotate_layers=1/1/0,local_layers=1/0,local_base=300,base=20000,scaling=linear,"
        "factor=8)");
    Attention want = c.a;
    if (c.call.layer % 3 != 2) {
      const bool local = c.call.layer % 2 == 0;
      const std::vector<double> theta =
          local ? oracle::rope_frequencies(d, 300) : oracle::rope_linear(d, 20000, 8);
      want.q = oracle::rope(c.a.q, c.queries(), theta, oracle::RopeLayout::kHalfSplit);
      want.k = oracle::rope(c.a.k, c.keys(), theta, oracle::RopeLayout::kHalfSplit);
    }
    expect_same(*scheme, c, {}, want, 40);
  }
}

TEST(SchemeOracle, Xpos) {
  Rng rng(11);
  for (int n = 0; n < 2 * kCases; ++n) {
    const Case c = random_case(rng);
    const bool interleaved = rng.chance(0.5);
    // Scales must stay in range: a longer sequence fades more slowly.
    const double scale_base = c.call.length < 6000 ? 512 : 1e6;
    const double gamma = pick(rng, {0.4, 1.0});
    const auto scheme = make_scheme("xpos(base=3000,scale_base=" + text(scale_base) + ",gamma=" +
                                    text(gamma) + ",layout=" +
                                    (interleaved ? "interleaved" : "half-split") + ")");
    const auto layout =
        interleaved ? oracle::RopeLayout::kInterleaved : oracle::RopeLayout::kHalfSplit;
    Attention want = c.a;
    want.q = oracle::xpos(c.a.q, c.queries(), +1, 3000, scale_base, gamma, layout);
    want.k = oracle::xpos(c.a.k, c.keys(), -1, 3000, scale_base, gamma, layout);
    expect_same(*scheme, c, {}, want, 1 + static_cast<double>(c.call.length));
  }
}

// Question 1: rows added to embeddings, from the place where they are.
void expect_rows(const Scheme& scheme, const Case& c, const Arrays& arrays, const Matrix& want,
                 double angle) {
  SCOPED_TRACE(specification(scheme, true) + ": " + c.text);
  std::vector<double> rows(want.values.size(), 2.0);
  scheme.embed(c.keys().data(), want.rows, c.call.sizes, views_of(arrays), rows.data());
  std::vector<double> expected = want.values;
  for (double& x : expected) x += 2;
  const double size[] = {3.0};
  oracle::expect_close("rows", rows, expected, size, static_cast<int64_t>(angle),
                       oracle::kEpsDouble, {want.rows, want.cols});
}

TEST(SchemeOracle, Sinusoidal) {
  Rng rng(13);
  const std::pair<std::string, oracle::SinusoidalLayout> layouts[] = {
      {"interleaved", oracle::SinusoidalLayout::kAlternating},
      {"concatenated", oracle::SinusoidalLayout::kConcatenated},
      {"tensor2tensor", oracle::SinusoidalLayout::kTensor2Tensor}};
  for (int n = 0; n < 2 * kCases; ++n) {
    Case c = random_case(rng);
    c.call.sizes.width = rng.integer(1, 40);
    const auto& [word, layout] = layouts[rng.integer(0, 2)];
    const auto scheme = make_scheme("sinusoidal(base=700,layout=" + word + ")");
    expect_rows(*scheme, c, {},
                oracle::sinusoidal(c.keys(), static_cast<int>(c.call.sizes.width), 700, layout),
                static_cast<double>(c.call.length));
  }
}

TEST(SchemeOracle, Learned) {
  Rng rng(14);
  for (int n = 0; n < kCases; ++n) {
    Case c = random_case(rng, {.consecutive = true});
    const int width = static_cast<int>(c.call.sizes.width);
    const int first_row = rng.integer(0, 3);
    const int rows = static_cast<int>(c.call.length) + first_row;  // just enough
    const auto scheme =
        make_scheme("learned(rows=" + text(rows) + ",first_row=" + text(first_row) + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    ASSERT_EQ(arrays.size(), 1u);
    Matrix want(static_cast<int>(c.keys().size()), width);
    for (int t = 0; t < want.rows; ++t) {
      const int64_t row = first_row + c.keys()[static_cast<size_t>(t)];
      for (int w = 0; w < width; ++w) {
        want(t, w) = arrays.begin()->second.at(static_cast<size_t>(row * width + w));
      }
    }
    expect_rows(*scheme, c, arrays, want, 1);
  }
}

}  // namespace
}  // namespace locant::dense
