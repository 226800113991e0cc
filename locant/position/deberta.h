// DeBERTa's disentangled attention (He et al. 2020, arXiv 2006.03654; v3: 2111.09543),
//   score_ij = [ q_i . k_j + q_i . Kr[r] + k_j . Qr[r] ] / sqrt(d (1 + number of position terms))
//   r = clamp(rel(i - j) + S, 0, 2S - 1),   Kr = W_k E + b_k,   Qr = W_q E + b_q
// E: one table [2S][width] of all layers. The paper prints the last term (p2c) with r(j, i); all
// released code and so all checkpoints use r(i, j), as here. Maps: position/distance.h.
//   version  rel               S             projections
//   v1       i - j             max_positions pos_proj.weight, pos_q_proj.{weight,bias}
//   v2 (v3)  log buckets       buckets       pos_key_proj, pos_query_proj.{weight,bias}, or with
//                                            share_att_key the layer's own key_proj, query_proj
#pragma once

#include "locant/position/distance.h"
#include "locant/position/scheme.h"

namespace locant {

class Deberta final : public Scheme {
 public:
  enum class Version { kV1, kV2 };
  enum class Attention { kC2p, kP2c, kBoth, kP2p };
  enum class Norm { kNone, kLayerNorm };

  std::string name() const override { return "deberta"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  // v1: max_positions = L. v2: max_positions = L and half as many buckets, the published
  // proportion. Either way the rows at the ends are reached in training.
  void fit(const Fitting& to) override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  void score_backward(const Call& call, const Parameters& parameters, const Terms<double>& gradient,
                      ParameterGradients& gradients) const override;
  // With share_att_key the caller binds the arrays key_proj and query_proj to the layer's own.
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;

  int64_t span() const { return version == Version::kV1 ? max_positions : buckets; }  // S
  bool has_c2p() const { return attention != Attention::kP2c; }
  bool has_p2c() const { return attention != Attention::kC2p; }
  IndexMap index() const;

  Version version = Version::kV2;
  Attention attention = Attention::kBoth;
  int64_t buckets = 256, max_positions = 512;
  LogRounding rounding = LogRounding::kExact;
  LogEdge edge = LogEdge::kTransformers;
  bool share_att_key = false;
  Norm norm_rel_ebd = Norm::kNone;
};

}  // namespace locant
