// ALiBi: the five questions in order, then the public bugs.
#include "locant/position/alibi.h"

#include "tests/golden/alibi.h"
#include "tests/golden/toy.h"
#include "tests/oracle/alibi.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using probe::number_at;
using probe::Store;

Terms<double> terms_of(const std::string& text, const Call& call) {
  const auto scheme = make_scheme(text);
  return lower(*scheme, call, Store(*scheme, call.sizes).views());
}

// Eight significant digits are printed; powers of two are exact.
template <size_t N>
void expect_slopes(const std::vector<double>& slopes, const double (&expected)[N]) {
  ASSERT_EQ(slopes.size(), N);
  for (size_t h = 0; h < N; ++h) {
    int exponent = 0;
    if (std::frexp(expected[h], &exponent) == .5) {
      EXPECT_EQ(slopes[h], expected[h]) << "head " << h;
    } else {
      EXPECT_NEAR(slopes[h] / expected[h], 1, 6e-8) << "head " << h;
    }
  }
}

// 1. 2. Nothing for embeddings, queries and keys.
TEST(Alibi, TurnsNothing) {
  EXPECT_FALSE(Alibi().embeds());
  EXPECT_FALSE(terms_of("alibi", probe::square_call(4, true)).rotation);
}

// 3. What do I add to a score, and before or after the scale?
TEST(Alibi, PublishedSlopes) {
  expect_slopes(alibi_slopes(1), golden::kAlibiSlopes1);
  expect_slopes(alibi_slopes(2), golden::kAlibiSlopes2);
  expect_slopes(alibi_slopes(3), golden::kAlibiSlopes3);
  expect_slopes(alibi_slopes(4), golden::kAlibiSlopes4);
  expect_slopes(alibi_slopes(5), golden::kAlibiSlopes5);
  expect_slopes(alibi_slopes(10), golden::kAlibiSlopes10);
  expect_slopes(alibi_slopes(16), golden::kAlibiSlopes16);
  expect_slopes(alibi_slopes(8, 16), golden::kAlibiSlopes8Max16);
  expect_slopes(alibi_slopes(6, 16), golden::kAlibiSlopes6Max16);
  for (const golden::AlibiSlope& picked : golden::kAlibiSlopesPicked) {
    const auto slopes = alibi_slopes(picked.heads);
    EXPECT_EQ(static_cast<int>(slopes.size()), picked.heads);
    EXPECT_NEAR(slopes[static_cast<size_t>(picked.head)] / picked.slope, 1, 6e-8)
        << picked.heads << " heads, head " << picked.head;
  }
  EXPECT_SAYS(message_of([] { alibi_slopes(0); }), "heads must be 1 or more, got 0");
}

TEST(Alibi, EqualsTheFormulaAtEveryDistance) {
  for (int64_t heads : {1, 3, 8, 12}) {
    for (double exponent : {8.0, 11.5}) {
      const auto slopes = oracle::alibi_slopes(static_cast<int>(heads), exponent);
      for (const auto form : {oracle::AlibiForm::kCausal, oracle::AlibiForm::kSymmetric,
                              oracle::AlibiForm::kDeepMind}) {
        const bool causal = form == oracle::AlibiForm::kCausal;
        const std::string text =
            "alibi(max_exponent=" + std::to_string(exponent) +
            ",form=" + (form == oracle::AlibiForm::kDeepMind ? "deepmind)" : "symmetric)");
        const auto terms = terms_of(text, probe::square_call(9, causal, heads));
        EXPECT_FALSE(terms.number->scaled);
        const oracle::Positions keys{0, 1, 2, 3, 4, 5, 6, 7, 8, 5000000};
        for (int64_t h = 0; h < heads; ++h) {
          const auto bias = oracle::alibi_bias(slopes[static_cast<size_t>(h)], form, {4}, keys);
          for (size_t j = 0; j < keys.size(); ++j) {
            const int64_t distance = keys[j] - 4;
            if (causal && distance > 0) continue;
            EXPECT_DOUBLE_EQ(number_at(terms, h, distance), bias(0, static_cast<int>(j)));
          }
        }
      }
    }
  }
}

// The head of slope .5 among eight.
oracle::AttentionResult toy(const std::string& text) {
  oracle::Attention a;
  a.q = oracle::matrix(golden::kToyQ);
  a.k = oracle::matrix(golden::kToyK);
  a.v = oracle::matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  a.causal = true;
  return probe::attend(terms_of(text, probe::square_call(3, true, 8)), a, 0);
}

TEST(Alibi, TheToyProblem) {
  probe::expect_matrix(toy("alibi").weights, golden::kAlibiToyWeights, golden::kSixDigits);
  probe::expect_matrix(toy("alibi").out, golden::kAlibiToyOut, golden::kSixDigits);
}

TEST(Alibi, FalconsBiasIsInsideTheScale) {
  EXPECT_TRUE(terms_of("alibi(scaled=yes)", probe::square_call(3, true)).number->scaled);
  probe::expect_matrix(toy("alibi(scaled=yes)").weights, golden::kAlibiToyWeightsScaled,
                       golden::kSixDigits);
}

