// Learned absolute positions (BERT, arXiv 1810.04805; GPT-2, RoBERTa, OPT): a table of rows, added
// to the embeddings:  x_p += rows[first_row + p].  Which p a token has is position_ids.h.
// Beyond the table there is no row: an error that names both lengths, never a silent clamp. An
// evaluation that must go on may ask for the last row again (beyond=repeat), and should say so.
#pragma once

#include "locant/position/scheme.h"

namespace locant {

class Learned final : public Scheme {
 public:
  enum class Beyond { kError, kRepeat };

  std::string name() const override { return "learned"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  void fit(const Fitting& to) override;
  int64_t table_length() const override { return rows - first_row; }
  bool repeats_last_row() const override { return beyond == Beyond::kRepeat; }
  bool embeds() const override { return true; }
  // Throws std::invalid_argument for a position outside [0, table_length()).
  void embed(const int64_t* positions, int64_t n, const Sizes& sizes, const Parameters& parameters,
             double* out) const override;
  void embed_backward(const int64_t* positions, int64_t n, const Sizes& sizes,
                      const double* rows_gradient, ParameterGradients& gradients) const override;
  std::vector<ParameterSpec> learn(const Sizes& sizes) const override;
  bool same_in_every_layer() const override { return true; }

  int64_t rows = 512;
  int64_t first_row = 0;  // row of position 0: 2 in RoBERTa (padding 1) and OPT
  Beyond beyond = Beyond::kError;
  double deviation = 0.02;

 private:
  int64_t row_of(int64_t position) const;
};

}  // namespace locant
