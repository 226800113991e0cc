// KERPLE (Chi et al. 2022, arXiv 2205.09921): a learned penalty by conditionally positive definite
// kernels of the distance n = |i - j|, outside the scale:
//   log    score_ij += -p_h ln(1 + a_h n)
//   power  score_ij += -a_h n^p_h            (ALiBi is p = 1)
// p and a are positive: at least .01, in power p at most 2. As in the released code a number beyond
// its bound is used as the bound, yet a gradient that leads it back is kept.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Kerple final : public Scheme {
 public:
  using Scheme::check;
  enum class Variant { kLog, kPower };

  std::string name() const override { return "kerple"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check(const Call& call) const override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  Variant variant = Variant::kLog;
  Sharing layers = Sharing::kShared;  // the released code makes one pair of arrays for all layers
};

}  // namespace locant