TEST(Alibi, DeepMindsForm) {
  const auto terms = terms_of("alibi(form=deepmind)", probe::square_call(4, false, 8));
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 4; ++j) {
      EXPECT_EQ(number_at(terms, 0, j - i), golden::kAlibiDeepMind[i][j]) << i << ", " << j;
    }
  }
}

// 4. Nothing for values.
TEST(Alibi, AddsNothingElse) {
  const auto terms = terms_of("alibi", probe::square_call(4, true));
  EXPECT_FALSE(terms.query_rows || terms.key_rows || terms.value_rows || terms.content_bias);
  EXPECT_EQ(terms.scale_factor, 1);
}

// 5. Nothing is learned, or slopes that start as published.
TEST(Alibi, LearnedSlopes) {
  Sizes sizes;
  sizes.heads = 6;
  sizes.layers = 4;
  EXPECT_TRUE(Alibi().learn(sizes).empty());
  EXPECT_EQ(parameter_count(*make_scheme("alibi(slopes=learned)"), sizes), 6);
  EXPECT_EQ(parameter_count(*make_scheme("alibi(slopes=learned,layers=each)"), sizes), 24);
  EXPECT_FALSE(make_scheme("alibi(slopes=learned,layers=each)")->same_in_every_layer());
  const Call call = probe::square_call(5, true, 6);
  const auto fixed = terms_of("alibi", call), learned = terms_of("alibi(slopes=learned)", call);
  EXPECT_EQ(fixed.number->left, learned.number->left);
  for (const ParameterSpec& spec : make_scheme("alibi(slopes=learned)")->learn(sizes)) {
    EXPECT_EQ(spec.init, ParameterSpec::Init::kZeros) << "zeros are the published slopes";
  }
  EXPECT_SAYS(message_of([] { make_scheme("alibi(layers=each)"); }),
              "layers=each needs slopes=learned");
}

TEST(Alibi, GradientsOfLearnedSlopes) {
  for (const bool causal : {true, false}) {
    for (const char* text : {"alibi(slopes=learned)", "alibi(slopes=learned,form=deepmind)"}) {
      for (const bool sharded : {false, true}) {
        const auto scheme = make_scheme(text);
        Call call = probe::square_call(5, causal, 6);
        if (sharded) call.first_head = 2, call.heads = 3;
        Random random(8);
        Store store(*scheme, call.sizes, [&](const ParameterSpec&) { return random.normal(); });
        probe::expect_gradients(*scheme, call, store);
      }
    }
  }
}

// --- public bugs ---

// Head counts that are no power of two have a list of two parts.
TEST(Alibi, D01_AnyHeadCount) {
  expect_slopes(alibi_slopes(6), golden::kAlibiSlopes6);
  expect_slopes(alibi_slopes(12), golden::kAlibiSlopes12);
  EXPECT_GT(std::fabs(alibi_slopes(6)[0] - golden::kAlibiSlopes6Wrong[0]), .1);
  for (int64_t heads = 1; heads <= 130; ++heads) {
    const auto slopes = alibi_slopes(heads);
    const auto expected = oracle::alibi_slopes(static_cast<int>(heads));
    ASSERT_EQ(slopes.size(), expected.size());
    for (size_t h = 0; h < slopes.size(); ++h) {
      EXPECT_DOUBLE_EQ(slopes[h], expected[h]) << heads << " heads, head " << h;
      for (size_t other = 0; other < h; ++other) EXPECT_NE(slopes[h], slopes[other]);
    }
  }
}

TEST(Alibi, D02_TheFirstSlopeIsNotOne) {
  expect_slopes(alibi_slopes(8), golden::kAlibiSlopes8);
  for (int64_t heads = 1; heads <= 128; heads *= 2) {
    const auto slopes = alibi_slopes(heads);
    EXPECT_EQ(slopes.back(), .00390625) << heads;
    EXPECT_LT(slopes.front(), 1) << heads;
    for (size_t h = 1; h < slopes.size(); ++h) {
      EXPECT_NEAR(slopes[h] / slopes[h - 1], slopes[0], 1e-15) << "geometric, from its own ratio";
    }
  }
}

// A token's own key has bias exactly 0, whatever the length, in a decoding step as in a square
// call.
TEST(Alibi, D03_OwnPositionHasNoBias) {
  for (int64_t length : {1, 5, 1000, 1000000}) {
    Call call = probe::square_call(length, true, 8);
    const auto terms = terms_of("alibi", call);
    for (int64_t h = 0; h < 8; ++h) EXPECT_EQ(number_at(terms, h, 0), 0);
  }
  const auto terms = terms_of("alibi", probe::square_call(5, true, 8));
  for (int j = 0; j < 5; ++j) {
    EXPECT_EQ(number_at(terms, 0, j - 4), golden::kAlibiDecodeRow5[j]);
    if (j < 4) {
      EXPECT_EQ(number_at(terms, 0, j - 3), golden::kAlibiCausalRow3[j]);
    }
  }
}

