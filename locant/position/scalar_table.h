// A learned number per distance, clipped to [-K, K]: the plainest learned bias,
//   score_ij = q_i . k_j * scale + t[clip(j - i, -K, K) + K][head]     outside the scale
// 2K + 1 rows; row 0: K or more to the left (order=i-j: to the right). Causal models use only the
// half of the rows that stand for keys to the left, and the own place.
#pragma once

#include "locant/position/distance.h"
#include "locant/position/scheme.h"

namespace locant {

class ScalarTable final : public Scheme {
 public:
  std::string name() const override { return "scalar_table"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  // clip = train_length - 1: one number for each distance in training.
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  int64_t clip = 128;  // K
  Order order = Order::kKeyMinusQuery;
  Sharing heads = Sharing::kEach, layers = Sharing::kShared;
};

}  // namespace locant
