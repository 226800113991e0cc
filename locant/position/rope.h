// RoPE (Su et al. 2021, RoFormer, arXiv 2104.09864): queries and keys turn with their position.
//   theta_t = base^(-2t/r),  (a, b) -> (a cos p theta - b sin p theta, a sin p theta + b cos p
//   theta)
// so a score depends on j - i alone. r = rotary width: the first r of the head's channels turn, the
// others pass through, and theta is made from r and not from the head size.
// Layouts: half-split pairs (t, t + r/2): GPT-NeoX, Llama and most others in transformers' format;
//          interleaved pairs (2t, 2t + 1): RoFormer, GPT-J, Llama in Meta's format, DeepSeek.
// Scalings: rope_scaling.h. Layers may go without (SmolLM3, Llama-4) or have a base of their own
// (Gemma-3, ModernBERT).
#pragma once

#include "locant/position/rope_scaling.h"
#include "locant/position/scheme.h"

namespace locant {

class Rope final : public Scheme {
 public:
  using Scheme::check;
  // leading: the first r channels turn among themselves. proportional (Gemma-4): pairs span the
  // whole head, (t, t + D/2), theta is made from D, and all but the first r/2 pairs stand still.
  enum class Partial { kLeading, kProportional };

  std::string name() const override { return "rope"; }
  Description describe() const override;
  void options(OptionVisitor& visit) override;
  void check() const override;
  void check(const Call& call) const override;
  // "pi", "ntk" and "yarn", for a model trained without scaling.
  std::vector<Variant> test_time_variants(double factor, int64_t original) const override;
  std::optional<Rotation> turn(const Call& call) const override;
  void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const override;
  bool same_in_every_layer() const override {
    return rotate_layers.empty() && local_layers.empty();
  }

  double base = 10000;
  int64_t width = 0;  // r; 0 = share * head size
  double share = 1;   // of the head's channels (partial_rotary_factor, rotary_pct)
  Partial partial = Partial::kLeading;
  Rotation::Layout layout = Rotation::Layout::kHalfSplit;
  RopeScaling scaling;
  // Patterns over layers, repeated: 1 turns, 0 is a layer without positions (no_rope_layers of
  // SmolLM3 and Llama-4, where 1 also means "turns"). Empty = all turn.
  std::vector<double> rotate_layers;
  // 1 = a sliding-window layer, which has local_base and no scaling. Empty = none.
  std::vector<double> local_layers;
  double local_base = 10000;

 private:
  int64_t rotary_width(int64_t head_size) const;
  bool rotates(int layer) const;
  bool is_local(int layer) const;
};

// Where to take the rows of a head's query or key projection from when its layout changes:
// new row n = old row order[n]. Only the first `width` rows move.
std::vector<int64_t> rotary_row_order(int64_t head_size, int64_t width, Rotation::Layout from,
                                      Rotation::Layout to);

// The same for a whole weight [heads * head_size][row_size], in place; a bias has row_size 1. Keys
// of grouped heads have fewer heads than queries: give their own number.
template <class T>
void convert_rotary_rows(T* weight, int64_t heads, int64_t head_size, int64_t row_size,
                         int64_t width, Rotation::Layout from, Rotation::Layout to) {
  const std::vector<int64_t> order = rotary_row_order(head_size, width, from, to);
  const int64_t head_numbers = head_size * row_size;
  for (int64_t h = 0; h < heads; ++h) {
    T* head = weight + h * head_numbers;
    const std::vector<T> old(head, head + head_numbers);
    for (int64_t r = 0; r < head_size; ++r) {
      const int64_t source = order[static_cast<size_t>(r)] * row_size;
      for (int64_t c = 0; c < row_size; ++c) {
        head[r * row_size + c] = old[static_cast<size_t>(source + c)];
      }
    }
  }
}

}  // namespace locant
