// Schemes whose rows meet queries, keys or values, written out for every pair of tokens, against the
// dense formulas of tests/oracle for random parameters, positions, masks, shards of heads and options.
#include <gtest/gtest.h>

#include "tests/oracle/deberta.h"
#include "tests/oracle/music_transformer.h"
#include "tests/oracle/shaw.h"
#include "tests/oracle/transformer_xl.h"
#include "tests/position/materialise.h"

namespace locant::dense {
namespace {

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

}  // namespace
}  // namespace locant::dense
