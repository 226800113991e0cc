#include "locant/position/t5.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/position/tables.h"

namespace locant {
namespace {

constexpr char kTable[] = "relative_attention_bias.weight";

}  // namespace

Description T5::describe() const {
  return {.title = "T5, bucketed biases",
          .paper = "Raffel et al. 2019, arXiv 1910.10683",
          .acts = "scores, after the scale",
          .where = "every layer",
          .learns = "one number a head and bucket, one table for all layers",
          .cost = "under 1.02x",
          .beyond = "defined: the last bucket has no end",
          .users = "T5, mT5, UMT5, ByT5, LongT5"};
}

void T5::options(OptionVisitor& visit) {
  visit.integer("buckets", buckets, 2, 65536, "rows of the table");
  visit.integer("max_distance", max_distance, 2, kMaxDistance,
                "the logarithmic buckets reach to here");
  visit.word("bidirectional", bidirectional, {"auto", "yes", "no"},
             "half of the buckets for keys to the right; auto: unless the mask is causal");
  visit.word("rounding", rounding, kBucketRoundingWords,
             "boundaries exact, or as PyTorch's float32 finds them");
  visit.word("heads", heads, kSharingWords, "one number for all heads, or one each");
  visit.word("layers", layers, kSharingWords, "one table for all layers (T5), or one each (UMT5)");
}

void T5::check() const {
  // With auto the call decides; at least one of the two must be possible.
  const bool halved = bidirectional != Bidirectional::kNo;
  Check check(name());
  check.require(!halved || buckets >= 4 || bidirectional == Bidirectional::kAuto,
                "bidirectional needs at least 4 buckets, got ", buckets);
  const int64_t exact = (halved && buckets >= 4 ? buckets / 2 : buckets) / 2;
  check.require(max_distance > exact, "max_distance must be above ", exact, ", as the first ",
                exact, " of ", buckets, " buckets hold one distance each; got ", max_distance);
  check.done();
}

bool T5::bidirectional_for(const Call& call) const {
  return bidirectional == Bidirectional::kAuto ? !call.causal
                                               : bidirectional == Bidirectional::kYes;
}

void T5::check(const Call& call) const {
  const bool both = bidirectional_for(call);
  const int64_t side = both ? buckets / 2 : buckets;
  Check check(name());
  check.require(side >= 2 && max_distance > side / 2, both ? "a bidirectional" : "a causal",
                " call has ", side, " buckets a side, ", side / 2,
                " of them for one distance each; max_distance must be above that, got ",
                max_distance);
  check.done();
}

void T5::fit(const Fitting& to) {
  const int64_t parts = bidirectional == Bidirectional::kYes ? 4 : 2;  // buckets / exact buckets
  if (to.free("max_distance")) {
    max_distance = std::clamp<int64_t>(to.train_length / 2, 3, kMaxDistance);
    // Buckets that were asked for need their room, though training may not reach the last ones.
    if (!to.free("buckets")) max_distance = std::max(max_distance, buckets / parts + 1);
  }
  if (!to.free("buckets")) return;
  while (buckets / 2 >= 4 && buckets / parts >= max_distance) buckets /= 2;
}

// 1. nothing  2. nothing

// 3. table[bucket(j - i)][head] outside the scale
void T5::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  terms.number =
      NumberPerDistance<double>{false,
                                index(bidirectional_for(call)),
                                numbers_of_heads(parameters[kTable], heads, buckets, call),
                                {},
                                {}};
}

void T5::score_backward(const Call& call, const Parameters&, const Terms<double>& gradient,
                        ParameterGradients& gradients) const {
  add_numbers_of_heads(gradient.number->table, heads, call, gradients[kTable]);
}

// 4. nothing

// 5. The last bucket has no end.
std::vector<ParameterSpec> T5::learn(const Sizes& sizes) const {
  ParameterSpec spec{.name = kTable, .init = ParameterSpec::Init::kNormal};
  spec.shape = {buckets, heads == Sharing::kEach ? sizes.heads : 1};
  spec.scale = 1 / std::sqrt(static_cast<double>(sizes.width));
  spec.per_layer = layers == Sharing::kEach;
  return {spec};
}

}  // namespace locant
