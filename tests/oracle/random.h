#pragma once

// The oracle: seeded numbers that are the same on every machine (splitmix64), apart from the
// library's own generator.

#include <cstdint>

#include "tests/oracle/matrix.h"

namespace locant::oracle {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // [0, 1)
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  // [low, high)
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // low ... high, both possible
  int integer(int low, int high) {
    return low + static_cast<int>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return unit() < probability; }
  // About normal: sum of twelve uniforms.
  double normal() {
    double sum = -6;
    for (int n = 0; n < 12; ++n) sum += unit();
    return sum;
  }

 private:
  std::uint64_t state_;
};

inline Matrix random_matrix(Rng& rng, int rows, int cols, double scale = 1) {
  Matrix result(rows, cols);
  for (double& x : result.values) x = scale * rng.normal();
  return result;
}

inline std::vector<double> random_numbers(Rng& rng, int count, double scale = 1) {
  return random_matrix(rng, 1, count, scale).values;
}

}  // namespace locant::oracle
