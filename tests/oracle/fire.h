#pragma once

// The oracle: FIRE (Li 2023).
// b = MLP( psi(i - j) / (psi(max(i, L)) + eps) ), psi(x) = ln(|c x| + 1),
// MLP 1 -> hidden -> 1 (this head) with ReLU.

#include <algorithm>

#include "tests/oracle/matrix.h"

namespace locant::oracle {

struct Fire {
  double c = 0.1;
  double length = 512;
  double eps = 1e-6;
  std::vector<double> hidden_weight;
  std::vector<double> hidden_bias;
  std::vector<double> out_weight;
  double out_bias = 0;
};

inline double fire_psi(double c, double x) { return std::log(std::fabs(c * x) + 1); }

inline double fire_input(const Fire& fire, std::int64_t i, std::int64_t j) {
  const double scale = std::max(static_cast<double>(i), std::fabs(fire.length));
  return fire_psi(fire.c, static_cast<double>(i - j)) / (fire_psi(fire.c, scale) + fire.eps);
}

inline double fire_bias(const Fire& fire, std::int64_t i, std::int64_t j) {
  const double x = fire_input(fire, i, j);
  double result = fire.out_bias;
  for (std::size_t n = 0; n < fire.hidden_weight.size(); ++n) {
    result += fire.out_weight[n] * std::max(0.0, fire.hidden_weight[n] * x + fire.hidden_bias[n]);
  }
  return result;
}

}  // namespace locant::oracle
