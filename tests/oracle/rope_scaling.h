#pragma once

// The oracle: published scalings of the rotary frequencies. r = rotary width, f = factor,
// O = original length.

#include <algorithm>

#include "tests/oracle/rope.h"

namespace locant::oracle {

inline constexpr double kPi = 3.14159265358979323846;

// Position interpolation (2306.15595): theta / f.
inline std::vector<double> rope_linear(int r, double base, double factor) {
  std::vector<double> theta = rope_frequencies(r, base);
  for (double& t : theta) t /= factor;
  return theta;
}

inline double ntk_base(int r, double base, double factor) {
  return base * std::pow(factor, static_cast<double>(r) / (r - 2));
}

inline double dynamic_ntk_base(int r, double base, double factor, double original, double length) {
  const double n = std::max(length, original);
  return base * std::pow(factor * n / original - (factor - 1), static_cast<double>(r) / (r - 2));
}

// YaRN (2309.00071).
struct Yarn {
  double factor = 1;
  double original = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
};

// Pair (a real number) that makes `turns` turns over the original length.
inline double yarn_pair(int r, double base, double original, double turns) {
  return r * std::log(original / (turns * 2 * kPi)) / (2 * std::log(base));
}

inline std::pair<double, double> yarn_range(int r, double base, const Yarn& yarn) {
  double low = yarn_pair(r, base, yarn.original, yarn.beta_fast);
  double high = yarn_pair(r, base, yarn.original, yarn.beta_slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  return {std::max(low, 0.0), std::min(high, static_cast<double>(r - 1))};
}

inline std::vector<double> rope_yarn(int r, double base, const Yarn& yarn) {
  auto [low, high] = yarn_range(r, base, yarn);
  if (low == high) high += 0.001;
  std::vector<double> theta = rope_frequencies(r, base);
  for (std::size_t t = 0; t < theta.size(); ++t) {
    const double ramp =
        std::min(1.0, std::max(0.0, (static_cast<double>(t) - low) / (high - low)));
    theta[t] = theta[t] / yarn.factor * ramp + theta[t] * (1 - ramp);
  }
  return theta;
}

// .1 a ln f + 1, 1 when f <= 1.
inline double yarn_mscale(double factor, double a = 1.0) {
  return factor <= 1 ? 1.0 : 0.1 * a * std::log(factor) + 1.0;
}

// Llama 3.
inline std::vector<double> rope_llama3(int r, double base, double factor, double low_factor,
                                       double high_factor, double original) {
  std::vector<double> theta = rope_frequencies(r, base);
  for (double& t : theta) {
    const double wavelength = 2 * kPi / t;
    if (wavelength < original / high_factor) continue;
    if (wavelength > original / low_factor) {
      t /= factor;
    } else {
      const double smooth = (original / wavelength - low_factor) / (high_factor - low_factor);
      t = (1 - smooth) * t / factor + smooth * t;
    }
  }
  return theta;
}

// LongRoPE (2402.13753), Phi-3: theta / e, e the short list up to the original length.
inline std::vector<double> rope_long(int r, double base, const std::vector<double>& short_factors,
                                     const std::vector<double>& long_factors, double original,
                                     double length) {
  const std::vector<double>& e = length > original ? long_factors : short_factors;
  std::vector<double> theta = rope_frequencies(r, base);
  for (std::size_t t = 0; t < theta.size(); ++t) theta[t] /= e.at(t);
  return theta;
}

inline double rope_long_magnitude(double max_position, double original) {
  const double factor = max_position / original;
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

// Llama-4, layers without rotation: 1 + .1 ln(1 + floor((p + 1) / 8192)).
inline double llama4_query_factor(std::int64_t position) {
  return 1 + 0.1 * std::log(1 + std::floor(static_cast<double>(position + 1) / 8192));
}

}  // namespace locant::oracle
