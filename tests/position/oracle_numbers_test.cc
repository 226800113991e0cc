// Schemes that add a number per distance (or none, or FIRE's per pair), written out for every pair of
// tokens, against the dense formulas of tests/oracle for random parameters, positions, masks, shards
// of heads and options.
#include <gtest/gtest.h>

#include "tests/oracle/alibi.h"
#include "tests/oracle/fire.h"
#include "tests/oracle/kerple.h"
#include "tests/oracle/sandwich.h"
#include "tests/oracle/scalar_table.h"
#include "tests/oracle/t5.h"
#include "tests/position/materialise.h"

namespace locant::dense {
namespace {

TEST(SchemeOracle, Nope) {
  Rng rng(1);
  for (int n = 0; n < kCases; ++n) {
    const Case c = random_case(rng);
    expect_same(*make_scheme("nope"), c, {}, c.a);
  }
}

// Column `head` of [rows][H] (each = true), or [rows][1].
std::vector<double> numbers_of(const std::vector<double>& array, bool each, const Case& c,
                               int64_t rows) {
  const int64_t columns = each ? c.call.sizes.heads : 1;
  EXPECT_EQ(static_cast<int64_t>(array.size()), rows * columns);
  std::vector<double> column;
  for (int64_t r = 0; r < rows; ++r) {
    column.push_back(array.at(static_cast<size_t>(r * columns + (each ? c.head : 0))));
  }
  return column;
}

TEST(SchemeOracle, ScalarTable) {
  Rng rng(4);
  for (int n = 0; n < 2 * kCases; ++n) {
    const Case c = random_case(rng);
    const int clip = rng.integer(0, 12);
    const bool minus = rng.chance(0.5), each = rng.chance(0.5);
    const auto scheme = make_scheme("scalar_table(clip=" + text(clip) +
                                    ",order=" + (minus ? "i-j" : "j-i") +
                                    ",heads=" + (each ? "each" : "shared") + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    ASSERT_EQ(arrays.size(), 1u);
    Attention want = c.a;
    want.unscaled = oracle::scalar_table_bias(
        numbers_of(arrays.begin()->second, each, c, 2 * clip + 1), clip,
        minus ? oracle::Order::kQueryMinusKey : oracle::Order::kKeyMinusQuery, c.queries(),
        c.keys());
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, T5) {
  Rng rng(5);
  for (int n = 0; n < 3 * kCases; ++n) {
    const Case c = random_case(rng);
    // The published ones, those where the rounding rules part, and any others.
    const auto [buckets, max_distance] = pick<std::pair<int, int>>(
        rng, {{32, 128}, {12, 10}, {10, 160}, {40, 640}, {48, 81}, {96, 81},
              {2 * rng.integer(2, 20), rng.integer(25, 400)}});
    const std::string both = pick<std::string>(rng, {"auto", "yes", "no"});
    const bool exact = rng.chance(0.5), each = rng.chance(0.5);
    const auto scheme = make_scheme(
        "t5(buckets=" + text(buckets) + ",max_distance=" + text(max_distance) +
        ",bidirectional=" + both + ",rounding=" + (exact ? "exact" : "float32") +
        ",heads=" + (each ? "each" : "shared") + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    ASSERT_EQ(arrays.size(), 1u);
    Attention want = c.a;
    const bool bidirectional = both == "yes" || (both == "auto" && !c.call.causal);
    want.unscaled = oracle::number_term(
        numbers_of(arrays.begin()->second, each, c, buckets),
        oracle::t5_index(c.queries(), c.keys(), buckets, max_distance, bidirectional,
                         exact ? oracle::T5Rule::kExact : oracle::T5Rule::kTorchFloat32));
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, Mpnet) {
  Rng rng(6);
  for (int n = 0; n < kCases; ++n) {
    const Case c = random_case(rng);
    const auto scheme = make_scheme("mpnet");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    ASSERT_EQ(arrays.size(), 1u);
    Attention want = c.a;
    want.unscaled = oracle::number_term(
        numbers_of(arrays.begin()->second, true, c, 32),
        oracle::t5_index(c.queries(), c.keys(), 32, 128, true, oracle::T5Rule::kExact));
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, Alibi) {
  Rng rng(12);
  for (int n = 0; n < 3 * kCases; ++n) {
    const Case c = random_case(rng);
    const bool deepmind = rng.chance(0.4), scaled = rng.chance(0.3), learned = rng.chance(0.3);
    const double max_exponent = pick(rng, {8.0, 16.0, 5.5});
    const auto scheme = make_scheme("alibi(max_exponent=" + text(max_exponent) +
                                    ",form=" + (deepmind ? "deepmind" : "symmetric") +
                                    ",scaled=" + (scaled ? "yes" : "no") +
                                    ",slopes=" + (learned ? "learned" : "fixed") + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    const size_t head = static_cast<size_t>(c.head);
    // By the head's number in the whole model, also in a shard of the heads.
    double slope =
        oracle::alibi_slopes(static_cast<int>(c.call.sizes.heads), max_exponent).at(head);
    if (learned) slope *= std::exp(arrays.begin()->second.at(head));
    // The half step of DeepMind's form is for models without a causal mask.
    const auto form = c.call.causal ? oracle::AlibiForm::kCausal
                      : deepmind    ? oracle::AlibiForm::kDeepMind
                                    : oracle::AlibiForm::kSymmetric;
    Attention want = c.a;
    (scaled ? want.scaled : want.unscaled) =
        oracle::alibi_bias(slope, form, c.queries(), c.keys());
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, Kerple) {
  Rng rng(15);
  for (int n = 0; n < 2 * kCases; ++n) {
    const Case c = random_case(rng, {.span = 100000});
    const bool power = rng.chance(0.5);
    const auto scheme = make_scheme(std::string("kerple(variant=") + (power ? "power)" : "log)"));
    Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    // Also beyond the released code's bounds: at least .01, p at most 2 in the power form.
    for (double& p : arrays.at("bias_p")) p = rng.uniform(-0.3, 2.5);
    for (double& a : arrays.at("bias_a")) a = rng.uniform(-0.1, 1);
    const size_t head = static_cast<size_t>(c.head);
    double p = std::max(0.01, arrays["bias_p"][head]);
    if (power) p = std::min(p, 2.0);
    const double a = std::max(0.01, arrays["bias_a"][head]);
    Attention want = c.a;
    want.unscaled = oracle::kerple_bias(
        power ? oracle::KerpleForm::kPower : oracle::KerpleForm::kLog, p, a, c.queries(), c.keys());
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, Fire) {
  Rng rng(17);
  for (int n = 0; n < 2 * kCases; ++n) {
    const Case c = random_case(rng, {.span = 1000000});
    const int hidden = rng.integer(1, 40), length = rng.integer(1, 600);
    const auto scheme =
        make_scheme("fire(hidden=" + text(hidden) + ",length=" + text(length) + ")");
    Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    arrays.at("c")[0] = rng.uniform(-2, 2);
    arrays.at("L_multiplier")[0] = rng.uniform(-1.5, 1.5);
    oracle::Fire fire;
    fire.c = arrays.at("c")[0];
    fire.length = length * arrays.at("L_multiplier")[0];
    fire.hidden_weight = arrays.at("mlp.0.weight");
    fire.hidden_bias = arrays.at("mlp.0.bias");
    const auto& out = arrays.at("mlp.2.weight");
    fire.out_weight.assign(out.begin() + c.head * hidden, out.begin() + (c.head + 1) * hidden);
    fire.out_bias = arrays.at("mlp.2.bias")[size_t(c.head)];
    Attention want = c.a;
    want.unscaled = Matrix(want.q.rows, want.k.rows);
    for (int i = 0; i < want.unscaled.rows; ++i) {
      for (int j = 0; j < want.unscaled.cols; ++j)
        want.unscaled(i, j) = oracle::fire_bias(fire, c.queries()[size_t(i)], c.keys()[size_t(j)]);
    }
    expect_same(*scheme, c, arrays, want, 1 + hidden);
  }
}

TEST(SchemeOracle, Sandwich) {
  Rng rng(16);
  for (int n = 0; n < 2 * kCases; ++n) {
    const Case c = random_case(rng, {.span = 100000});
    const int width = rng.chance(0.5) ? 0 : 2 * rng.integer(1, 12);
    const auto scheme = make_scheme("sandwich(base=8000,width=" + text(width) + ")");
    Attention want = c.a;
    want.unscaled = oracle::sandwich_bias(width ? width : c.a.q.cols, static_cast<int>(c.head),
                                          static_cast<int>(c.call.sizes.heads), c.queries(),
                                          c.keys(), 8000);
    expect_same(*scheme, c, {}, want, 1 + static_cast<double>(c.call.length));
  }
}

}  // namespace
}  // namespace locant::dense
