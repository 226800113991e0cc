// RoPE: the five questions in order, then the public bugs. Scalings: rope_scaling_test.cc.
#include "locant/position/rope.h"

#include "tests/golden/position_ids.h"
#include "tests/golden/rope.h"
#include "tests/golden/toy.h"
#include "tests/oracle/rope.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using Layout = Rotation::Layout;

Rotation rotation_of(const std::string& text, int64_t head_size, int64_t length = 4096,
                     int layer = 0) {
  const auto scheme = make_scheme(text);
  Call call = probe::square_call(length, true, 1, head_size);
  call.layer = layer;
  return lower(*scheme, call, {}).rotation.value();
}

const std::string kInterleaved = "rope(layout=interleaved)", kSplit = "rope(layout=half-split)";

template <size_t N>
std::vector<double> list(const double (&values)[N]) {
  return {values, values + N};
}

// 1. Nothing for embeddings.
TEST(Rope, AddsNothingToEmbeddings) { EXPECT_FALSE(Rope().embeds()); }

// 2. How do I turn a query and a key?
TEST(Rope, TurnsAsPublished) {
  const auto interleaved = rotation_of(kInterleaved, 4), split = rotation_of(kSplit, 4);
  for (int n = 0; n < 3; ++n) {
    const auto x = list(golden::kRopeX4);
    const int64_t p = golden::kRopePositions4[n];
    probe::expect_row(probe::turned(interleaved, x, p), golden::kRopeInterleaved4[n],
                      golden::kSixDigits);
    probe::expect_row(probe::turned(split, x, p), golden::kRopeHalfSplit4[n], golden::kSixDigits);
  }
  probe::expect_row(probe::turned(split, list(golden::kRopeX4Permuted), 1),
                    golden::kRopeHalfSplitPermuted, golden::kSixDigits);
}

TEST(Rope, ScoresAsPublished) {
  const auto score = [](const Rotation& rotation, int64_t i, int64_t j) {
    return probe::dot(probe::turned(rotation, list(golden::kRopeDotQ), i, +1),
                      probe::turned(rotation, list(golden::kRopeDotK), j, -1));
  };
  const auto interleaved = rotation_of(kInterleaved, 4), split = rotation_of(kSplit, 4);
  const double half = golden::kSixDigits;
  EXPECT_NEAR(score(interleaved, 3, 1), golden::kRopeDotInterleaved3And1, half);
  EXPECT_NEAR(score(interleaved, 7, 5), golden::kRopeDotInterleaved3And1, half);
  EXPECT_NEAR(score(interleaved, 1, 3), golden::kRopeDotInterleaved1And3, half);
  EXPECT_NEAR(score(split, 3, 1), golden::kRopeDotHalfSplit3And1, half);
  EXPECT_NEAR(score(split, 1, 3), golden::kRopeDotHalfSplit1And3, half);
  EXPECT_NEAR(score(split, 0, 0), golden::kRopeDotUnturned, half);
}

TEST(Rope, TheDistanceAloneMatters) {
  Random random(5);
  for (const std::string& text : {kInterleaved, kSplit, std::string("rope(share=0.5)"),
                                  std::string("rope(share=0.5,partial=proportional)")}) {
    const auto rotation = rotation_of(text, 16);
    std::vector<double> q(16), k(16);
    for (double& x : q) x = random.normal();
    for (double& x : k) x = random.normal();
    const auto score = [&](int64_t i, int64_t j) {
      return probe::dot(probe::turned(rotation, q, i), probe::turned(rotation, k, j));
    };
    for (int64_t distance : {-100, -1, 0, 7}) {
      for (int64_t shift : {1, 13, 100000}) {
        // Angles up to 1e5 are rounded to 1.5e-11.
        EXPECT_NEAR(score(200 + shift, 200 + shift + distance), score(200, 200 + distance), 1e-9);
      }
    }
  }
}

