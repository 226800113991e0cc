#pragma once

// The oracle: rotary positions (Su 2021) by complex numbers. Frequencies come from outside
// (rope_scaling.h).

#include <complex>

#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class RopeLayout {
  kInterleaved,  // pairs (2t, 2t + 1): RoFormer, GPT-J, LLaMA's own weights
  kHalfSplit,    // pairs (t, t + r/2): GPT-NeoX, transformers' Llama
};

// base^(-2t/r), t = 0 ... r/2 - 1.
inline std::vector<double> rope_frequencies(int rotary_width, double base) {
  std::vector<double> theta;
  for (int t = 0; t < rotary_width / 2; ++t) {
    theta.push_back(std::pow(base, -2.0 * t / rotary_width));
  }
  return theta;
}

// Turns each row of x at its position; channels past 2 theta.size() pass through. `magnitude`
// multiplies cosine and sine (YaRN, LongRoPE).
inline Matrix rope(const Matrix& x, const Positions& positions, const std::vector<double>& theta,
                   RopeLayout layout, double magnitude = 1.0) {
  const int pairs = static_cast<int>(theta.size());
  Matrix result = x;
  for (int n = 0; n < x.rows; ++n) {
    for (int t = 0; t < pairs; ++t) {
      const int first = layout == RopeLayout::kInterleaved ? 2 * t : t;
      const int second = layout == RopeLayout::kInterleaved ? 2 * t + 1 : t + pairs;
      const double angle = static_cast<double>(positions[static_cast<std::size_t>(n)]) *
                           theta[static_cast<std::size_t>(t)];
      const std::complex<double> turned =
          std::complex<double>(x(n, first), x(n, second)) * std::polar(magnitude, angle);
      result(n, first) = turned.real();
      result(n, second) = turned.imag();
    }
  }
  return result;
}

// Turned q times turned k, [queries][keys].
inline Matrix rope_scores(const Matrix& q, const Matrix& k, const Positions& queries,
                          const Positions& keys, const std::vector<double>& theta,
                          RopeLayout layout, double magnitude = 1.0) {
  return times_transposed(rope(q, queries, theta, layout, magnitude),
                          rope(k, keys, theta, layout, magnitude));
}

}  // namespace locant::oracle
