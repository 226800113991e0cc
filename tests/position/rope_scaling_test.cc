// Frequencies and magnitudes of the RoPE scalings, then the public bugs.
#include "locant/position/rope_scaling.h"

#include "locant/position/rope.h"
#include "tests/golden/rope_scaling.h"
#include "tests/oracle/rope_scaling.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using golden::Frequency;
using golden::kFiveSignificant;
using golden::kSixSignificant;
using probe::message_of;

Rotation rotation_of(const std::string& options, int64_t width, int64_t length = 1) {
  const auto scheme = make_scheme("rope(" + options + ")");
  return lower(*scheme, probe::square_call(length, true, 1, width), {}).rotation.value();
}
std::vector<double> theta_of(const std::string& options, int64_t width, int64_t length = 1) {
  return rotation_of(options, width, length).frequency;
}
double magnitude_of(const std::string& options, int64_t width = 64) {
  return rotation_of(options, width).magnitude;
}

void expect_relative(double got, double expected, double tolerance, size_t pair) {
  EXPECT_NEAR(got / expected, 1, tolerance) << "pair " << pair;
}
template <size_t N>
void expect_theta(const std::vector<double>& theta, const double (&expected)[N],
                  double tolerance = kSixSignificant) {
  ASSERT_EQ(theta.size(), N);
  for (size_t t = 0; t < N; ++t) expect_relative(theta[t], expected[t], tolerance, t);
}
template <size_t N>
void expect_theta(const std::vector<double>& theta, const Frequency (&expected)[N],
                  double tolerance = kSixSignificant) {
  for (const Frequency& f : expected) {
    const size_t pair = static_cast<size_t>(f.pair);
    expect_relative(theta.at(pair), f.theta, tolerance, pair);
  }
}
void expect_equal(const std::vector<double>& theta, const std::vector<double>& expected) {
  ASSERT_EQ(theta.size(), expected.size());
  // pow, a product and a sum: a few units in the last place.
  for (size_t t = 0; t < theta.size(); ++t) expect_relative(theta[t], expected[t], 2e-15, t);
}

TEST(RopeScaling, None) {
  expect_theta(theta_of("base=10000", 8), golden::kRopeDefault8);
  expect_theta(theta_of("base=500000", 128), golden::kRopeDefault128Base500k);
  expect_theta(theta_of("base=10000", 128), golden::kPublicDefault128, kFiveSignificant);
}

TEST(RopeScaling, Linear) {
  expect_theta(theta_of("scaling=linear,factor=4", 8), golden::kRopeLinear8Factor4);
  expect_equal(theta_of("scaling=linear,factor=3,base=700", 32), oracle::rope_linear(32, 700, 3));
  EXPECT_EQ(magnitude_of("scaling=linear,factor=4"), 1);
}

TEST(RopeScaling, Ntk) {
  const auto theta = theta_of("scaling=ntk,factor=4", 8);
  expect_theta(theta, golden::kRopeNtk8Factor4);
  EXPECT_NEAR(theta.back(), .001 / 4, 1e-18) << "the slowest pair is divided by the factor";
  EXPECT_NEAR(oracle::ntk_base(8, 10000, 4), golden::kRopeNtkBase8Factor4, 0.5e-4);
  expect_equal(theta_of("scaling=ntk,factor=8", 128),
               oracle::rope_frequencies(128, oracle::ntk_base(128, 10000, 8)));
  EXPECT_NEAR(std::pow(theta_of("scaling=ntk,factor=8", 128)[1], -64.0),
              golden::kRopeNtkBase128Factor8, 1e-4);
  EXPECT_SAYS(message_of([] { theta_of("scaling=ntk,factor=2", 2); }), "4 or more, got 2");
}

TEST(RopeScaling, Dynamic) {
  const std::string options = "scaling=dynamic,factor=2,original=2048";
  for (const golden::DynamicNtk& row : golden::kRopeDynamic128) {
    const auto theta = theta_of(options, 128, row.length);
    EXPECT_NEAR(std::pow(theta[1], -64.0), row.base, 0.5e-4);  // printed with 4 decimals
    if (row.theta63 > 0) expect_relative(theta[63], row.theta63, kSixSignificant, 63);
  }
  expect_theta(theta_of("scaling=dynamic,factor=2,original=8", 8, 16), golden::kRopeDynamic8);
  expect_theta(theta_of("scaling=dynamic,factor=10,original=2048", 128, 16384),
               golden::kPublicDynamic128, kFiveSignificant);
}

