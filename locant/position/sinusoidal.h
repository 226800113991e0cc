// Sinusoidal positions (Vaswani et al. 2017, arXiv 1706.03762), added to the embeddings:
//   angle(p, t) = p / base^(2t/D),  PE(p) = sin and cos of each angle,  x_p += amplitude * PE(p)
// Three incompatible layouts are in use (D = width of the model):
//   interleaved    sin, cos, sin, cos, ...          the paper; odd D ends with a sine
//   concatenated   ceil(D/2) sines, then cosines    Transformer-XL, XLNet, RoFormer
//   tensor2tensor  floor(D/2) sines, then cosines, odd D: a zero; the exponent is t / (D/2 - 1), so
//                  other frequencies: the last is exactly 1/base    tensor2tensor, fairseq
// The first two hold the same numbers in another order; loading one as the other fails silently.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Sinusoidal final : public Scheme {
 public:
  enum class Layout { kInterleaved, kConcatenated, kTensor2Tensor };

  std::string name() const override { return "sinusoidal"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  // Sets the amplitude so that rows and token embeddings have the same root mean square.
  void fit(const Fitting& to) override;
  bool embeds() const override { return true; }
  // Throws std::invalid_argument for a negative position.
  void embed(const int64_t* positions, int64_t n, const Sizes& sizes, const Parameters& parameters,
             double* rows) const override;
  bool same_in_every_layer() const override { return true; }

  Layout layout = Layout::kInterleaved;
  double base = 10000;
  // The paper multiplies the embeddings by sqrt(D) and adds PE as it is; most code does neither.
  double amplitude = 1;
};

// Radians per position of the sine/cosine pairs at a width: ceil(width/2) numbers, floor in
// tensor2tensor.
std::vector<double> sinusoidal_frequencies(int64_t width, double base, Sinusoidal::Layout layout);

}  // namespace locant
