#include "locant/position/music_transformer.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/position/tables.h"

namespace locant {
namespace {

constexpr char kKeyRows[] = "relative_embeddings_keys";
constexpr char kValueRows[] = "relative_embeddings_values";

}  // namespace

Description MusicTransformer::describe() const {
  return {.title = "Music Transformer, relative rows by skewing",
          .paper = "Huang et al. 2018, arXiv 1809.04281",
          .acts = "scores, inside the scale",
          .where = "every layer",
          .learns = "one row for each distance to the left",
          .cost = "one more product of queries and rows",
          .beyond = "nothing is added past the table; causal only",
          .users = "Music Transformer, T2T"};
}

void MusicTransformer::options(OptionVisitor& visit) {
  visit.integer("rows", rows, 1, kMaxDistance, "distances with a row, the own place included");
  visit.flag("values", values, "rows on values too");
  visit.word("heads", heads, kSharingWords, "one table for all heads, or one each");
  visit.word("layers", layers, kSharingWords, "one table for all layers, or one each");
}

void MusicTransformer::check(const Call& call) const {
  Check check("music_transformer");
  check.require(
      call.causal,
      "needs a causal mask: the skewed product has left-overs and no rows for keys to the "
      "right of the query, got a call without one");
  check.done();
}

void MusicTransformer::fit(const Fitting& to) {
  if (to.free("rows")) rows = std::clamp<int64_t>(to.train_length, 1, kMaxDistance);
}

// 1. nothing  2. nothing

// 3. q_i . E[P - 1 - (i - j)] inside the scale
void MusicTransformer::score(const Call& call, const Parameters& parameters,
                             Terms<double>& terms) const {
  terms.query_rows = RowPerDistance<double>{
      true, window_map(rows - 1, 0),
      rows_of_heads(parameters[kKeyRows], heads, rows, call.sizes.head_size, call)};
}

void MusicTransformer::score_backward(const Call& call, const Parameters&,
                                      const Terms<double>& gradient,
                                      ParameterGradients& gradients) const {
  add_rows_of_heads(gradient.query_rows->rows, heads, call, gradients[kKeyRows]);
}

// 4. the same rows of another table, only with values=yes
void MusicTransformer::value(const Call& call, const Parameters& parameters,
                             Terms<double>& terms) const {
  if (!values) return;
  terms.value_rows = ValuePerDistance<double>{
      window_map(rows - 1, 0),
      rows_of_heads(parameters[kValueRows], heads, rows, value_width(call.sizes), call)};
}

void MusicTransformer::value_backward(const Call& call, const Parameters&,
                                      const Terms<double>& gradient,
                                      ParameterGradients& gradients) const {
  if (!values) return;
  add_rows_of_heads(gradient.value_rows->rows, heads, call, gradients[kValueRows]);
}

// 5. Zeros past the table.
std::vector<ParameterSpec> MusicTransformer::learn(const Sizes& sizes) const {
  std::vector<ParameterSpec> specs;
  const auto add = [&](const char* name, int64_t width) {
    ParameterSpec spec{.name = name, .init = ParameterSpec::Init::kNormal};
    if (heads == Sharing::kEach) spec.shape.push_back(sizes.heads);
    spec.shape.push_back(rows);
    spec.shape.push_back(width);
    spec.scale = 1 / std::sqrt(static_cast<double>(width));
    spec.per_layer = layers == Sharing::kEach;
    specs.push_back(spec);
  };
  add(kKeyRows, sizes.head_size);
  if (values) add(kValueRows, value_width(sizes));
  return specs;
}

}  // namespace locant
