// Shaw's relative representations (Shaw et al. 2018, arXiv 1803.02155): learned rows by distance,
//   score_ij = q_i . (k_j + aK[r]) / sqrt(d)      inside the scale
//   out_i    = sum_j p_ij (v_j + aV[r])           optional
//   r = clip(j - i, -k, k) + k                    2k + 1 rows; row 0: k or more to the left
// Options also express its relatives (docs/schemes/shaw.md): SpeechT5, wav2vec2-BERT, BERT's
// relative_key and relative_key_query, VITS.
#pragma once

#include "locant/position/distance.h"
#include "locant/position/scheme.h"

namespace locant {

class Shaw final : public Scheme {
 public:
  enum class On { kKeys, kValues, kBoth };
  enum class Outside { kClip, kZero, kRefuse };

  std::string name() const override { return "shaw"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  // Throws std::invalid_argument for outside=refuse and a distance outside the window.
  void check(const Call& call) const override;
  // k at most train_length - 1: no row is left untrained.
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  void value(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void value_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return layers == Sharing::kShared; }

  // Distances with a row of their own: window_left() keys to the left, window_right() to the right.
  int64_t window_left() const { return left < 0 ? k : left; }
  int64_t window_right() const { return right < 0 ? k : right; }
  IndexMap index() const;

  On on = On::kBoth;
  bool times_key = false;  // the rows of the keys' table also times k_j (relative_key_query)
  int64_t k = 16, left = -1, right = -1;
  Outside outside = Outside::kClip;
  Order order = Order::kKeyMinusQuery;
  Sharing heads = Sharing::kShared, layers = Sharing::kEach;
};

}  // namespace locant
