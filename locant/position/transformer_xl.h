// Transformer-XL (Dai et al. 2019, arXiv 1901.02860), XLNet and the conformer: with x = i - j,
//   score_ij = [ (q_i + u) . k_j + (q_i + v) . (W_R R_x) ] / sqrt(d)     all inside the scale
// R_x: sinusoids of the distance, not learned. Lowers to three terms: u on the content product, a
// number v . (W_R R_x) and a query row W_R R_x per distance. Keys of earlier segments are extra
// keys with positions of their own. Distances come from positions: there is no shift that could
// leave something behind.
//   style      sinusoids              distances    names
//   xl         sines, then cosines    x >= 0       r_w_bias r_r_bias r_net.weight; causal
//   xlnet      sines, then cosines    both sides   r_w_bias r_r_bias r [width][H][D]
//   conformer  alternating            both sides   pos_bias_u pos_bias_v linear_pos.weight
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class TransformerXl final : public Scheme {
 public:
  enum class Style { kXl, kXlnet, kConformer };
  enum class Untie { kAuto, kYes, kNo };  // auto: no for xl, yes for the others

  std::string name() const override { return "transformer_xl"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  // Throws std::invalid_argument for style=xl without a causal mask, and for more than 2^24
  // distances.
  void check(const Call& call) const override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;

  Style style = Style::kXl;
  // Distances beyond +-clamp_len count as clamp_len; 0: none.
  int64_t clamp_len = 0;
  double base = 10000;
  Untie untie_r = Untie::kAuto;  // u and v per layer, or shared by all
};

// R for the distances x = first, first - 1, ...: n rows of `width`, as the style lays them out.
std::vector<double> distance_sinusoids(int64_t first, int64_t n, int64_t width, double base,
                                       TransformerXl::Style style);

// The rule for same_length: each query sees its own place and the `memory` keys before it, so the
// first query of a segment still sees all of the memory. A window {left, 0} in positions.
inline int64_t same_length_left(int64_t memory) { return memory; }

}  // namespace locant
