// Music Transformer (Huang et al. 2018, arXiv 1809.04281): Shaw's keys without clipping, causal,
//   score_ij = q_i . (k_j + E[P - 1 - (i - j)]) / sqrt(d)   for j <= i, inside the scale
// E has P rows, the last one for the query's own place, so a longer table grows at its front.
// Distances of P and more add nothing (rows of zeros). The paper computes this by skewing Q E^T,
// whose entries with j > i are left-overs: without a causal mask the scheme is undefined and
// refuses.
#pragma once

#include "locant/position/distance.h"
#include "locant/position/scheme.h"

namespace locant {

class MusicTransformer final : public Scheme {
 public:
  std::string name() const override { return "music_transformer"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  // Throws std::invalid_argument for a call without a causal mask.
  void check(const Call& call) const override;
  // One row for each distance in training.
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  void value(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void value_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  int64_t rows = 1024;  // P
  bool values = false;  // rows on values too
  Sharing heads = Sharing::kShared, layers = Sharing::kEach;
};

}  // namespace locant
