// Sandwich (Chi et al. 2022, arXiv 2212.10356): the part of sinusoidal positions that falls with
// distance, as a fixed bias outside the scale:
//   score_ij += ( sum_{t=1..D/2} cos((i - j) / base^(2t/D)) - D/2 ) H / (8 h),   h = 1 .. H
// The exponent starts at t = 1, as in NeMo, and not at 0. D is the head size unless given.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Sandwich final : public Scheme {
 public:
  using Scheme::check;

  std::string name() const override { return "sandwich"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check(const Call& call) const override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  bool same_in_every_layer() const override { return true; }

  double base = 10000;
  int64_t width = 0;  // D; 0 = the head size

 private:
  int64_t width_of(const Call& call) const { return width > 0 ? width : call.sizes.head_size; }
};

}  // namespace locant
