#include "locant/position/shaw.h"

#include <algorithm>

#include "locant/base/check.h"
#include "locant/position/tables.h"

namespace locant {
namespace {

constexpr char kKeyRows[] = "relative_positions_keys";
constexpr char kValueRows[] = "relative_positions_values";

}  // namespace

Description Shaw::describe() const {
  return {.title = "Shaw, relative representations",
          .paper = "Shaw et al. 2018, arXiv 1803.02155",
          .acts = "scores, inside the scale, and values",
          .where = "every layer",
          .learns = "2k+1 rows for keys and for values",
          .cost = "one small product a query; 1.05x",
          .beyond = "defined: distances past k share the last row",
          .users = "T2T, SpeechT5, wav2vec2-BERT, VITS"};
}

void Shaw::options(OptionVisitor& visit) {
  visit.word("on", on, {"keys", "values", "both"}, "what the rows are added to");
  visit.flag("times_key", times_key, "the keys' rows also times the key (BERT relative_key_query)");
  visit.integer("k", k, 0, kMaxDistance, "keys on each side with a row of their own");
  visit.integer("left", left, -1, kMaxDistance, "the same to the left only; -1: k");
  visit.integer("right", right, -1, kMaxDistance, "the same to the right only; -1: k");
  visit.word("outside", outside, {"clip", "zero", "refuse"},
             "past the window: the last row, nothing, or an error");
  visit.word("order", order, kOrderWords, "what the rows count");
  visit.word("heads", heads, kSharingWords, "one table for all heads, or one each");
  visit.word("layers", layers, kSharingWords, "one table for all layers, or one each");
}

void Shaw::check() const {
  Check check("shaw");
  check.require(!times_key || on != On::kValues, "times_key needs rows on keys, got on=values");
  check.done();
}

void Shaw::check(const Call& call) const {
  Check check("shaw");
  if (outside == Outside::kRefuse && call.first_distance <= call.last_distance) {
    check.require(-window_left() <= call.first_distance && call.last_distance <= window_right(),
                  "the table has rows for the distances ", -window_left(), " to ", window_right(),
                  ", got distances ", call.first_distance, " to ", call.last_distance,
                  " (outside=refuse)");
  }
  check.done();
}

void Shaw::fit(const Fitting& to) {
  const int64_t most = std::max<int64_t>(to.train_length - 1, 0);
  if (to.free("k")) k = std::min(k, most);
  if (to.free("left")) left = std::min(left, most);
  if (to.free("right")) right = std::min(right, most);
}

IndexMap Shaw::index() const {
  return outside == Outside::kClip ? clip_map(window_left(), window_right(), order)
                                   : window_map(window_left(), window_right(), order);
}

// 1. nothing  2. nothing

// 3. q_i . aK[r] inside the scale; k_j . aK[r] too for relative_key_query.
void Shaw::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  if (on == On::kValues) return;
  const IndexMap map = index();
  const Table<double> rows =
      rows_of_heads(parameters[kKeyRows], heads, static_cast<int64_t>(map.rows.size()),
                    call.sizes.head_size, call);
  terms.query_rows = RowPerDistance<double>{true, map, rows};
  if (times_key) terms.key_rows = terms.query_rows;
}

void Shaw::score_backward(const Call& call, const Parameters&, const Terms<double>& gradient,
                          ParameterGradients& gradients) const {
  if (on == On::kValues) return;
  add_rows_of_heads(gradient.query_rows->rows, heads, call, gradients[kKeyRows]);
  if (times_key) add_rows_of_heads(gradient.key_rows->rows, heads, call, gradients[kKeyRows]);
}

// 4. p_ij aV[r]
void Shaw::value(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  if (on == On::kKeys) return;
  const IndexMap map = index();
  terms.value_rows = ValuePerDistance<double>{
      map, rows_of_heads(parameters[kValueRows], heads, static_cast<int64_t>(map.rows.size()),
                         value_width(call.sizes), call)};
}

void Shaw::value_backward(const Call& call, const Parameters&, const Terms<double>& gradient,
                          ParameterGradients& gradients) const {
  if (on == On::kKeys) return;
  add_rows_of_heads(gradient.value_rows->rows, heads, call, gradients[kValueRows]);
}

// 5. Past the window: the last row, nothing or an error.
std::vector<ParameterSpec> Shaw::learn(const Sizes& sizes) const {
  std::vector<ParameterSpec> specs;
  const auto add = [&](const char* name, int64_t width) {
    ParameterSpec spec{.name = name, .init = ParameterSpec::Init::kNormal};
    if (heads == Sharing::kEach) spec.shape.push_back(sizes.heads);
    spec.shape.push_back(window_left() + window_right() + 1);
    spec.shape.push_back(width);
    spec.per_layer = layers == Sharing::kEach;
    specs.push_back(spec);
  };
  if (on != On::kValues) add(kKeyRows, sizes.head_size);
  if (on != On::kKeys) add(kValueRows, value_width(sizes));
  return specs;
}

}  // namespace locant