TEST(Rope, TheRoformerTestOfTransformers) {
  const auto rotation = rotation_of(kInterleaved, 64);
  for (int n = 0; n < 3; ++n) {
    const int p = golden::kRoformerPositions[n];
    std::vector<double> x;
    for (int c = 0; c < 64; ++c) x.push_back((64 * p + c) / 100.0);
    probe::expect_row(probe::turned(rotation, x, p), golden::kRoformerTurned[n], 0.5e-4);
  }
}

TEST(Rope, TheToyProblem) {
  oracle::Attention a;
  a.q = oracle::matrix(golden::kToyQ);
  a.k = oracle::matrix(golden::kToyK);
  a.v = oracle::matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  a.causal = true;
  const auto result =
      probe::attend(lower(*make_scheme(kInterleaved), probe::square_call(3, true), {}), a);
  probe::expect_matrix(result.weights, golden::kRopeToyWeights, golden::kSixDigits);
  probe::expect_matrix(result.out, golden::kRopeToyOut, golden::kSixDigits);
}

TEST(Rope, EqualsTheFormula) {
  Random random(6);
  for (int width : {2, 4, 6, 32}) {
    const int head_size = width + 2;
    oracle::Matrix x(3, head_size);
    for (double& value : x.values) value = random.normal();
    const oracle::Positions positions{0, 5, 12345};
    const auto theta = oracle::rope_frequencies(width, 500);
    for (const bool interleaved : {true, false}) {
      const auto rotation =
          rotation_of(std::string("rope(base=500,width=") + std::to_string(width) +
                          ",layout=" + (interleaved ? "interleaved" : "half-split") + ")",
                      head_size);
      const auto expected = oracle::rope(
          x, positions, theta,
          interleaved ? oracle::RopeLayout::kInterleaved : oracle::RopeLayout::kHalfSplit);
      const auto got = probe::turned(rotation, x, positions, +1);
      for (size_t n = 0; n < got.values.size(); ++n) {
        EXPECT_NEAR(got.values[n], expected.values[n], 1e-10);
      }
    }
  }
}

// 3. 4. Nothing for scores and values, whatever the layer.
TEST(Rope, AddsNothingToScoresAndValues) {
  const auto terms = lower(Rope(), probe::square_call(4, true), {});
  EXPECT_FALSE(terms.number || terms.query_rows || terms.key_rows || terms.value_rows ||
               terms.content_bias);
  EXPECT_EQ(terms.scale_factor, 1);
}

// 5. Nothing is learned.
TEST(Rope, HasNoEnd) { EXPECT_EQ(Rope().table_length(), -1); }

TEST(Rope, RefusesWhatItCannotTurn) {
  const auto refused = [](const std::string& text, int64_t head_size) {
    return message_of([&] { rotation_of(text, head_size); });
  };
  EXPECT_SAYS(refused("rope", 7), "[rope] rotary width must be even and 2 or more, got 7");
  EXPECT_SAYS(refused("rope(share=0.25)", 12), "got 3 (head size 12)");
  EXPECT_SAYS(refused("rope(share=0)", 12), "got 0 (head size 12)");
  EXPECT_SAYS(refused("rope(width=16)", 8), "must be at most the head size, got 16 of 8");
  EXPECT_SAYS(refused("rope(width=4,share=0.5)", 8), "give width or share, not both");
  EXPECT_SAYS(refused("rope(rotate_layers=1/0.5)", 8), "rotate_layers must hold 0 and 1 only");
}

TEST(Rope, VariantsAtTestTime) {
  const auto scheme = make_scheme("rope(base=500)");
  const auto variants = scheme->test_time_variants(4, 64);
  ASSERT_EQ(variants.size(), 3u);
  EXPECT_EQ(variants[0].label, "pi");
  EXPECT_EQ(variants[0].specification, "rope(base=500,scaling=linear,factor=4)");
  EXPECT_EQ(variants[1].label, "ntk");
  EXPECT_EQ(variants[1].specification, "rope(base=500,scaling=ntk,factor=4)");
  EXPECT_EQ(variants[2].label, "yarn");
  EXPECT_EQ(variants[2].specification, "rope(base=500,scaling=yarn,factor=4,original=64)");
  for (const Variant& variant : variants) make_scheme(variant.specification);
  EXPECT_TRUE(scheme->test_time_variants(1, 64).empty());
  EXPECT_TRUE(make_scheme("rope(scaling=linear,factor=2)")->test_time_variants(4, 64).empty());
}