// The bias is a function of positions, never of an earlier call.
TEST(Alibi, D04_NothingIsKeptBetweenCalls) {
  const Alibi scheme;
  Call step = probe::square_call(5, false, 8);
  step.first_distance = -1;  // four queries on five keys: queries stand one further
  lower(scheme, step, {});
  const auto after = lower(scheme, probe::square_call(4, false, 8), {});
  const auto fresh = lower(Alibi(), probe::square_call(4, false, 8), {});
  for (int64_t distance = -3; distance <= 3; ++distance) {
    EXPECT_EQ(number_at(after, 0, distance), number_at(fresh, 0, distance));
    EXPECT_EQ(number_at(after, 0, distance) == 0, distance == 0);
  }
}

// Chunks of a sequence, each with the positions of its own tokens, give the whole's scores.
TEST(Alibi, D06_ChunksWithTheirPositionsEqualTheWhole) {
  Random random(9);
  oracle::Attention whole;
  whole.q = whole.k = whole.v = oracle::Matrix(8, 2);
  for (auto* matrix : {&whole.q, &whole.k, &whole.v}) {
    for (double& x : matrix->values) x = random.normal();
  }
  whole.causal = true;
  const auto expected = probe::attend(terms_of("alibi", probe::square_call(8, true)), whole);
  for (int first : {0, 3, 4}) {
    oracle::Attention chunk = whole;
    chunk.q = oracle::Matrix(8 - first, 2);
    for (int r = 0; r < chunk.q.rows; ++r) {
      for (int c = 0; c < 2; ++c) chunk.q(r, c) = whole.q(first + r, c);
    }
    chunk.query_positions = oracle::consecutive(8 - first, first);
    Call call = probe::square_call(8, true);
    const auto got = probe::attend(terms_of("alibi", call), chunk);
    for (int r = 0; r < got.out.rows; ++r) {
      for (int c = 0; c < 2; ++c) EXPECT_EQ(got.out(r, c), expected.out(first + r, c));
    }
  }
}

// Each rank of a tensor-parallel model takes the slopes of its own heads.
TEST(Alibi, D05_ShardsTakeTheSlopesOfTheirHeads) {
  for (int64_t heads : {6, 8, 12}) {
    const auto whole = terms_of("alibi", probe::square_call(4, true, heads));
    for (int64_t ranks : {2, 3}) {
      if (heads % ranks != 0) continue;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        Call call = probe::square_call(4, true, heads);
        call.heads = heads / ranks;
        call.first_head = rank * call.heads;
        const auto part = terms_of("alibi", call);
        ASSERT_EQ(part.number->table.heads, call.heads);
        for (int64_t h = 0; h < call.heads; ++h) {
          EXPECT_EQ(number_at(part, h, -3), number_at(whole, call.first_head + h, -3));
        }
      }
    }
  }
  Call call = probe::square_call(4, true, 8);
  call.first_head = 4, call.heads = 4;
  EXPECT_EQ(number_at(terms_of("alibi", call), 0, -1), -.03125);
  call.first_head = 6;
  EXPECT_SAYS(message_of([&] { terms_of("alibi", call); }),
              "heads 6 to 9 must be among the model's 8");
}

// Slopes are made in double and rounded once, to the nearest float.
TEST(Alibi, D07_SlopesAreNeverHalfPrecision) {
  EXPECT_EQ(static_cast<float>(alibi_slopes(12)[8]), .70710678f);
  for (int64_t heads : {3, 6, 12, 40, 112}) {
    const auto terms = cast<float>(terms_of("alibi", probe::square_call(4, true, heads)));
    const auto expected = oracle::alibi_slopes(static_cast<int>(heads));
    for (size_t h = 0; h < expected.size(); ++h) {
      EXPECT_EQ(terms.number->left[h], -static_cast<float>(expected[h])) << heads << ", " << h;
    }
  }
  const double slope = alibi_slopes(12)[8];
  for (size_t n = 0; n < 4; ++n) {
    const double product = slope * golden::kAlibiBf16Positions[n];
    EXPECT_NEAR(product / golden::kAlibiFloat32Product[n], 1, 6e-8);
    EXPECT_GT(std::fabs(product - golden::kAlibiBf16Product[n]), .1) << "what bfloat16 makes of it";
  }
}

// Without a causal mask the future is penalised as the past is.
TEST(Alibi, D08_SymmetricAboveTheDiagonal) {
  const auto terms = terms_of("alibi", probe::square_call(4, false, 8));
  for (int j = 0; j < 4; ++j) EXPECT_EQ(number_at(terms, 0, j), golden::kAlibiSymmetricRow0[j]);
  for (int64_t h = 0; h < 8; ++h) {
    for (int64_t distance : {1, 2, 3, 100, 100000}) {
      EXPECT_EQ(number_at(terms, h, distance), number_at(terms, h, -distance));
      EXPECT_LT(number_at(terms, h, distance), 0);
    }
  }
}

}  // namespace
}  // namespace locant
