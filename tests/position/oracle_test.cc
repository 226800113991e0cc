// Every scheme's terms, written out for every pair of tokens, against the dense formulas of
// tests/oracle for random parameters, positions, masks, shards of heads and options.
#include <gtest/gtest.h>

#include "tests/oracle/alibi.h"
#include "tests/oracle/deberta.h"
#include "tests/oracle/fire.h"
#include "tests/oracle/kerple.h"
#include "tests/oracle/music_transformer.h"
#include "tests/oracle/rope.h"
#include "tests/oracle/rope_scaling.h"
#include "tests/oracle/sandwich.h"
#include "tests/oracle/scalar_table.h"
#include "tests/oracle/shaw.h"
#include "tests/oracle/sinusoidal.h"
#include "tests/oracle/t5.h"
#include "tests/oracle/transformer_xl.h"
#include "tests/oracle/xpos.h"
#include "tests/position/materialise.h"

namespace locant::dense {
namespace {

constexpr int kCases = 60;

template <class Number>
std::string text(Number x) {
  return std::to_string(x);
}
template <class Word>
Word pick(Rng& rng, std::initializer_list<Word> words) {
  return *(words.begin() + rng.integer(0, static_cast<int>(words.size()) - 1));
}

TEST(SchemeOracle, Nope) {
  Rng rng(1);
  for (int n = 0; n < kCases; ++n) {
    const Case c = random_case(rng);
    expect_same(*make_scheme("nope"), c, {}, c.a);
  }
}

TEST(SchemeOracle, Shaw) {
  Rng rng(2);
  for (int n = 0; n < 4 * kCases; ++n) {
    const Case c = random_case(rng);
    const int left = rng.integer(0, 6);
    const int right = rng.integer(0, 6);
    const std::string on = pick<std::string>(rng, {"keys", "values", "both"});
    const bool clip = rng.chance(0.5), minus = rng.chance(0.5), each = rng.chance(0.5);
    const bool times_key = on != "values" && rng.chance(0.3);
    const auto scheme = make_scheme(
        "shaw(left=" + text(left) + ",right=" + text(right) + ",on=" + on +
        ",outside=" + (clip ? "clip" : "zero") + ",order=" + (minus ? "i-j" : "j-i") +
        ",heads=" + (each ? "each" : "shared") + ",times_key=" + (times_key ? "yes" : "no") + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    Attention want = c.a;
    // In the order i - j, `left` still counts keys to the left: x = -right ... left.
    const IndexMatrix index = oracle::relative_index(
        c.queries(), c.keys(), minus ? right : left, minus ? left : right,
        minus ? oracle::Order::kQueryMinusKey : oracle::Order::kKeyMinusQuery,
        clip ? oracle::Outside::kClip : oracle::Outside::kZero);
    if (on != "values") {
      const Matrix rows = table_of(arrays.at("relative_positions_keys"), each, c.head,
                                   left + right + 1, c.a.q.cols);
      want.scaled = oracle::query_row_term(c.a.q, rows, index);
      if (times_key) {
        want.scaled = oracle::sum(want.scaled, oracle::key_row_term(c.a.k, rows, index));
      }
    }
    if (on != "keys") {
      want.value_table = table_of(arrays.at("relative_positions_values"), each, c.head,
                                  left + right + 1, c.a.v.cols);
      want.value_index = index;
    }
    expect_same(*scheme, c, arrays, want);
  }
}

TEST(SchemeOracle, MusicTransformer) {
  Rng rng(3);
  for (int n = 0; n < 2 * kCases; ++n) {
    const bool shift = rng.chance(0.5);  // by the paper's skew, or by distance at any positions
    const Case c = random_case(rng, {.mask = Mask::kCausal, .consecutive = shift});
    const int rows = rng.integer(1, 30);
    const bool each = rng.chance(0.5);
    const auto scheme = make_scheme("music_transformer(rows=" + text(rows) +
                                    ",heads=" + (each ? "each" : "shared") + ")");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    ASSERT_EQ(arrays.size(), 1u);
    const Matrix table = table_of(arrays.begin()->second, each, c.head, rows, c.a.q.cols);
    Attention want = c.a;
    want.scaled = shift ? oracle::music_by_skew(c.a.q, table)
                        : oracle::music_by_distance(c.a.q, table, c.queries(), c.keys());
    expect_same(*scheme, c, arrays, want);
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

// One head's W_R [d][width] out of [H d][width], or out of [width][H][d] (XLNet).
Matrix xl_weight(const std::vector<double>& array, const Case& c, bool xlnet) {
  const int64_t d = c.call.sizes.head_size, width = c.call.sizes.width, heads = c.call.sizes.heads;
  EXPECT_EQ(static_cast<int64_t>(array.size()), heads * d * width);
  Matrix result(static_cast<int>(d), static_cast<int>(width));
  for (int64_t r = 0; r < d; ++r) {
    for (int64_t m = 0; m < width; ++m) {
      const int64_t at = xlnet ? (m * heads + c.head) * d + r : (c.head * d + r) * width + m;
      result(static_cast<int>(r), static_cast<int>(m)) = array.at(static_cast<size_t>(at));
    }
  }
  return result;
}

TEST(SchemeOracle, TransformerXl) {
  Rng rng(7);
  for (int n = 0; n < 3 * kCases; ++n) {
    const std::string style = pick<std::string>(rng, {"xl", "xlnet", "conformer"});
    const bool shift = rng.chance(0.5);  // by the released code's own shift
    const Case c = random_case(rng, {.mask = style == "xl" ? Mask::kCausal : Mask::kAny,
                                     .max_length = 12, .consecutive = shift, .span = 20000});
    const int clamp = style != "conformer" && rng.chance(0.4) ? rng.integer(1, 10) : 0;
    const auto scheme = make_scheme("transformer_xl(style=" + style + ",clamp_len=" + text(clamp) +
                                    ",base=5000)");
    const Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    const bool conformer = style == "conformer";
    const auto row = [&](const std::string& name) {
      return table_of(arrays.at(name), true, c.head, 1, c.a.q.cols).values;
    };
    const std::vector<double> u = row(conformer ? "pos_bias_u" : "r_w_bias");
    const std::vector<double> v = row(conformer ? "pos_bias_v" : "r_r_bias");
    const std::string weight =
        conformer ? "linear_pos.weight" : style == "xlnet" ? "r" : "r_net.weight";
    const Matrix w_r = xl_weight(arrays.at(weight), c, style == "xlnet");
    Attention want = c.a;
    want.scaled_keys = oracle::xl_key_numbers(c.a.k, u);
    const std::int64_t limit = clamp == 0 ? -1 : clamp;
    if (!shift) {
      want.scaled = oracle::xl_position_term(
          c.a.q, v, w_r, c.queries(), c.keys(), limit, style == "xlnet",
          conformer ? oracle::SinusoidalLayout::kAlternating
                    : oracle::SinusoidalLayout::kConcatenated, 5000);
    } else if (conformer) {
      want.scaled = oracle::conformer_position_by_shift(c.a.q, v, w_r, 5000);
    } else if (style == "xlnet") {
      want.scaled = oracle::xlnet_position_by_shift(c.a.q, v, w_r, c.a.k.rows, limit, 5000);
    } else {
      want.scaled = oracle::xl_position_by_shift(c.a.q, v, w_r, c.a.k.rows, limit, 5000);
    }
    // Sums over d times the model's width; angles are distances times frequencies.
    expect_same(*scheme, c, arrays, want, static_cast<double>(c.call.sizes.width));
  }
}

// rows [n][width] through one head of a linear layer, weight [H d][width], bias [H d] or empty.
Matrix projected(const Matrix& rows, const std::vector<double>& weight,
                 const std::vector<double>& bias, const Case& c) {
  const int64_t d = c.call.sizes.head_size, width = rows.cols;
  EXPECT_EQ(static_cast<int64_t>(weight.size()), c.call.sizes.heads * d * width);
  Matrix result(rows.rows, static_cast<int>(d));
  for (int r = 0; r < rows.rows; ++r) {
    for (int64_t e = 0; e < d; ++e) {
      const int64_t out = c.head * d + e;
      double sum = bias.empty() ? 0 : bias.at(static_cast<size_t>(out));
      for (int64_t w = 0; w < width; ++w) {
        sum += weight.at(static_cast<size_t>(out * width + w)) * rows(r, static_cast<int>(w));
      }
      result(r, static_cast<int>(e)) = sum;
    }
  }
  return result;
}

Matrix layer_norm(Matrix rows, const std::vector<double>& weight, const std::vector<double>& bias) {
  for (int r = 0; r < rows.rows; ++r) {
    double mean = 0, variance = 0;
    for (int w = 0; w < rows.cols; ++w) mean += rows(r, w) / rows.cols;
    for (int w = 0; w < rows.cols; ++w) variance += std::pow(rows(r, w) - mean, 2) / rows.cols;
    for (int w = 0; w < rows.cols; ++w) {
      const size_t at = static_cast<size_t>(w);
      rows(r, w) = (rows(r, w) - mean) / std::sqrt(variance + 1e-7) * weight.at(at) + bias.at(at);
    }
  }
  return rows;
}

TEST(SchemeOracle, Deberta) {
  Rng rng(8);
  for (int n = 0; n < 4 * kCases; ++n) {
    const Case c = random_case(rng);
    const bool v2 = rng.chance(0.6);
    const std::string terms = pick<std::string>(rng, {"c2p", "p2c", "both"});
    const auto [buckets, positions] = pick<std::pair<int, int>>(
        rng, {{256, 512}, {8, 16}, {24, 17}, {24, 33}, {48, 65},
              {2 * rng.integer(2, 10), rng.integer(12, 80)}});
    const std::string rounding = pick<std::string>(rng, {"exact", "hf", "microsoft"});
    const bool cut = rng.chance(0.5), norm = rng.chance(0.3), share = v2 && rng.chance(0.3);
    const auto scheme = make_scheme(
        std::string("deberta(version=") + (v2 ? "v2" : "v1") + ",pos_att_type=" + terms +
        ",buckets=" + text(buckets) + ",max_positions=" + text(positions) + ",rounding=" +
        rounding + ",edge=" + (cut ? "microsoft" : "hf") + ",norm_rel_ebd=" +
        (norm ? "layer_norm" : "none") + ",share_att_key=" + (share ? "yes" : "no") + ")");
    Arrays arrays = random_arrays(rng, *scheme, c.call.sizes);
    if (share) {  // the caller's own projections
      const int size = static_cast<int>(c.call.sizes.heads * c.call.sizes.head_size);
      for (const std::string name : {"key_proj", "query_proj"}) {
        arrays[name + ".weight"] =
            oracle::random_numbers(rng, size * static_cast<int>(c.call.sizes.width));
        arrays[name + ".bias"] = oracle::random_numbers(rng, size);
      }
    }
    const oracle::DebertaIndex how{.span = v2 ? buckets : positions, .log_buckets = v2,
                                   .max_position = positions, .clamp_first = cut,
                                   .rule = rounding == "exact" ? oracle::DebertaRule::kExact
                                           : rounding == "hf"  ? oracle::DebertaRule::kTransformers
                                                               : oracle::DebertaRule::kMicrosoft};
    Matrix rows = table_of(arrays.at("rel_embeddings.weight"), false, 0, 2 * how.span,
                           c.call.sizes.width);
    if (norm) rows = layer_norm(rows, arrays.at("LayerNorm.weight"), arrays.at("LayerNorm.bias"));
    const std::string prefix = share ? "" : "pos_";
    Attention want = c.a;
    want.scaled = Matrix(c.a.q.rows, c.a.k.rows);
    int count = 0;
    if (terms != "p2c") {
      const Matrix kr =
          v2 ? projected(rows, arrays.at(prefix + "key_proj.weight"),
                         arrays.at(prefix + "key_proj.bias"), c)
             : projected(rows, arrays.at("pos_proj.weight"), {}, c);
      want.scaled = oracle::sum(want.scaled,
                                oracle::deberta_c2p(c.a.q, kr, c.queries(), c.keys(), how));
      ++count;
    }
    if (terms != "c2p") {
      const Matrix qr = v2 ? projected(rows, arrays.at(prefix + "query_proj.weight"),
                                       arrays.at(prefix + "query_proj.bias"), c)
                           : projected(rows, arrays.at("pos_q_proj.weight"),
                                       arrays.at("pos_q_proj.bias"), c);
      want.scaled = oracle::sum(want.scaled,
                                oracle::deberta_p2c(c.a.k, qr, c.queries(), c.keys(), how));
      ++count;
    }
    want.scale = c.a.scale * std::sqrt(static_cast<double>(c.a.q.cols)) *
                 oracle::deberta_scale(c.a.q.cols, count);
    expect_same(*scheme, c, arrays, want, static_cast<double>(c.call.sizes.width));
  }
}

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