TEST(RopeScaling, Yarn) {
  for (const golden::YarnScale& row : golden::kYarnScale) {
    const std::string options =
        "scaling=yarn,original=2048,factor=" + std::to_string(static_cast<int>(row.factor));
    EXPECT_NEAR(magnitude_of(options), row.scale, 0.6e-7);
  }
  RopeScaling scaling;
  scaling.kind = RopeScaling::Kind::kYarn;
  scaling.factor = 16;
  scaling.original = 4096;
  EXPECT_EQ(yarn_range(64, 10000, scaling).low, golden::kYarn64Low);
  EXPECT_EQ(yarn_range(64, 10000, scaling).high, golden::kYarn64High);
  scaling.truncate = false;
  EXPECT_NEAR(yarn_range(64, 10000, scaling).low, golden::kYarn64RawLow, 0.5e-4);
  EXPECT_NEAR(yarn_range(64, 10000, scaling).high, golden::kYarn64RawHigh, 0.5e-4);

  const std::string r64 = "scaling=yarn,factor=16,original=4096";
  expect_theta(theta_of(r64, 64), golden::kYarn64);
  expect_theta(theta_of(r64 + ",truncate=no", 64), golden::kYarn64Untruncated);
  expect_theta(theta_of("scaling=yarn,factor=4,original=64", 8), golden::kYarn8);
  expect_theta(theta_of("scaling=yarn,factor=10,original=2048", 128), golden::kPublicYarn128,
               kFiveSignificant);
}

TEST(RopeScaling, YarnEqualsTheFormula) {
  for (const bool truncate : {true, false}) {
    for (int original : {4, 64, 4096, 100000}) {  // 4: both ends of the ramp fall together
      for (int width : {2, 8, 64}) {
        oracle::Yarn yarn{.factor = 3,
                          .original = static_cast<double>(original),
                          .beta_fast = 20,
                          .beta_slow = 2,
                          .truncate = truncate};
        expect_equal(
            theta_of("base=700,scaling=yarn,factor=3,beta_fast=20,beta_slow=2,original=" +
                         std::to_string(original) + ",truncate=" + (truncate ? "yes" : "no"),
                     width),
            oracle::rope_yarn(width, 700, yarn));
      }
    }
  }
}

TEST(RopeScaling, Llama3) {
  const std::string llama31 =
      "base=500000,scaling=llama3,factor=8,low_freq_factor=1,high_freq_factor=4,original=8192";
  const auto theta = theta_of(llama31, 128);
  EXPECT_NEAR(theta[28] / golden::kLlama3Theta28, 1, 1e-6);
  EXPECT_NEAR(theta[63] / golden::kLlama3Theta63, 1, 1e-6);
  expect_equal(theta, oracle::rope_llama3(128, 500000, 8, 1, 4, 8192));
  expect_theta(theta_of("scaling=llama3,factor=10,original=2048", 128), golden::kPublicLlama3128,
               kFiveSignificant);
  EXPECT_EQ(magnitude_of(llama31), 1);
}

TEST(RopeScaling, LongRope) {
  const std::string lists =
      "scaling=longrope,original=8,factor=4,short_factor=1/1.5/2/3,"
      "long_factor=1/4/16/32";
  expect_theta(theta_of(lists, 8, 8), golden::kLongRopeThetaShort8);
  expect_theta(theta_of(lists, 8, 9), golden::kLongRopeThetaLong8);
  for (const golden::LongRopeScale& row : golden::kLongRopeScale) {
    const std::string options = "scaling=longrope,short_factor=1,long_factor=2,original=" +
                                std::to_string(static_cast<int>(row.original)) + ",max_position=" +
                                std::to_string(static_cast<int>(row.max_position));
    EXPECT_NEAR(magnitude_of(options, 2), row.scale, 0.5e-6);
  }
  EXPECT_EQ(magnitude_of("scaling=longrope,short_factor=1,long_factor=2,original=8,factor=0.5", 2),
            1);
  EXPECT_EQ(magnitude_of("scaling=longrope,short_factor=1,long_factor=2,original=8,factor=4,"
                         "attention_factor=1.25",
                         2),
            1.25);
}

TEST(RopeScaling, Llama4QueryFactor) {
  for (const Frequency& row : golden::kLlama4QueryFactor) {
    EXPECT_NEAR(llama4_query_factor(row.pair), row.theta, 0.5e-6) << row.pair;
  }
}

