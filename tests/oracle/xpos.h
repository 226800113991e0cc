#pragma once

// The oracle: xPos (Sun 2022) as in torchscale: interleaved rotation, q times zeta^(p/512), k times
// zeta^(-p/512), zeta_t = (2t/d + .4) / 1.4.

#include "tests/oracle/rope.h"

namespace locant::oracle {

inline double xpos_zeta(int t, int width, double gamma = 0.4) {
  return (2.0 * t / width + gamma) / (1 + gamma);
}

inline double xpos_scale(int t, int width, double position, double scale_base = 512,
                         double gamma = 0.4) {
  return std::pow(xpos_zeta(t, width, gamma), position / scale_base);
}

// sign = +1 for queries, -1 for keys.
inline Matrix xpos(const Matrix& x, const Positions& positions, int sign, double base = 10000,
                   double scale_base = 512, double gamma = 0.4,
                   RopeLayout layout = RopeLayout::kInterleaved) {
  const std::vector<double> theta = rope_frequencies(x.cols, base);
  Matrix result = rope(x, positions, theta, layout);
  const int pairs = x.cols / 2;
  for (int n = 0; n < x.rows; ++n) {
    const double p = sign * static_cast<double>(positions[static_cast<std::size_t>(n)]);
    for (int t = 0; t < pairs; ++t) {
      const double scale = xpos_scale(t, x.cols, p, scale_base, gamma);
      const int first = layout == RopeLayout::kInterleaved ? 2 * t : t;
      const int second = layout == RopeLayout::kInterleaved ? 2 * t + 1 : t + pairs;
      result(n, first) *= scale;
      result(n, second) *= scale;
    }
  }
  return result;
}

}  // namespace locant::oracle
