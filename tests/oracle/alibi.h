#pragma once

// The oracle: ALiBi (Press 2021).

#include "tests/oracle/matrix.h"

namespace locant::oracle {

// 2^(-max (h + 1) / H) for a power of two; otherwise the list of the largest power of two below,
// then every second one of the list of twice that.
inline std::vector<double> alibi_slopes(int heads, double max_exponent = 8) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int h = 0; h < power; ++h) slopes.push_back(std::pow(2.0, -max_exponent * (h + 1) / power));
  for (int h = 0; power + h < heads; ++h) {
    slopes.push_back(std::pow(2.0, -max_exponent * (2 * h + 1) / (2.0 * power)));
  }
  return slopes;
}

enum class AlibiForm {
  kCausal,     // -m (i - j): used with j <= i
  kSymmetric,  // -m |i - j|
  kDeepMind,   // past -m (|i - j| - 1/2), future -m |i - j|
};

inline Matrix alibi_bias(double slope, AlibiForm form, const Positions& queries,
                         const Positions& keys) {
  Matrix bias(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int a = 0; a < bias.rows; ++a) {
    for (int b = 0; b < bias.cols; ++b) {
      const double back = static_cast<double>(queries[static_cast<std::size_t>(a)] -
                                              keys[static_cast<std::size_t>(b)]);
      if (form == AlibiForm::kCausal) bias(a, b) = -slope * back;
      if (form == AlibiForm::kSymmetric) bias(a, b) = -slope * std::fabs(back);
      if (form == AlibiForm::kDeepMind) {
        bias(a, b) = back > 0 ? -slope * (back - 0.5) : -slope * std::fabs(back);
      }
    }
  }
  return bias;
}

}  // namespace locant::oracle
