#include "locant/position/deberta.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/position/tables.h"

namespace locant {
namespace {

constexpr char kTable[] = "rel_embeddings.weight";
constexpr char kNormWeight[] = "LayerNorm.weight";
constexpr char kNormBias[] = "LayerNorm.bias";
constexpr double kNormEpsilon = 1e-7;  // of all published configurations

// Names of the projections; an empty bias name means there is none.
struct Names {
  std::string key_weight, key_bias, query_weight, query_bias;
};
Names names_of(const Deberta& scheme) {
  if (scheme.version == Deberta::Version::kV1) {
    return {"pos_proj.weight", "", "pos_q_proj.weight", "pos_q_proj.bias"};
  }
  const std::string prefix = scheme.share_att_key ? "" : "pos_";
  return {prefix + "key_proj.weight", prefix + "key_proj.bias", prefix + "query_proj.weight",
          prefix + "query_proj.bias"};
}

// The rows of the table that a call reaches, normalised where the model does.
struct Rows {
  Reach reached;
  std::vector<double> numbers;    // [rows][width]
  std::vector<double> deviation;  // with layer norm: of each row,
  std::vector<double> centred;    // and (row - mean) / deviation
};
Rows rows_of(const Deberta& scheme, const Call& call, const Parameters& parameters) {
  Rows rows;
  rows.reached = reach(scheme.index(), call.first_distance, call.last_distance);
  const int64_t n = rows.reached.rows, width = call.sizes.width;
  const double* table = parameters[kTable] + rows.reached.map.first_row * width;
  rows.numbers.assign(table, table + n * width);
  if (scheme.norm_rel_ebd == Deberta::Norm::kNone) return rows;

  const double* weight = parameters[kNormWeight];
  const double* bias = parameters[kNormBias];
  const double count = static_cast<double>(width);
  rows.centred.resize(rows.numbers.size());
  for (int64_t r = 0; r < n; ++r) {
    double* row = rows.numbers.data() + r * width;
    double* centred = rows.centred.data() + r * width;
    double mean = 0, variance = 0;
    for (int64_t w = 0; w < width; ++w) mean += row[w] / count;
    for (int64_t w = 0; w < width; ++w) variance += (row[w] - mean) * (row[w] - mean) / count;
    rows.deviation.push_back(std::sqrt(variance + kNormEpsilon));
    for (int64_t w = 0; w < width; ++w) {
      centred[w] = (row[w] - mean) / rows.deviation.back();
      row[w] = centred[w] * weight[w] + bias[w];
    }
  }
  return rows;
}

// From the gradient of the (normalised) rows to that of the table and the norm, added.
void rows_backward(const Deberta& scheme, const Call& call, const Parameters& parameters,
                   const Rows& rows, const std::vector<double>& gradient,
                   ParameterGradients& gradients) {
  const int64_t n = rows.reached.rows, width = call.sizes.width;
  double* table = gradients[kTable] + rows.reached.map.first_row * width;
  if (scheme.norm_rel_ebd == Deberta::Norm::kNone) {
    for (int64_t e = 0; e < n * width; ++e) table[e] += gradient[static_cast<size_t>(e)];
    return;
  }
  const double* weight = parameters[kNormWeight];
  double* weight_gradient = gradients[kNormWeight];
  double* bias_gradient = gradients[kNormBias];
  const double count = static_cast<double>(width);
  for (int64_t r = 0; r < n; ++r) {
    const double* out = gradient.data() + r * width;
    const double* centred = rows.centred.data() + r * width;
    double sum = 0, along = 0;  // of d centred, and of d centred * centred
    for (int64_t w = 0; w < width; ++w) {
      weight_gradient[w] += out[w] * centred[w];
      bias_gradient[w] += out[w];
      sum += out[w] * weight[w];
      along += out[w] * weight[w] * centred[w];
    }
    for (int64_t w = 0; w < width; ++w) {
      table[r * width + w] += (out[w] * weight[w] - sum / count - centred[w] * along / count) /
                              rows.deviation[static_cast<size_t>(r)];
    }
  }
}

}  // namespace

Description Deberta::describe() const {
  return {.title = "DeBERTa, disentangled attention",
          .paper = "He et al. 2020, arXiv 2006.03654",
          .acts = "scores, inside the scale",
          .where = "every layer",
          .learns = "one table for all layers, projections in each",
          .cost = "two more products with the rows; 1.34x, 1.9x in short texts",
          .beyond = "defined: far distances share the last row",
          .users = "DeBERTa v1, v2, v3"};
}

void Deberta::options(OptionVisitor& visit) {
  visit.word("version", version, {"v1", "v2"}, "distances as they are, or in log buckets (v2, v3)");
  visit.word("pos_att_type", attention, {"c2p", "p2c", "both", "p2p"},
             "content to position, position to content; p2p is refused");
  visit.integer("buckets", buckets, 4, kMaxDistance, "v2: S, buckets on each side; even");
  visit.integer("max_positions", max_positions, 1, kMaxDistance,
                "v1: S, rows on each side; v2: the buckets reach to here");
  visit.word("rounding", rounding, kLogRoundingWords,
             "v2: boundaries exact, or as transformers' or Microsoft's float32 finds them");
  visit.word("edge", edge, kLogEdgeWords,
             "v2, past max_positions to the right of the query: row 0, or 1 as Microsoft has it");
  visit.flag("share_att_key", share_att_key, "v2: rows go through the layer's own projections");
  visit.word("norm_rel_ebd", norm_rel_ebd, {"none", "layer_norm"}, "of the table's rows");
}

void Deberta::check() const {
  Check check("deberta");
  check.require(attention != Attention::kP2p,
                "pos_att_type p2p (position to position) is refused: released code reads past its "
                "table with it and no checkpoint has it; there are c2p, p2c and both");
  check.require(version == Version::kV2 || !share_att_key,
                "share_att_key needs version=v2: v1 has projections of its own");
  check.done();
  index();  // throws where the buckets are impossible
}

void Deberta::fit(const Fitting& to) {
  if (to.free("max_positions")) {
    max_positions = std::clamp<int64_t>(to.train_length, 4, kMaxDistance);
    // Buckets that were asked for need their room.
    if (!to.free("buckets")) max_positions = std::max(max_positions, buckets / 2 + 2);
  }
  if (to.free("buckets")) buckets = std::max<int64_t>(4, max_positions / 4 * 2);
}

IndexMap Deberta::index() const {
  return version == Version::kV1 ? deberta_v1_map(max_positions)
                                 : deberta_v2_map(buckets, max_positions, rounding, edge);
}

// 1. nothing  2. nothing

// 3. q_i . Kr[r] and k_j . Qr[r] inside the scale, which shrinks by sqrt(1 + number of terms)
void Deberta::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  const Names names = names_of(*this);
  const Rows rows = rows_of(*this, call, parameters);
  const auto term = [&](const std::string& weight, const std::string& bias) {
    return RowPerDistance<double>{
        true, rows.reached.map,
        project(rows.numbers.data(), rows.reached.rows, parameters[weight],
                bias.empty() ? nullptr : parameters[bias], call)};
  };
  if (has_c2p()) terms.query_rows = term(names.key_weight, names.key_bias);
  if (has_p2c()) terms.key_rows = term(names.query_weight, names.query_bias);
  terms.scale_factor = 1 / std::sqrt(1.0 + has_c2p() + has_p2c());
}

