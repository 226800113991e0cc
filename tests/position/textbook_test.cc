// What textbooks state about positions, each row through the public API: a scheme from its text,
// lowered for a call, run by attention. Scores are read back from the attention's own results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

#include "locant/attention/attention.h"
#include "locant/base/executor.h"
#include "locant/position/registry.h"
#include "tests/golden/t5.h"
#include "tests/position/materialise.h"

namespace locant {
namespace {

using dense::Arrays;
using oracle::Rng;

attention::Options unit_scale() {
  attention::Options options;
  options.scale = 1.0;
  return options;
}

// One call of attention, one batch entry, H heads of width D; keys and queries as given.
struct Trial {
  int64_t heads = 1, head_size = 1;
  std::vector<int64_t> q_positions, k_positions;
  std::vector<double> q, k;  // [H][n][D]; empty: zeros, so that scores are what positions add
  Arrays arrays;
  attention::Options options = unit_scale();
};

struct Results {
  int64_t queries = 0, keys = 0;
  std::vector<double> scores, weights;  // [H][Q][K]
  double score(int64_t i, int64_t j, int64_t head = 0) const {
    return scores.at(static_cast<size_t>((head * queries + i) * keys + j));
  }
};

Results run(const Scheme& scheme, Trial s) {
  const int64_t H = s.heads, D = s.head_size, Q = static_cast<int64_t>(s.q_positions.size()),
                K = static_cast<int64_t>(s.k_positions.size());
  if (s.q.empty()) s.q.assign(static_cast<size_t>(H * Q * D), 0.0);
  if (s.k.empty()) s.k.assign(static_cast<size_t>(H * K * D), 0.0);
  std::vector<double> v(static_cast<size_t>(H * K * K), 0.0);  // identity: outputs are weights
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t j = 0; j < K; ++j) v[static_cast<size_t>((h * K + j) * K + j)] = 1;
  }
  attention::Inputs<double> inputs;
  inputs.q = {s.q.data(), {1, H, Q, D}};
  inputs.k = {s.k.data(), {1, H, K, D}};
  inputs.v = {v.data(), {1, H, K, K}};
  inputs.q_positions = {s.q_positions.data(), {1, Q}};
  inputs.k_positions = {s.k_positions.data(), {1, K}};

  const attention::Span span = attention::span_of(inputs, s.options);
  Call call;
  call.sizes = {.layers = 1, .heads = H, .head_size = D, .width = H * D, .value_size = K};
  call.causal = s.options.causal;
  call.first_distance = span.first_distance;
  call.last_distance = span.last_distance;
  call.length = span.length;
  const Terms<double> terms = lower(scheme, call, dense::views_of(s.arrays));

  Results r;
  r.queries = Q;
  r.keys = K;
  r.weights.resize(static_cast<size_t>(H * Q * K));
  std::vector<double> lse(static_cast<size_t>(H * Q));
  attention::Workspace workspace;
  SerialExecutor executor;
  attention::Outputs<double> outputs{{r.weights.data(), {1, H, Q, K}}, {lse.data(), {1, H, Q}}};
  attention::forward(inputs, terms, s.options, outputs, workspace, executor);
  for (size_t n = 0; n < r.weights.size(); ++n) {
    r.scores.push_back(std::log(r.weights[n]) + lse[n / static_cast<size_t>(K)]);
  }
  return r;
}

Results run(const std::string& scheme, Trial s) { return run(*make_scheme(scheme), std::move(s)); }

std::vector<double> embedding(const std::string& scheme, int64_t position, int64_t width,
                              const Arrays& arrays = {}) {
  Sizes sizes;
  sizes.width = width;
  std::vector<double> row(static_cast<size_t>(width), 0.0);
  make_scheme(scheme)->embed(&position, 1, sizes, dense::views_of(arrays), row.data());
  return row;
}

std::vector<int64_t> range(int64_t n) {
  std::vector<int64_t> result(static_cast<size_t>(n));
  std::iota(result.begin(), result.end(), int64_t{0});
  return result;
}