// Converting weights between the layouts: rows of q and k move, head by head, and scores stay.
TEST(Rope, D10_ConvertedWeightsGiveTheSameScores) {
  const auto to_split = rotary_row_order(4, 4, Layout::kInterleaved, Layout::kHalfSplit);
  EXPECT_EQ(to_split, (std::vector<int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(rotary_row_order(8, 8, Layout::kInterleaved, Layout::kHalfSplit),
            (std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(rotary_row_order(8, 8, Layout::kHalfSplit, Layout::kInterleaved),
            (std::vector<int64_t>{0, 4, 1, 5, 2, 6, 3, 7}));

  // Four query heads on two key heads, partial rotation, an input of three channels.
  const int64_t head_size = 10, width = 8, inputs = 3;
  Random random(7);
  const auto drawn = [&](int64_t n) {
    std::vector<double> values(static_cast<size_t>(n));
    for (double& value : values) value = random.normal();
    return values;
  };
  const std::vector<double> x = drawn(inputs);
  std::vector<double> wq = drawn(4 * head_size * inputs), wk = drawn(2 * head_size * inputs);
  const std::vector<double> wq_before = wq;
  const auto project = [&](const std::vector<double>& w, int64_t head) {
    std::vector<double> y(static_cast<size_t>(head_size), 0.0);
    for (int64_t r = 0; r < head_size; ++r) {
      for (int64_t c = 0; c < inputs; ++c) {
        y[static_cast<size_t>(r)] +=
            w[static_cast<size_t>((head * head_size + r) * inputs + c)] * x[static_cast<size_t>(c)];
      }
    }
    return y;
  };
  const auto scores = [&](const std::string& layout) {
    const auto rotation = rotation_of("rope(width=8,layout=" + layout + ")", head_size);
    std::vector<double> all;
    for (int64_t h = 0; h < 4; ++h) {
      all.push_back(probe::dot(probe::turned(rotation, project(wq, h), 9),
                               probe::turned(rotation, project(wk, h / 2), 4)));
    }
    return all;
  };
  const auto before = scores("interleaved");
  convert_rotary_rows(wq.data(), 4, head_size, inputs, width, Layout::kInterleaved,
                      Layout::kHalfSplit);
  convert_rotary_rows(wk.data(), 2, head_size, inputs, width, Layout::kInterleaved,
                      Layout::kHalfSplit);
  const auto after = scores("half-split"), unconverted = scores("interleaved");
  for (size_t h = 0; h < 4; ++h) {
    EXPECT_NEAR(after[h], before[h], 1e-12 * (1 + std::fabs(before[h])));
    EXPECT_GT(std::fabs(unconverted[h] - before[h]), 1e-3) << "the layout must matter";
  }
  convert_rotary_rows(wq.data(), 4, head_size, inputs, width, Layout::kHalfSplit,
                      Layout::kInterleaved);
  EXPECT_EQ(wq, wq_before);
  EXPECT_SAYS(message_of([] { rotary_row_order(8, 5, Layout::kInterleaved, Layout::kHalfSplit); }),
              "width must be even");
}

// Angles in double: against long double at every pair, far beyond any half-precision table.
double worst_cosine_error(int64_t width, int64_t first, int64_t last, int64_t step) {
  const auto rotation = rotation_of("rope", width);
  double worst = 0;
  for (int64_t p = first; p <= last; p += step) {
    for (int64_t t = 0; t < width / 2; ++t) {
      const long double theta =
          std::pow(10000.0L, -2.0L * static_cast<long double>(t) / static_cast<long double>(width));
      const double exact = static_cast<double>(std::cos(static_cast<long double>(p) * theta));
      std::vector<double> x(static_cast<size_t>(width), 0.0);
      x[static_cast<size_t>(t)] = 1;
      worst =
          std::max(worst, std::fabs(probe::turned(rotation, x, p)[static_cast<size_t>(t)] - exact));
    }
  }
  return worst;
}

TEST(Rope, D12_AnglesAreDouble) {
  const auto rotation = rotation_of("rope", 32);
  EXPECT_NEAR(static_cast<double>(golden::kRopeAnglePosition) * rotation.frequency[1],
              golden::kRopeAnglePair1, 0.5e-4);
  // 2048 * 2 ulp of a frequency below 1.
  EXPECT_LT(worst_cosine_error(32, 0, 2047, 1), 2048 * 2.3e-16);
}

TEST(Rope, D13_NothingRoundsTheProductOfPositionAndFrequency) {
  EXPECT_LT(worst_cosine_error(128, 4090, 4099, 1), 4100 * 2.3e-16);
  EXPECT_LT(worst_cosine_error(128, 1000000, 1000009, 1), 1000010 * 2.3e-16);
}

// Positions are whole numbers everywhere: neighbours beyond 256 (bf16) and 2048 (fp16) differ.
TEST(Rope, D14_NeighbouringPositionsDiffer) {
  const auto rotation = rotation_of("rope", 128);
  const std::vector<double> x(128, 1.0);
  for (int64_t p : {256, 257, 2048, 2049, 16777216, 16777217}) {
    const auto here = probe::turned(rotation, x, p), next = probe::turned(rotation, x, p + 1);
    EXPECT_GT(std::fabs(here[0] - next[0]) + std::fabs(here[64] - next[64]), 0.9) << p;
  }
}

// Frequencies are made from the options in each call; there is no buffer to load or to lose.
TEST(Rope, D15_FrequenciesAreNeverState) {
  Sizes sizes;
  sizes.layers = 4;
  for (const char* text : {"rope", "rope(scaling=yarn,factor=4,original=64)"}) {
    EXPECT_TRUE(make_scheme(text)->learn(sizes).empty()) << text;
  }
  Rope scheme;
  for (double base : {10000.0, 500.0, 10000.0}) {
    scheme.base = base;
    const auto rotation = *scheme.turn(probe::square_call(8, true, 1, 16));
    EXPECT_EQ(rotation.frequency[0], 1);
    for (size_t t = 0; t < 8; ++t) {
      EXPECT_DOUBLE_EQ(rotation.frequency[t], std::pow(base, -static_cast<double>(t) / 8));
    }
  }
}

// Frequencies come from the rotary width, and there are as many as turning pairs.
TEST(Rope, D26_PartialFrequenciesComeFromTheRotaryWidth) {
  EXPECT_EQ(rotation_of("rope(share=0.5)", 8).frequency.size(), 2u);
  EXPECT_EQ(rotation_of("rope(share=0.25)", 8).frequency.size(), 1u);
  for (int64_t head_size : {8, 64, 80, 128}) {
    for (double share : {.25, .4, .5, .75, 1.0}) {
      const int64_t r = static_cast<int64_t>(static_cast<double>(head_size) * share);
      if (r % 2 != 0) continue;
      const auto rotation = rotation_of("rope(share=" + std::to_string(share) + ")", head_size);
      EXPECT_EQ(rotation.width, r);
      ASSERT_EQ(static_cast<int64_t>(rotation.frequency.size()), r / 2);
      const auto expected = oracle::rope_frequencies(static_cast<int>(r), 10000);
      for (size_t t = 0; t < expected.size(); ++t) {
        EXPECT_DOUBLE_EQ(rotation.frequency[t], expected[t]);
      }
    }
  }
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8};
  probe::expect_row(probe::turned(rotation_of("rope(width=4)", 8), x, 1), golden::kRopePartialNeoX,
                    golden::kSixDigits);
  probe::expect_row(probe::turned(rotation_of("rope(width=4,layout=interleaved)", 8), x, 1),
                    golden::kRopePartialGptJ, golden::kSixDigits);
}

// Two ways of turning a part of the head; models differ, so it is an option.
TEST(Rope, D27_PartialLayouts) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8};
  const auto leading = rotation_of("rope(share=0.5)", 8);
  const auto proportional = rotation_of("rope(share=0.5,partial=proportional)", 8);
  const auto by_hand = [&](size_t a, size_t b, double theta, std::vector<double>& y) {
    y[a] = x[a] * std::cos(theta) - x[b] * std::sin(theta);
    y[b] = x[a] * std::sin(theta) + x[b] * std::cos(theta);
  };
  std::vector<double> expected = x;
  by_hand(0, 2, 1, expected);
  by_hand(1, 3, .01, expected);  // 10000^(-2/4)
  const auto got_leading = probe::turned(leading, x, 1);
  for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(got_leading[c], expected[c], 1e-14) << c;
  expected = x;
  by_hand(0, 4, 1, expected);
  by_hand(1, 5, .1, expected);  // 10000^(-2/8); pairs 2 and 3 stand still
  const auto got_proportional = probe::turned(proportional, x, 1);
  for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(got_proportional[c], expected[c], 1e-14) << c;
  EXPECT_EQ(proportional.frequency, (std::vector<double>{1, .1, 0, 0}));
  EXPECT_NE(got_leading, got_proportional);
  // Whole heads are the same either way, and an odd part is rounded down to pairs.
  EXPECT_EQ(rotation_of("rope(partial=proportional)", 8).frequency,
            rotation_of("rope", 8).frequency);
  EXPECT_EQ(rotation_of("rope(partial=proportional,share=0.4)", 8).frequency,
            (std::vector<double>{1, 0, 0, 0}));
  EXPECT_EQ(
      rotation_of("rope(partial=proportional,share=0.5,scaling=linear,factor=8)", 8).frequency[0],
      .125);
}

// In per-layer lists 1 means "turns".
TEST(Rope, D30_OneMeansRotate) {
  const auto scheme = make_scheme("rope(rotate_layers=1/1/1/0)");
  EXPECT_FALSE(scheme->same_in_every_layer());
  EXPECT_TRUE(make_scheme("rope")->same_in_every_layer());
  std::vector<int> without;
  for (int layer = 0; layer < 36; ++layer) {
    Call call = probe::square_call(4, true, 1, 8);
    call.layer = layer;
    const bool turns = scheme->turn(call).has_value();
    if (!turns) without.push_back(layer);
    if (layer < 8) {
      EXPECT_EQ(turns, golden::kSmolLm3RopeLayers[layer] == 1) << layer;
    }
  }
  EXPECT_EQ(without, (std::vector<int>{3, 7, 11, 15, 19, 23, 27, 31, 35}));
  Call call = probe::square_call(4, true, 1, 8);
  EXPECT_TRUE(make_scheme("rope(rotate_layers=1)")->turn(call));
  EXPECT_FALSE(make_scheme("rope(rotate_layers=0)")->turn(call));
}

// Gemma-3: global layers have the scaling, sliding layers a base of their own and none.
TEST(Rope, D31_ScalingByLayerType) {
  const std::string text =
      "rope(base=1000000,scaling=linear,factor=8,local_base=10000,local_layers=1/1/1/1/1/0)";
  EXPECT_FALSE(make_scheme(text)->same_in_every_layer());
  for (int layer = 0; layer < 12; ++layer) {
    const auto rotation = rotation_of(text, 8, 64, layer);
    const bool sliding = (layer + 1) % 6 != 0;
    EXPECT_EQ(rotation.frequency[0], sliding ? 1 : .125) << layer;
    EXPECT_DOUBLE_EQ(rotation.frequency[2], sliding ? .01 : .001 / 8) << layer;
  }
  // YaRN's magnitude and DeepSeek's factor belong to the scaling too.
  const std::string yarn =
      "rope(scaling=yarn,factor=4,original=64,mscale=1,mscale_all_dim=0.5,"
      "scale_softmax=yes,local_layers=1/0)";
  for (int layer : {0, 1}) {
    Call call = probe::square_call(64, true, 1, 8);
    call.layer = layer;
    const auto terms = lower(*make_scheme(yarn), call, {});
    EXPECT_EQ(terms.rotation->magnitude == 1, layer == 0);
    EXPECT_EQ(terms.scale_factor == 1, layer == 0);
  }
}

}  // namespace
}  // namespace locant