TEST(RopeScaling, RefusesWhatContradictsItself) {
  const auto refused = [](const std::string& options, int64_t width = 8) {
    return message_of([&] { theta_of(options, width); });
  };
  EXPECT_SAYS(refused("factor=4"), "factor=4 does nothing without scaling=");
  EXPECT_SAYS(refused("scaling=linear"), "scaling=linear needs factor, or max_position");
  for (const char* kind : {"dynamic", "yarn", "llama3", "longrope"}) {
    EXPECT_SAYS(refused(std::string("factor=2,scaling=") + kind),
                std::string("scaling=") + kind + " needs original");
  }
  EXPECT_SAYS(refused("scaling=yarn,factor=2,original=8,beta_fast=1"),
              "beta_fast must be more than beta_slow, got 1 and 1");
  EXPECT_SAYS(refused("scaling=llama3,factor=2,original=8,low_freq_factor=4"),
              "low_freq_factor must be less than high_freq_factor, got 4 and 4");
  EXPECT_SAYS(refused("scaling=linear,factor=2,attention_factor=2"),
              "attention_factor is for scaling=yarn and longrope");
  EXPECT_SAYS(refused("scaling=yarn,factor=2,original=8,scale_softmax=yes"),
              "scale_softmax needs scaling=yarn and mscale_all_dim");
  EXPECT_SAYS(refused("scaling=longrope,factor=2,original=8,short_factor=1/2"),
              "of the same length, got 2 and 0");
  EXPECT_SAYS(refused("scaling=longrope,factor=2,original=8,short_factor=1/2,long_factor=1/2"),
              "one number for each of 4 pairs, got 2");
  EXPECT_SAYS(refused("scaling=yarn,factor=2,original=8,partial=proportional"),
              "partial=proportional goes with scaling=none and linear only");
}

// Scores of the last of `length` tokens against all, with keys cached unturned: what this library
// keeps. `steps`: turned one token at a time, each with the length known then.
std::vector<double> last_row(const std::string& options, int64_t length, bool steps) {
  const auto scheme = make_scheme("rope(" + options + ")");
  Random random(3);
  std::vector<std::vector<double>> q, k;
  std::vector<double> row;
  for (int64_t n = 0; n < length; ++n) {
    q.emplace_back(8);
    k.emplace_back(8);
    for (double& x : q.back()) x = random.normal();
    for (double& x : k.back()) x = random.normal();
    if (!steps && n + 1 < length) continue;
    const auto rotation = scheme->turn(probe::square_call(n + 1, true, 1, 8)).value();
    row.clear();
    for (int64_t j = 0; j <= n; ++j) {
      row.push_back(probe::dot(probe::turned(rotation, q.back(), n),
                               probe::turned(rotation, k[static_cast<size_t>(j)], j)));
    }
  }
  return row;
}

TEST(RopeScaling, D16_DynamicWithACacheEqualsTheWholeForward) {
  for (int64_t length : {7, 8, 9, 16}) {
    const std::string options = "scaling=dynamic,factor=2,original=8";
    EXPECT_EQ(last_row(options, length, true), last_row(options, length, false)) << length;
  }
}

TEST(RopeScaling, D17_DynamicLeavesPositionsAlone) {
  for (double factor : {2.0, 4.0}) {
    const std::string options =
        "scaling=dynamic,original=64,factor=" + std::to_string(static_cast<int>(factor));
    for (int64_t length : {1, 63, 64}) {
      EXPECT_EQ(theta_of(options, 16, length), theta_of("base=10000", 16, length)) << length;
    }
    for (int64_t length : {65, 128, 1000}) {
      const auto theta = theta_of(options, 16, length);
      EXPECT_EQ(theta[0], 1) << "only the base grows";
      expect_equal(theta, oracle::rope_frequencies(
                              16, oracle::dynamic_ntk_base(16, 10000, factor, 64,
                                                           static_cast<double>(length))));
    }
  }
  // n = 2 O, f = 2: base 3^(r/(r-2)).
  expect_equal(theta_of("scaling=dynamic,factor=2,original=64", 16, 128),
               oracle::rope_frequencies(16, 10000 * std::pow(3.0, 16.0 / 14)));
}

TEST(RopeScaling, D18_TheGivenFactorWins) {
  const std::string lengths = "original=32768,max_position=40960";
  EXPECT_NEAR(magnitude_of("scaling=yarn,factor=4," + lengths), 1.1386294, 0.5e-7);
  EXPECT_NEAR(magnitude_of("scaling=yarn," + lengths), yarn_mscale(1.25), 1e-15);
  for (const char* kind : {"linear", "ntk", "dynamic", "yarn", "llama3"}) {
    const std::string scaling = std::string("scaling=") + kind + "," + lengths;
    EXPECT_EQ(theta_of(scaling + ",factor=4", 64, 100000),
              theta_of(std::string("original=32768,factor=4,scaling=") + kind, 64, 100000));
    EXPECT_EQ(theta_of(scaling, 64, 100000),
              theta_of(std::string("original=32768,factor=1.25,scaling=") + kind, 64, 100000));
  }
}