// A table whose row r holds the number r: scores then say which row was read.
std::vector<double> row_numbers(int64_t rows) {
  std::vector<double> table(static_cast<size_t>(rows));
  std::iota(table.begin(), table.end(), 0.0);
  return table;
}

// The row of a bias or of Shaw's keys at one distance (D = 1, query 1, key 0, scale 1).
int64_t row_at(const std::string& scheme, const std::string& array, int64_t rows, int64_t distance,
               bool causal = false) {
  Trial s;
  const int64_t i = 10000;
  s.q_positions = {i};
  s.k_positions = {i + distance};
  s.q = {1};
  s.k = {0};
  s.arrays[array] = row_numbers(rows);
  s.options.causal = causal;
  return std::lround(run(scheme, s).score(0, 0));
}

constexpr char kT5Table[] = "relative_attention_bias.weight";

TEST(Textbook, SinusoidalPosition1Channel0Is084) {
  const double value = embedding("sinusoidal", 1, 8)[0];
  EXPECT_NEAR(value, .841471, .5e-6);
  EXPECT_EQ(std::round(value * 100), 84);
}

TEST(Textbook, SinusoidalShiftIsARotationThatDependsOnTheShiftOnly) {
  for (const std::string layout : {"interleaved", "concatenated", "tensor2tensor"}) {
    const std::string scheme = "sinusoidal(layout=" + layout + ")";
    const bool neighbours = layout == "interleaved";
    const size_t width = 8, half = 4;
    const auto first = [&](size_t t) { return neighbours ? 2 * t : t; };
    const auto second = [&](size_t t) { return neighbours ? 2 * t + 1 : t + half; };
    for (int64_t k : {1, 5, 130}) {
      // The rotation by k, read off at p = 0 (sine 0, cosine 1), must turn every other p.
      const auto by = embedding(scheme, k, width);
      for (int64_t p : {0, 1, 17, 900}) {
        const auto here = embedding(scheme, p, width), there = embedding(scheme, p + k, width);
        for (size_t t = 0; t < half; ++t) {
          const double sin_p = here[first(t)], cos_p = here[second(t)];
          const double sin_k = by[first(t)], cos_k = by[second(t)];
          EXPECT_NEAR(there[first(t)], sin_p * cos_k + cos_p * sin_k, 1e-12) << layout << t;
          EXPECT_NEAR(there[second(t)], cos_p * cos_k - sin_p * sin_k, 1e-12) << layout << t;
        }
      }
    }
  }
}

TEST(Textbook, AlibiScore10Slope05Distance6Gives7) {
  Trial s;
  s.heads = 8;  // head 0 has slope 1/2
  s.q_positions = {6};
  s.k_positions = {0};
  s.q.assign(8, 5.0);
  s.k.assign(8, 4.0);
  s.options.scale = 0.5;  // 5 * 4 * 0.5 = 10: the scaled score
  s.options.causal = true;
  EXPECT_NEAR(run("alibi", s).score(0, 0, 0), 7, 1e-14);
}

TEST(Textbook, RopeRelativeAngleIsPlus3) {
  Trial s;
  s.head_size = 4;
  s.q_positions = {4};
  s.k_positions = {10};
  const std::string scheme = "rope(base=4,layout=half-split)";  // theta = 1, 1/2; pair 1: (1, 3)
  s.q = {0, 1, 0, 0};
  s.k = {0, 1, 0, 0};
  EXPECT_NEAR(run(scheme, s).score(0, 0), std::cos(3.0), 1e-14);
  s.k = {0, 0, 0, 1};  // a quarter turn ahead: cos(3 + pi/2)
  EXPECT_NEAR(run(scheme, s).score(0, 0), -std::sin(3.0), 1e-14);
}

