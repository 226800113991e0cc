#pragma once

// The oracle: T5 buckets (Raffel 2019), by each of the roundings found in released code.

#include <algorithm>
#include <limits>

#include "tests/oracle/exact.h"
#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class T5Rule {
  kExact,         // whole numbers
  kTorchFloat32,  // transformers, mesh: float32 throughout
  kEpsFloat32,    // flaxformer: float32 with its epsilon inside the logarithm
  kFloat64,
};

// The part above max_exact: trunc( ln(n/max_exact) / ln(max_distance/max_exact) * steps ).
inline int t5_log_steps(int n, int max_exact, int max_distance, int steps, T5Rule rule) {
  if (rule == T5Rule::kExact) {
    // Largest t <= steps with (n/max_exact)^steps >= (max_distance/max_exact)^t, by halving.
    int yes = 0;
    int no = steps + 1;
    while (no - yes > 1) {
      const int t = (yes + no) / 2;
      (compare_powers(n, steps, max_distance, t, max_exact) >= 0 ? yes : no) = t;
    }
    return yes;
  }
  const double ratio = static_cast<double>(max_distance) / max_exact;
  if (rule == T5Rule::kFloat64) {
    return static_cast<int>(std::log(static_cast<double>(n) / max_exact) / std::log(ratio) * steps);
  }
  float x = static_cast<float>(n) / static_cast<float>(max_exact);
  if (rule == T5Rule::kEpsFloat32) x += std::numeric_limits<float>::epsilon();
  float y = std::log(x);
  y = y / static_cast<float>(std::log(ratio));
  y = y * static_cast<float>(steps);
  return static_cast<int>(y);
}

// distance = j - i.
inline int t5_bucket(std::int64_t distance, int buckets, int max_distance, bool bidirectional,
                     T5Rule rule) {
  int side = buckets;
  int bucket = 0;
  std::int64_t n = 0;
  if (bidirectional) {
    side = buckets / 2;
    if (distance > 0) bucket += side;  // keys to the right: the upper half
    n = distance < 0 ? -distance : distance;
  } else {
    n = distance < 0 ? -distance : 0;  // keys to the right fall in bucket 0
  }
  const int max_exact = side / 2;
  if (n < max_exact) return bucket + static_cast<int>(n);
  // Far beyond the maximum distance everything is the last bucket; keeps the numbers small.
  if (n > 4 * static_cast<std::int64_t>(max_distance)) return bucket + side - 1;
  const int steps =
      t5_log_steps(static_cast<int>(n), max_exact, max_distance, side - max_exact, rule);
  return bucket + std::min(max_exact + steps, side - 1);
}

inline IndexMatrix t5_index(const Positions& queries, const Positions& keys, int buckets,
                            int max_distance, bool bidirectional, T5Rule rule) {
  IndexMatrix index(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int a = 0; a < index.rows; ++a) {
    for (int b = 0; b < index.cols; ++b) {
      index(a, b) = t5_bucket(
          keys[static_cast<std::size_t>(b)] - queries[static_cast<std::size_t>(a)], buckets,
          max_distance, bidirectional, rule);
    }
  }
  return index;
}

}  // namespace locant::oracle