void Deberta::score_backward(const Call& call, const Parameters& parameters,
                             const Terms<double>& gradient, ParameterGradients& gradients) const {
  const Names names = names_of(*this);
  const Rows rows = rows_of(*this, call, parameters);
  std::vector<double> rows_gradient(rows.numbers.size());
  const auto add = [&](const Table<double>& out, const std::string& weight,
                       const std::string& bias) {
    project_backward(rows.numbers.data(), rows.reached.rows, parameters[weight], out, call,
                     rows_gradient.data(), gradients[weight],
                     bias.empty() ? nullptr : gradients[bias]);
  };
  if (has_c2p()) add(gradient.query_rows->rows, names.key_weight, names.key_bias);
  if (has_p2c()) add(gradient.key_rows->rows, names.query_weight, names.query_bias);
  rows_backward(*this, call, parameters, rows, rows_gradient, gradients);
}

// 4. nothing

// 5. Past the table: its last row.
std::vector<ParameterSpec> Deberta::learn(const Sizes& sizes) const {
  const Names names = names_of(*this);
  std::vector<ParameterSpec> specs;
  specs.push_back(
      {.name = kTable, .shape = {2 * span(), sizes.width}, .init = ParameterSpec::Init::kNormal});
  if (norm_rel_ebd == Norm::kLayerNorm) {
    ParameterSpec ones{.name = kNormWeight, .shape = {sizes.width}};
    ones.init = ParameterSpec::Init::kUniform;  // in [1, 1): ones
    ones.low = ones.high = 1;
    ones.table = false;
    specs.push_back(ones);
    specs.push_back({.name = kNormBias, .shape = {sizes.width}, .table = false});
  }
  const int64_t out = sizes.heads * sizes.head_size;
  const auto add = [&](const std::string& weight, const std::string& bias) {
    specs.push_back({.name = weight,
                     .shape = {out, sizes.width},
                     .init = ParameterSpec::Init::kNormal,
                     .per_layer = true,
                     .table = false});
    if (bias.empty()) return;
    specs.push_back({.name = bias, .shape = {out}, .per_layer = true, .table = false});
  };
  if (has_c2p()) add(names.key_weight, names.key_bias);
  if (has_p2c()) add(names.query_weight, names.query_bias);
  return specs;
}

}  // namespace locant