TEST(Textbook, RopeDependsOnTheDifferenceOnly) {
  Rng rng(1);
  for (const std::string scheme : {"rope", "rope(layout=interleaved)", "rope(width=4)"}) {
    Trial s;
    s.head_size = 8;
    s.q = oracle::random_numbers(rng, 5 * 8);
    s.k = oracle::random_numbers(rng, 5 * 8);
    s.q_positions = {0, 3, 4, 9, 2};
    s.k_positions = {7, 1, 0, 3, 12};
    const Results here = run(scheme, s);
    for (int64_t t : {1, 100, 4096}) {
      Trial moved = s;
      for (int64_t& p : moved.q_positions) p += t;
      for (int64_t& p : moved.k_positions) p += t;
      const Results there = run(scheme, moved);
      for (size_t n = 0; n < here.scores.size(); ++n) {
        EXPECT_NEAR(there.scores[n], here.scores[n], 1e-11) << scheme << " moved by " << t;
      }
    }
    Trial other = s;
    other.q_positions[0] += 1;  // and on the difference it does depend
    EXPECT_GT(std::fabs(run(scheme, other).score(0, 0) - here.score(0, 0)), 1e-3);
  }
}

TEST(Textbook, ShawClipsDistance40At16) {
  const auto row = [](int64_t distance) {
    return row_at("shaw(k=16,on=keys)", "relative_positions_keys", 33, distance);
  };
  EXPECT_EQ(row(40), 32);
  EXPECT_EQ(row(16), 32);
  EXPECT_EQ(row(15), 31);
  EXPECT_EQ(row(0), 16);
  EXPECT_EQ(row(-40), 0);
  EXPECT_EQ(row(-15), 1);
}

TEST(Textbook, T5DefaultTableEncoderNeverReaches16) {
  std::set<int64_t> left, right;
  for (int64_t n = 0; n <= 600; ++n) {
    left.insert(row_at("t5", kT5Table, 32, -n));
    if (n > 0) right.insert(row_at("t5", kT5Table, 32, n));
  }
  std::set<int64_t> want_left, want_right;
  for (int64_t b = 0; b < 16; ++b) want_left.insert(b);
  for (int64_t b = 17; b < 32; ++b) want_right.insert(b);
  EXPECT_EQ(left, want_left);
  EXPECT_EQ(right, want_right);
}

TEST(Textbook, T5DefaultTableDecoderUsesAll32ToTheLeft) {
  std::set<int64_t> left, all;
  for (int64_t n = 0; n <= 600; ++n) left.insert(row_at("t5", kT5Table, 32, -n, true));
  for (int64_t b = 0; b < 32; ++b) all.insert(b);
  EXPECT_EQ(left, all);
}

TEST(Textbook, T5HalvesRightKeysAreInTheUpperHalf) {
  EXPECT_EQ(row_at("t5", kT5Table, 32, +1), 17);
  EXPECT_EQ(row_at("t5", kT5Table, 32, -1), 1);
}

TEST(Textbook, NoPositionsPermutedTokensGivePermutedOutputs) {
  Rng rng(2);
  const int64_t n = 6, d = 4;
  Trial s;
  s.head_size = d;
  s.q = oracle::random_numbers(rng, n * d);
  s.k = oracle::random_numbers(rng, n * d);
  s.q_positions = s.k_positions = range(n);
  const size_t order[] = {3, 0, 5, 1, 4, 2};
  Trial permuted = s;
  for (size_t t = 0; t < 6; ++t) {
    for (size_t c = 0; c < 4; ++c) {
      permuted.q[t * 4 + c] = s.q[order[t] * 4 + c];
      permuted.k[t * 4 + c] = s.k[order[t] * 4 + c];
    }
  }
  const auto largest_difference = [&](bool causal, const std::string& scheme) {
    Trial a = s, b = permuted;
    a.options.causal = b.options.causal = causal;
    const auto plain = run(scheme, a).weights, moved = run(scheme, b).weights;
    double largest = 0;
    for (size_t i = 0; i < 6; ++i) {
      for (size_t j = 0; j < 6; ++j) {
        largest = std::max(largest, std::fabs(moved[i * 6 + j] - plain[order[i] * 6 + order[j]]));
      }
    }
    return largest;
  };
  EXPECT_LT(largest_difference(false, "nope"), 1e-15);
  EXPECT_GT(largest_difference(true, "nope"), 0.1);  // how NoPE decoders can tell order
  EXPECT_GT(largest_difference(false, "alibi"), 1e-3);
}

