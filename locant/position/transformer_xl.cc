#include "locant/position/transformer_xl.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/position/distance.h"
#include "locant/position/sinusoidal.h"
#include "locant/position/tables.h"

namespace locant {
namespace {

using Style = TransformerXl::Style;

struct Names {
  const char *content, *position, *projection;  // u, v, W_R
};
Names names_of(Style style) {
  if (style == Style::kConformer) return {"pos_bias_u", "pos_bias_v", "linear_pos.weight"};
  return {"r_w_bias", "r_r_bias", style == Style::kXlnet ? "r" : "r_net.weight"};
}

// Rows that one call may ask for: they are computed, all heads of them, for each layer.
constexpr int64_t kMaxRows = int64_t{1} << 24;

// The rows that a call needs are one for each distance low ... high.
struct Range {
  int64_t low, high;
};
Range range_of(const TransformerXl& scheme, const Call& call) {
  int64_t low = call.first_distance, high = std::max(call.first_distance, call.last_distance);
  if (scheme.style == Style::kXl) {  // causal: the rest is masked
    high = std::min<int64_t>(high, 0);
    low = std::min(low, high);
  }
  const int64_t limit = scheme.clamp_len;
  if (limit > 0) {
    low = std::clamp(low, -limit, limit);
    high = std::clamp(high, -limit, limit);
  }
  return {low, high};
}

// With the ends standing for what is clamped.
IndexMap index_of(const TransformerXl& scheme, const Call& call) {
  const auto [low, high] = range_of(scheme, call);
  const int64_t limit = scheme.clamp_len;
  IndexMap map;
  map.first = low;
  for (int64_t d = low; d <= high; ++d) map.rows.push_back(static_cast<int32_t>(d - low));
  if (limit > 0 && low == -limit) map.before = 0;
  if (limit > 0 && high == limit) map.after = map.rows.back();
  return map;
}

std::vector<double> sinusoids_of(const TransformerXl& scheme, const IndexMap& map,
                                 const Call& call) {
  return distance_sinusoids(-map.first, static_cast<int64_t>(map.rows.size()), call.sizes.width,
                            scheme.base, scheme.style);
}

// W_R R for the heads of the call, [heads][rows][D].
Table<double> projected(Style style, const std::vector<double>& sinusoids, int64_t rows,
                        const double* weight, const Call& call) {
  if (style != Style::kXlnet) return project(sinusoids.data(), rows, weight, nullptr, call);
  const int64_t width = call.sizes.width, size = call.sizes.head_size;
  Table<double> out(call.heads_here(), rows, size);
  for (int64_t h = 0; h < out.heads; ++h) {
    multiply_add(rows, width, size, {sinusoids.data(), width, 1},
                 weight + (call.first_head + h) * size, call.sizes.heads * size, out.row(h, 0),
                 size);
  }
  return out;
}

}  // namespace

std::vector<double> distance_sinusoids(int64_t first, int64_t n, int64_t width, double base,
                                       Style style) {
  const bool alternating = style == Style::kConformer;
  const std::vector<double> frequencies = sinusoidal_frequencies(
      width, base,
      alternating ? Sinusoidal::Layout::kInterleaved : Sinusoidal::Layout::kConcatenated);
  const int64_t pairs = static_cast<int64_t>(frequencies.size());
  std::vector<double> rows(static_cast<size_t>(n * width));
  for (int64_t r = 0; r < n; ++r) {
    double* row = rows.data() + r * width;
    const double distance = static_cast<double>(first - r);
    for (int64_t t = 0; t < pairs; ++t) {
      const double angle = distance * frequencies[static_cast<size_t>(t)];
      const int64_t sine = alternating ? 2 * t : t, cosine = alternating ? 2 * t + 1 : pairs + t;
      row[sine] = std::sin(angle);
      if (cosine < width) row[cosine] = std::cos(angle);  // an odd width ends with a sine
    }
  }
  return rows;
}

Description TransformerXl::describe() const {
  return {.title = "Transformer-XL, projected sinusoids of the distance",
          .paper = "Dai et al. 2019, arXiv 1901.02860",
          .acts = "scores, inside the scale",
          .where = "every layer",
          .learns = "u, v and a projection W_R",
          .cost = "one more product of queries and rows; 1.6x",
          .beyond = "defined for any distance",
          .users = "Transformer-XL, XLNet, conformers"};
}

void TransformerXl::options(OptionVisitor& visit) {
  visit.word("style", style, {"xl", "xlnet", "conformer"},
             "sinusoids, sides and names of Transformer-XL, XLNet or wav2vec2-conformer");
  visit.integer("clamp_len", clamp_len, 0, kMaxDistance,
                "farther distances count as this one; 0: none");
  visit.real("base", base, 1.0001, 1e12, "of the sinusoids");
  visit.word("untie_r", untie_r, {"auto", "yes", "no"},
             "u and v for each layer; auto: no for xl, yes for xlnet and conformer");
}

void TransformerXl::check(const Call& call) const {
  Check check("transformer_xl");
  check.require(call.causal || style != Style::kXl,
                "style=xl needs a causal mask: its shifted product has left-overs for keys to the "
                "right of the query; styles xlnet and conformer are defined on both sides");
  const auto [low, high] = range_of(*this, call);
  check.require(high - low < kMaxRows, "the call has distances from ", low, " to ", high,
                ", more than the ", kMaxRows, " rows allowed; clamp_len bounds them");
  check.done();
}

// 1. nothing  2. nothing

// 3. u . k_j + (q_i + v) . (W_R R_x), inside the scale
void TransformerXl::score(const Call& call, const Parameters& parameters,
                          Terms<double>& terms) const {
  const Names names = names_of(style);
  const int64_t heads = call.heads_here(), size = call.sizes.head_size;
  const IndexMap map = index_of(*this, call);
  const int64_t rows = static_cast<int64_t>(map.rows.size());
  const Table<double> r =
      projected(style, sinusoids_of(*this, map, call), rows, parameters[names.projection], call);

  terms.content_bias = Table<double>(heads, 1, size);
  const double* u = parameters[names.content] + call.first_head * size;
  std::copy_n(u, heads * size, terms.content_bias->data.begin());

  const double* v = parameters[names.position] + call.first_head * size;
  NumberPerDistance<double> number{true, map, Table<double>(heads, rows, 1), {}, {}};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t n = 0; n < rows; ++n) {
      double sum = 0;
      for (int64_t d = 0; d < size; ++d) sum += v[h * size + d] * r.row(h, n)[d];
      *number.table.row(h, n) = sum;
    }
  }
  terms.number = std::move(number);
  terms.query_rows = RowPerDistance<double>{true, map, r};
}

