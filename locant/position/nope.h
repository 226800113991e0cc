// NoPE: no positions at all (Kazemnejad et al. 2023, arXiv 2305.19466). Only the causal mask tells
// order. Without one, f(Px) = P f(x): permuted tokens give the same outputs, permuted.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Nope final : public Scheme {
 public:
  std::string name() const override { return "nope"; }
  Description describe() const override;
  bool same_in_every_layer() const override { return true; }
};

}  // namespace locant