TEST(Textbook, T5IdeaNearWinsAlthoughItsContentScoreIsLower) {
  Trial s;
  s.q_positions = {200};
  s.k_positions = {199, 0};  // near, far
  s.q = {1};
  s.k = {0.6, 1.0};
  s.options.scale = 0.5;  // content scores 0.3 and 0.5
  s.options.causal = true;
  s.arrays[kT5Table] = std::vector<double>(32, 0.0);
  s.arrays[kT5Table][1] = 0.5;
  s.arrays[kT5Table][31] = -0.2;
  const Results r = run("t5", s);
  EXPECT_NEAR(r.score(0, 0), 0.8, 1e-14);
  EXPECT_NEAR(r.score(0, 1), 0.3, 1e-14);
}

TEST(Textbook, T5Of16BucketsUnidirectional) {
  const int64_t starts = std::size(golden::kT5StartsUni16);
  for (int64_t n = 0; n <= 400; ++n) {
    int64_t want = n;
    if (n >= golden::kT5FirstLogBucketUni16) {
      want = golden::kT5FirstLogBucketUni16 - 1;
      for (int64_t b = 0; b < starts; ++b) want += n >= golden::kT5StartsUni16[b];
    }
    EXPECT_EQ(row_at("t5(buckets=16,max_distance=128)", kT5Table, 16, -n, true), want) << n;
  }
}

TEST(Textbook, SinusoidalWavelengthsAreGeometric) {
  const int64_t width = 64;
  const auto row = embedding("sinusoidal", 1, width);
  std::vector<double> wavelength;
  for (size_t t = 0; t < 32; ++t) {
    wavelength.push_back(2 * std::numbers::pi / std::atan2(row[2 * t], row[2 * t + 1]));
  }
  EXPECT_NEAR(wavelength[0], 2 * std::numbers::pi, 1e-12);
  const double ratio = std::pow(10000.0, 1.0 / 32);
  for (size_t t = 1; t < 32; ++t) {
    EXPECT_NEAR(wavelength[t] / wavelength[t - 1], ratio, 1e-10);
  }
  // Towards 10000 * 2 pi: one more step would be there.
  EXPECT_NEAR(wavelength.back() * ratio / (2 * std::numbers::pi * 10000), 1, 1e-10);
}

TEST(Textbook, AbsolutePositionsScoreIsTheSumOfFourProducts) {
  Rng rng(3);
  const int n = 5, width = 6;
  const oracle::Matrix x = oracle::random_matrix(rng, n, width);
  const oracle::Matrix w_q = oracle::random_matrix(rng, width, width);
  const oracle::Matrix w_k = oracle::random_matrix(rng, width, width);
  for (const std::string scheme : {"sinusoidal", "learned(rows=8)"}) {
    Arrays arrays;
    for (const ParameterSpec& spec : make_scheme(scheme)->learn({.width = width})) {
      arrays[spec.name] = oracle::random_numbers(rng, static_cast<int>(spec.size()));
    }
    oracle::Matrix p(n, width);
    for (int t = 0; t < n; ++t) {
      const auto row = embedding(scheme, t, width, arrays);
      for (int c = 0; c < width; ++c) p(t, c) = row[static_cast<size_t>(c)];
    }
    const auto through = [&](const oracle::Matrix& a, const oracle::Matrix& w) {
      return oracle::times_transposed(a, w);
    };
    Trial s;
    s.head_size = width;
    s.q_positions = s.k_positions = range(n);
    s.q = through(oracle::sum(x, p), w_q).values;
    s.k = through(oracle::sum(x, p), w_k).values;
    const Results r = run(scheme, s);
    const oracle::Matrix xq = through(x, w_q), pq = through(p, w_q), xk = through(x, w_k),
                         pk = through(p, w_k);
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        const double content_content = oracle::dot_rows(xq, i, xk, j),
                     content_position = oracle::dot_rows(xq, i, pk, j),
                     position_content = oracle::dot_rows(pq, i, xk, j),
                     position_position = oracle::dot_rows(pq, i, pk, j);
        EXPECT_NEAR(r.score(i, j),
                    content_content + content_position + position_content + position_position,
                    1e-11);
        EXPECT_GT(std::fabs(position_position), 0);
      }
    }
  }
}

