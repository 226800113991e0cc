// A checked call: the facts every implementation needs of it (sizes, positions, final scale). Nothing is
// checked again from here on.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/attention/attention.h"

namespace locant::attention {

// Whether key position - query position is kept by the causal mask and the window. The one place
// where that rule is written for scalar code.
inline bool keeps(const Options& options, int64_t distance) {
  if (options.causal && distance > 0) return false;
  if (options.window.left >= 0 && distance < -options.window.left) return false;
  if (options.window.right >= 0 && distance > options.window.right) return false;
  return true;
}

// A checked call. Owns the default positions; views stay valid while it lives (also when moved).
struct Problem {
  int64_t B = 0, H = 0, Hk = 0, D = 0, Dv = 0;  // B: batch, or packed sequences
  int64_t Q = 0, K = 0;                         // packed: of the longest sequences
  double scale = 1;  // options.scale (default 1/sqrt(D)) times terms.scale_factor
  Options options;
  // Always given, [B, Q] and [B, K]; stride 0 over the batch where all sequences share them. Packed:
  // [1, total].
  View<const int64_t, 2> q_positions, k_positions;
  // Packed: sequence b is tokens [starts[b], starts[b + 1]). Empty: not packed.
  std::vector<int64_t> q_starts, k_starts;

  int64_t group() const { return H / Hk; }  // query heads per key head
  bool packed() const { return !q_starts.empty(); }
  // Where token 0 of sequence b stands in the arrays: [batch(b)][head][first + token].
  int64_t batch(int64_t b) const { return packed() ? 0 : b; }
  int64_t first_q(int64_t b) const { return packed() ? q_starts[static_cast<size_t>(b)] : 0; }
  int64_t first_k(int64_t b) const { return packed() ? k_starts[static_cast<size_t>(b)] : 0; }
  int64_t queries(int64_t b) const { return packed() ? first_q(b + 1) - first_q(b) : Q; }
  int64_t keys(int64_t b) const { return packed() ? first_k(b + 1) - first_k(b) : K; }
  int64_t q_position(int64_t b, int64_t i) const { return q_positions(batch(b), first_q(b) + i); }
  int64_t k_position(int64_t b, int64_t j) const { return k_positions(batch(b), first_k(b) + j); }

  Problem() = default;
  Problem(Problem&&) = default;
  Problem& operator=(Problem&&) = default;

 private:
  std::vector<int64_t> storage_;
  template <class T>
  friend Problem resolve(const Inputs<T>&, const Terms<Real<T>>&, const Options&);
};

// Sizes, positions and scale of a call, unchecked. T: float, Bf16, double, std::complex<double>.
template <class T>
Problem resolve(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options);

}  // namespace locant::attention
