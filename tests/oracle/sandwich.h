#pragma once

// The oracle: Sandwich (Chi 2022) as in NeMo:
// b = ( sum_{t=1..D/2} cos((i - j) / 10000^(2t/D)) - D/2 ) H / (8 h), h = 1 ... H.

#include "tests/oracle/matrix.h"

namespace locant::oracle {

// head counts from 0.
inline double sandwich(std::int64_t back, int width, int head, int heads, double base = 10000) {
  double sum = 0;
  for (int t = 1; t <= width / 2; ++t) {
    sum += std::cos(static_cast<double>(back) / std::pow(base, 2.0 * t / width));
  }
  return (sum - width / 2) * heads / (8.0 * (head + 1));
}

inline Matrix sandwich_bias(int width, int head, int heads, const Positions& queries,
                            const Positions& keys, double base = 10000) {
  Matrix bias(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < bias.rows; ++i) {
    for (int j = 0; j < bias.cols; ++j) {
      bias(i, j) = sandwich(queries[static_cast<std::size_t>(i)] -
                                keys[static_cast<std::size_t>(j)],
                            width, head, heads, base);
    }
  }
  return bias;
}

}  // namespace locant::oracle
