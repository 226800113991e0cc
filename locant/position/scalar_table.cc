#include "locant/position/scalar_table.h"

#include <algorithm>

#include "locant/position/tables.h"

namespace locant {
namespace {

constexpr char kTable[] = "relative_position_bias_table";

}  // namespace

Description ScalarTable::describe() const {
  return {.title = "Scalar table, clipped biases",
          .paper = "the plain form of Raffel et al. 2019 and Liu et al. 2021",
          .acts = "scores, after the scale",
          .where = "every layer",
          .learns = "2K+1 numbers a head, one table for all layers",
          .cost = "under 1.02x",
          .beyond = "defined: distances past K share the last number",
          .users = "one axis of Swin's table; textbooks"};
}

void ScalarTable::options(OptionVisitor& visit) {
  visit.integer("clip", clip, 0, kMaxDistance, "K: distances on each side with an own number");
  visit.word("order", order, kOrderWords, "what the rows count");
  visit.word("heads", heads, kSharingWords, "one number for all heads, or one each");
  visit.word("layers", layers, kSharingWords, "one table for all layers, or one each");
}

void ScalarTable::fit(const Fitting& to) {
  if (to.free("clip")) clip = std::clamp<int64_t>(to.train_length - 1, 0, kMaxDistance);
}

// 1. nothing  2. nothing

// 3. t[clip(j - i) + K][head] outside the scale
void ScalarTable::score(const Call& call, const Parameters& parameters,
                        Terms<double>& terms) const {
  terms.number =
      NumberPerDistance<double>{false,
                                clip_map(clip, clip, order),
                                numbers_of_heads(parameters[kTable], heads, 2 * clip + 1, call),
                                {},
                                {}};
}

void ScalarTable::score_backward(const Call& call, const Parameters&, const Terms<double>& gradient,
                                 ParameterGradients& gradients) const {
  add_numbers_of_heads(gradient.number->table, heads, call, gradients[kTable]);
}

// 4. nothing

// 5. Past K the last number.
std::vector<ParameterSpec> ScalarTable::learn(const Sizes& sizes) const {
  ParameterSpec spec{.name = kTable, .init = ParameterSpec::Init::kZeros};
  spec.shape = {2 * clip + 1, heads == Sharing::kEach ? sizes.heads : 1};
  spec.per_layer = layers == Sharing::kEach;
  return {spec};
}

}  // namespace locant