TEST(RopeScaling, D19_AttentionFactorIsFinal) {
  EXPECT_EQ(magnitude_of("scaling=yarn,factor=128,original=64,attention_factor=1.485203"),
            1.485203);
}

TEST(RopeScaling, D20_AttentionFactorIsNotSentThroughTheFormula) {
  for (double factor : {16.0, 32.0, 64.0, 128.0}) {
    const double own = yarn_mscale(factor);
    const std::string options = "scaling=yarn,original=64,mscale=1,mscale_all_dim=0.5,factor=" +
                                std::to_string(static_cast<int>(factor));
    RopeScaling scaling;
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.factor = factor;
    scaling.original = 64;
    scaling.attention_factor = own;
    EXPECT_EQ(scaling.magnitude(), own);
    EXPECT_EQ(magnitude_of(options + ",attention_factor=1.25"), 1.25) << "it wins over mscale";
  }
}

TEST(RopeScaling, D21_MscalePair) {
  const std::string f16 = "scaling=yarn,factor=16,original=64";
  EXPECT_EQ(magnitude_of(f16 + ",mscale=1,mscale_all_dim=1"), 1);
  EXPECT_NEAR(magnitude_of(f16 + ",mscale=0.707,mscale_all_dim=1"),
              (.1 * .707 * std::log(16) + 1) / (.1 * std::log(16) + 1), 1e-15);
  EXPECT_NEAR(magnitude_of(f16 + ",mscale=1"), 1.2772589, 0.5e-7) << "one alone is ignored";
  EXPECT_NEAR(magnitude_of(f16 + ",mscale_all_dim=1"), 1.2772589, 0.5e-7);
  // DeepSeek also multiplies the scale of the scores.
  const auto softmax = [](const std::string& mscale, const std::string& more) {
    const auto scheme = make_scheme("rope(scaling=yarn,factor=40,original=4096,mscale=" + mscale +
                                    ",mscale_all_dim=" + mscale + more + ")");
    return lower(*scheme, probe::square_call(8, true, 1, 64), {}).scale_factor;
  };
  EXPECT_NEAR(softmax("0.707", ",scale_softmax=yes"), golden::kYarnDeepSeekSoftmax707, 0.5e-6);
  EXPECT_NEAR(softmax("1", ",scale_softmax=yes"), golden::kYarnDeepSeekSoftmax1, 0.5e-6);
  EXPECT_EQ(softmax("1", ""), 1);
}

TEST(RopeScaling, D22_Llama3IsApplied) {
  const auto scaled = theta_of("base=500000,scaling=llama3,factor=8,original=8192", 128);
  const auto plain = theta_of("base=500000", 128);
  for (const Frequency& row : golden::kLlama3Ratio) {
    const size_t pair = static_cast<size_t>(row.pair);
    EXPECT_NEAR(scaled[pair] / plain[pair], row.theta, 0.5e-6) << pair;
  }
}

const std::string kLongRope8 =
    "scaling=longrope,original=8,factor=4,short_factor=1/1.5/2/3,long_factor=1/4/16/32";

TEST(RopeScaling, D23_LongRopeWithACacheEqualsTheWholeForward) {
  for (int64_t length : {7, 8, 9, 16}) {
    EXPECT_EQ(last_row(kLongRope8, length, true), last_row(kLongRope8, length, false)) << length;
  }
}

// The whole sequence decides, not what is cached: a first prompt of O + 1 tokens takes the long
// list.
TEST(RopeScaling, D24_LongRopeChoosesByTheWholeSequence) {
  const auto scheme = make_scheme("rope(" + kLongRope8 + ")");
  const auto slowest = [&](int64_t length, int64_t queries) {
    Call call = probe::square_call(length, true, 1, 8);
    call.first_distance = 1 - length;
    call.last_distance = length - queries;
    return scheme->turn(call)->frequency.back();
  };
  for (int64_t length : {1, 7, 8, 9, 10, 100}) {
    for (int64_t queries : {int64_t{1}, length}) {
      EXPECT_DOUBLE_EQ(slowest(length, queries), length > 8 ? .001 / 32 : .001 / 3) << length;
    }
  }
}

}  // namespace
}  // namespace locant