// A table read in the other order is mirrored.
TEST(Textbook, ShawAndScalarTableOrderIsAnOption) {
  for (int64_t distance = -5; distance <= 5; ++distance) {
    const int64_t clipped = std::clamp<int64_t>(distance, -3, 3);
    EXPECT_EQ(row_at("shaw(k=3,on=keys)", "relative_positions_keys", 7, distance), clipped + 3);
    EXPECT_EQ(row_at("shaw(k=3,on=keys,order=i-j)", "relative_positions_keys", 7, distance),
              3 - clipped);
    const std::string array = make_scheme("scalar_table(clip=3)")->learn({}).at(0).name;
    EXPECT_EQ(row_at("scalar_table(clip=3)", array, 7, distance), clipped + 3);
    EXPECT_EQ(row_at("scalar_table(clip=3,order=i-j)", array, 7, distance), 3 - clipped);
  }
}

// Transformer-XL and DeBERTa do not have the plain scalar bias b(i - j): what they add at a distance
// depends on the query or the key, and stands inside the scale.
TEST(Textbook, ScalarBiasIsNotTransformerXlsNorDebertas) {
  const auto added = [](const std::string& text, double scale, double content) {
    const auto scheme = make_scheme(text);
    Trial s;
    s.head_size = 2;
    s.q_positions = {5};
    s.k_positions = {3};
    s.q = {content, 0};
    s.k = {0, content};  // q . k = 0
    s.options.scale = scale;
    s.options.causal = true;
    Rng rng(4);
    s.arrays = dense::random_arrays(rng, *scheme, {.heads = 1, .head_size = 2, .width = 2});
    return run(*scheme, s).score(0, 0);
  };
  EXPECT_NEAR(added("scalar_table", 1, 1), added("scalar_table", 1, 3), 1e-14);
  EXPECT_NEAR(added("scalar_table", 1, 1), added("scalar_table", 0.25, 1), 1e-14);
  for (const std::string text : {"transformer_xl", "deberta(buckets=8,max_positions=16)"}) {
    EXPECT_GT(std::fabs(added(text, 1, 1) - added(text, 1, 3)), 1e-2) << text;
    EXPECT_NEAR(added(text, 0.25, 1), added(text, 1, 1) * 0.25, 1e-14) << text;
  }
}

TEST(Textbook, LearnedPosition5000InATableOf2048IsAnError) {
  const std::string text = "learned(rows=2048)";
  Arrays arrays;
  for (const ParameterSpec& spec : make_scheme(text)->learn({.width = 4})) {
    arrays[spec.name].assign(static_cast<size_t>(spec.size()), 0.0);
  }
  const std::string message =
      probe::message_of([&] { embedding(text, 5000, 4, arrays); });
  EXPECT_SAYS(message, "2048");
  EXPECT_TRUE(message.find("5000") != std::string::npos ||
              message.find("5001") != std::string::npos)
      << message;
  embedding(text, 2047, 4, arrays);  // the last row is there
  EXPECT_NEAR(embedding("sinusoidal", 5000, 4)[0], std::sin(5000.0), 1e-15);
}

TEST(Textbook, AlibiPenaltyAt5000IsTheSameWhateverTheTrainingLength) {
  for (int64_t length : {64, 1024, 100000}) {
    const auto scheme = make_scheme("alibi");
    scheme->fit({length, 0.02});
    Trial s;
    s.heads = 8;
    s.q_positions = {5000};
    s.k_positions = {0};
    s.options.causal = true;
    const Results r = run(*scheme, s);
    for (int64_t h = 0; h < 8; ++h) {
      EXPECT_NEAR(r.score(0, 0, h), -5000 * std::pow(2.0, -static_cast<double>(h + 1)), 1e-11);
    }
  }
}

}  // namespace
}  // namespace locant
