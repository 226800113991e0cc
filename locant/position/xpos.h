// xPos (Sun et al. 2022, arXiv 2212.10554): RoPE whose pairs also fade with distance.
//   zeta_t = (2t/D + gamma) / (1 + gamma),  q *= zeta^(p/512),  k *= zeta^(-p/512)
// so a pair's score gains zeta_t^((i - j)/512): it decays towards the past and, without a causal
// mask, grows towards the future. Scales come from absolute positions, in cached steps too.
// The middle of the positions may be moved (center): scores do not change, but the scales stay in
// range. Even so they leave single precision at a length that depends on scale_base: an error.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Xpos final : public Scheme {
 public:
  using Scheme::check;

  std::string name() const override { return "xpos"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check(const Call& call) const override;
  std::optional<Rotation> turn(const Call& call) const override;
  bool same_in_every_layer() const override { return true; }

  double base = 10000;
  double scale_base = 512;
  double gamma = 0.4;
  Rotation::Layout layout = Rotation::Layout::kInterleaved;  // as in torchscale
  int64_t center = -1;  // position of scale 1; -1 = the middle of the sequence

 private:
  int64_t center_of(const Call& call) const { return center < 0 ? call.length / 2 : center; }
};

}  // namespace locant