// With P = W_R R: number = v . P and query rows = P, so dP = d rows + d number v, and
// dv = W_R times the sum over rows of d number R.
void TransformerXl::score_backward(const Call& call, const Parameters& parameters,
                                   const Terms<double>& gradient,
                                   ParameterGradients& gradients) const {
  const Names names = names_of(style);
  const int64_t heads = call.heads_here(), size = call.sizes.head_size, width = call.sizes.width;
  const IndexMap map = index_of(*this, call);
  const int64_t rows = static_cast<int64_t>(map.rows.size());
  const std::vector<double> sinusoids = sinusoids_of(*this, map, call);
  const double* weight = parameters[names.projection];

  double* u_gradient = gradients[names.content] + call.first_head * size;
  for (int64_t n = 0; n < heads * size; ++n) {
    u_gradient[n] += gradient.content_bias->data[static_cast<size_t>(n)];
  }

  const double* v = parameters[names.position] + call.first_head * size;
  double* v_gradient = gradients[names.position] + call.first_head * size;
  Table<double> r_gradient = gradient.query_rows->rows;
  for (int64_t h = 0; h < heads; ++h) {
    const double* numbers = gradient.number->table.row(h, 0);
    std::vector<double> sum(static_cast<size_t>(width));
    multiply_add(1, rows, width, {numbers, 0, 1}, sinusoids.data(), width, sum.data(), width);
    Call one = call;
    one.first_head = call.first_head + h;
    one.heads = 1;
    const Table<double> along = projected(style, sum, 1, weight, one);
    for (int64_t d = 0; d < size; ++d) v_gradient[h * size + d] += along.row(0, 0)[d];
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t d = 0; d < size; ++d) r_gradient.row(h, n)[d] += numbers[n] * v[h * size + d];
    }
  }

  double* weight_gradient = gradients[names.projection];
  if (style != Style::kXlnet) {
    project_backward(sinusoids.data(), rows, weight, r_gradient, call, nullptr, weight_gradient,
                     nullptr);
    return;
  }
  for (int64_t h = 0; h < heads; ++h) {
    multiply_add(width, rows, size, {sinusoids.data(), 1, width}, r_gradient.row(h, 0), size,
                 weight_gradient + (call.first_head + h) * size, call.sizes.heads * size);
  }
}

// 4. nothing

// 5. No end: sinusoids are defined for any distance.
std::vector<ParameterSpec> TransformerXl::learn(const Sizes& sizes) const {
  const Names names = names_of(style);
  const bool untied = untie_r == Untie::kAuto ? style != Style::kXl : untie_r == Untie::kYes;
  ParameterSpec content{.name = names.content, .init = ParameterSpec::Init::kNormal};
  content.shape = {sizes.heads, sizes.head_size};
  content.per_layer = untied;
  ParameterSpec projection{.name = names.projection, .init = ParameterSpec::Init::kNormal};
  projection.shape = style == Style::kXlnet
                         ? std::vector<int64_t>{sizes.width, sizes.heads, sizes.head_size}
                         : std::vector<int64_t>{sizes.heads * sizes.head_size, sizes.width};
  projection.per_layer = true;
  projection.table = false;          // a layer's weight like any other
  if (style == Style::kConformer) {  // Xavier uniform; the linear layer as PyTorch makes one
    content.init = projection.init = ParameterSpec::Init::kUniform;
    content.high = std::sqrt(6.0 / static_cast<double>(sizes.heads + sizes.head_size));
    content.low = -content.high;
    projection.high = 1 / std::sqrt(static_cast<double>(sizes.width));
    projection.low = -projection.high;
  }
  ParameterSpec position = content;
  position.name = names.position;
  return {content, position, projection};
}

}  // namespace locant
