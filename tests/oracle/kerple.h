#pragma once

// The oracle: KERPLE (Chi 2022). log: -p ln(1 + a n); power: -a n^p; n = |i - j|.

#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class KerpleForm { kLog, kPower };

inline double kerple(KerpleForm form, double p, double a, double n) {
  if (form == KerpleForm::kLog) return -p * std::log(1 + a * n);
  return n == 0 ? 0.0 : -a * std::pow(n, p);
}

inline Matrix kerple_bias(KerpleForm form, double p, double a, const Positions& queries,
                          const Positions& keys) {
  Matrix bias(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < bias.rows; ++i) {
    for (int j = 0; j < bias.cols; ++j) {
      const double n = std::fabs(static_cast<double>(queries[static_cast<std::size_t>(i)] -
                                                     keys[static_cast<std::size_t>(j)]));
      bias(i, j) = kerple(form, p, a, n);
    }
  }
  return bias;
}

}  // namespace locant::oracle
