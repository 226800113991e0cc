// ALiBi (Press et al. 2021, arXiv 2108.12409): a penalty that grows with distance.
//   score_ij += -m_h |i - j|        outside the scale: not multiplied by 1/sqrt(D)
// Causal, only j <= i is left of it. Slopes for H heads, a power of two: m_h = 2^(-8 (h+1)/H). For
// other H: the list of the largest power of two below, then every second entry of the list of
// twice that, in this order. One formula for all H is wrong, and a common bug.
// Adding m j to every key of a row (BLOOM) or m (j - K + 1) (MPT) is the same after the softmax.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Alibi final : public Scheme {
 public:
  using Scheme::check;
  enum class Form { kSymmetric, kDeepMind };  // DeepMind: past -m (|i-j| - 1/2), future -m |i-j|
  enum class Slopes { kFixed, kLearned };

  std::string name() const override { return "alibi"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  void check(const Call& call) const override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  double max_exponent = 8;  // MPT's alibi_bias_max
  Form form = Form::kSymmetric;
  bool scaled = false;  // Falcon: inside the scale
  // Learned slopes start as the published ones and stay positive: m_h = published_h exp(x_h).
  Slopes slopes = Slopes::kFixed;
  Sharing layers = Sharing::kShared;

 private:
  std::vector<double> slopes_here(const Call& call, const Parameters& parameters) const;
};

// The published list. Exact where the exponent is whole.
std::vector<double> alibi_slopes(int64_t heads, double max_exponent = 8);

}  // namespace locant
