// MPNet (Song et al. 2020, arXiv 2004.09297): T5's biases in an encoder. Always bidirectional, 32
// buckets to distance 128, added after the usual 1/sqrt(d), one table for all layers. The model has
// learned absolute positions besides.
#pragma once

#include "locant/position/t5.h"

namespace locant {

class Mpnet final : public T5 {
 public:
  Mpnet() { bidirectional = Bidirectional::kYes; }
  std::string name() const override { return "mpnet"; }
  Description describe() const override;
};

}  // namespace locant
