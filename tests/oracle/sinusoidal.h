#pragma once

// The oracle: sinusoidal positions (Vaswani 2017) in the three layouts of published models.

#include <algorithm>

#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class SinusoidalLayout {
  kAlternating,    // paper: sin, cos, sin, cos; odd width ends with a sine
  kConcatenated,   // Transformer-XL, RoFormer: ceil(D/2) sines, then floor(D/2) cosines
  kTensor2Tensor,  // floor(D/2) sines, then cosines; last timescale exactly `base`; odd: a zero
};

// Frequency of pair t at width D.
inline double sinusoidal_frequency(int t, int width, double base, SinusoidalLayout layout) {
  if (layout == SinusoidalLayout::kTensor2Tensor) {
    const int last = std::max(width / 2 - 1, 1);
    return std::pow(base, -static_cast<double>(t) / last);
  }
  return std::pow(base, -2.0 * t / width);
}

// [positions][width]
inline Matrix sinusoidal(const Positions& positions, int width, double base,
                         SinusoidalLayout layout) {
  Matrix table(static_cast<int>(positions.size()), width);
  for (int n = 0; n < table.rows; ++n) {
    const double p = static_cast<double>(positions[static_cast<std::size_t>(n)]);
    for (int t = 0; t < (width + 1) / 2; ++t) {
      const double angle = p * sinusoidal_frequency(t, width, base, layout);
      if (layout == SinusoidalLayout::kAlternating) {
        table(n, 2 * t) = std::sin(angle);
        if (2 * t + 1 < width) table(n, 2 * t + 1) = std::cos(angle);
      } else {
        const bool odd_zero = layout == SinusoidalLayout::kTensor2Tensor;
        const int sines = odd_zero ? width / 2 : (width + 1) / 2;
        if (t < sines) table(n, t) = std::sin(angle);
        if (t < width / 2) table(n, sines + t) = std::cos(angle);
      }
    }
  }
  return table;
}

}  // namespace locant::oracle
