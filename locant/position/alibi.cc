#include "locant/position/alibi.h"

#include <cmath>

#include "locant/base/check.h"
#include "locant/position/span.h"

namespace locant {
namespace {
constexpr const char* kLearned = "log_slope_factors";
}

std::vector<double> alibi_slopes(int64_t heads, double max_exponent) {
  if (heads < 1) fail("alibi", "heads must be 1 or more, got ", heads);
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  // Entry n of the list for `count` heads, a power of two.
  const auto entry = [&](int64_t n, int64_t count) {
    return std::exp2(-max_exponent * static_cast<double>(n + 1) / static_cast<double>(count));
  };
  std::vector<double> slopes;
  for (int64_t h = 0; h < power; ++h) slopes.push_back(entry(h, power));
  for (int64_t h = 0; power + h < heads; ++h) slopes.push_back(entry(2 * h, 2 * power));
  return slopes;
}

Description Alibi::describe() const {
  return {.title = "ALiBi, linear biases",
          .paper = "Press et al. 2021, arXiv 2108.12409",
          .acts = scaled ? "scores, inside the scale" : "scores, after the scale",
          .where = "every layer, the same",
          .learns = slopes == Slopes::kFixed ? "nothing" : "one slope for each head",
          .cost = "an addition to each score",
          .beyond = "defined and harmless: far keys fade",
          .users = "BLOOM, MPT, Falcon-RW, Jina embeddings, data2vec"};
}

void Alibi::options(OptionVisitor& visit) {
  visit.real("max_exponent", max_exponent, 1e-3, 1e3, "the last slope is 2^-max_exponent");
  visit.word("form", form, {"symmetric", "deepmind"},
             "without a causal mask; deepmind takes half a step off the past");
  visit.flag("scaled", scaled, "inside the scale, as in Falcon");
  visit.word("slopes", slopes, {"fixed", "learned"}, "learned ones start as the published ones");
  visit.word("layers", layers, kSharingWords, "who shares learned slopes");
}

void Alibi::check() const {
  if (layers == Sharing::kEach && slopes == Slopes::kFixed) {
    fail(name(), "layers=each needs slopes=learned");
  }
}

void Alibi::check(const Call& call) const { check_heads(name(), call); }

// By the model's head numbers, also where only some of its heads are computed.
std::vector<double> Alibi::slopes_here(const Call& call, const Parameters& parameters) const {
  const auto all = alibi_slopes(call.sizes.heads, max_exponent);
  const auto first = all.begin() + call.first_head;
  std::vector<double> here(first, first + call.heads_here());
  if (slopes == Slopes::kLearned) {
    const double* x = parameters[kLearned] + call.first_head;
    for (double& slope : here) slope *= std::exp(*x++);
  }
  return here;
}

// 1. nothing  2. nothing

// 3. A table of a zero at distance 0, and lines on both sides: no span of positions is too large.
void Alibi::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  const std::vector<double> m = slopes_here(call, parameters);
  const bool half_step = form == Form::kDeepMind && !call.causal;
  NumberPerDistance<double>& number = terms.number.emplace();
  number.scaled = scaled;
  number.index = {.first = 0, .rows = {0}, .before = half_step ? 1 : 0, .after = 0};
  number.table = Table<double>(static_cast<int64_t>(m.size()), half_step ? 2 : 1, 1);
  for (size_t h = 0; h < m.size(); ++h) {
    number.left.push_back(-m[h]);
    number.right.push_back(-m[h]);
    if (half_step) *number.table.row(static_cast<int64_t>(h), 1) = m[h] / 2;
  }
}

void Alibi::score_backward(const Call& call, const Parameters& parameters,
                           const Terms<double>& gradient, ParameterGradients& gradients) const {
  if (slopes == Slopes::kFixed) return;
  const std::vector<double> m = slopes_here(call, parameters);
  const NumberPerDistance<double>& number = *gradient.number;
  double* x = gradients[kLearned] + call.first_head;
  for (size_t h = 0; h < m.size(); ++h) {
    double slope = -number.left[h] - number.right[h];
    if (number.table.rows == 2) slope += *number.table.row(static_cast<int64_t>(h), 1) / 2;
    x[h] += slope * m[h];
  }
}

// 4. nothing

// 5. Nothing, or one number for each head; no end.
std::vector<ParameterSpec> Alibi::learn(const Sizes& sizes) const {
  if (slopes == Slopes::kFixed) return {};
  // Trained as any weight is: decay leads back to the published slopes.
  return {{.name = kLearned,
           .shape = {sizes.heads},
           .per_layer = layers == Sharing::kEach,
           .table = false}};
}

}  // namespace locant
