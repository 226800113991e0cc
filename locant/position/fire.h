// FIRE (Li et al. 2023, arXiv 2310.04418): functional interpolation for relative positions. A small
// network reads the distance, bent by a logarithm and divided by that of the query's own position, so
// that what it learned holds at any length; outside the scale:
//   score_ij += MLP_h( psi(i - j) / (psi(max(i, L)) + 1e-6) ),   psi(x) = ln(|c x| + 1)
// MLP: 1 -> hidden -> one number a head, ReLU between. c, and L as a multiple of `length`, are learned.
// It depends on i and not only on j - i, so it is a tile hook (tile_hook.h) and no term. The network is
// piecewise linear in its one input: a query walks over the pieces, and a key costs one multiplication.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Fire final : public Scheme {
 public:
  using Scheme::check;
  std::string name() const override { return "fire"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check(const Call& call) const override;
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  double length = 512;
  int64_t hidden = 32;
  Sharing layers = Sharing::kEach;
};

}  // namespace locant
