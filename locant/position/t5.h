// T5's bucketed biases (Raffel et al. 2019, arXiv 1910.10683), one number per head and bucket:
//   score_ij = q_i . k_j * scale + table[bucket(j - i)][head]     outside the scale
// One table serves all layers of a stack; cross attention has none. T5 itself runs with scale 1,
// which is the call's business and not the scheme's. Buckets: position/distance.h.
// Keys to the RIGHT of the query (j - i > 0) are in the upper half of a bidirectional table.
#pragma once

#include "locant/position/distance.h"
#include "locant/position/scheme.h"

namespace locant {

class T5 : public Scheme {
 public:
  enum class Bidirectional { kAuto, kYes, kNo };  // auto: yes unless the call is causal

  std::string name() const override { return "t5"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  void check(const Call& call) const override;
  // max_distance = train_length / 2; for short texts fewer buckets, so that none is left untrained.
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  bool bidirectional_for(const Call& call) const;
  IndexMap index(bool both_sides) const {
    return t5_map(buckets, max_distance, both_sides, rounding);
  }

  int64_t buckets = 32, max_distance = 128;
  Bidirectional bidirectional = Bidirectional::kAuto;
  BucketRounding rounding = BucketRounding::kExact;
  Sharing heads = Sharing::kEach, layers = Sharing::kShared;  // layers=each: UMT5
};

}  // namespace locant
