// Gradients against finite differences in double, with a tolerance that comes from the differences
// themselves: how much they change when the step is halved, and the rounding of what was differenced.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "locant/base/random.h"
#include "tests/oracle/finite_difference.h"
#include "tests/oracle/tolerance.h"

namespace locant::train {

struct Derivative {
  double value = 0, error = 0;
};

// d f() / d x. magnitude: sum of the absolute values that f adds up; operations: roundings on the way
// from x to f, which add up at worst.
template <class F>
Derivative differentiate(F&& f, double& x, double magnitude, double operations) {
  constexpr double kStep = 1e-3;
  const double coarse = oracle::derivative(f, x, 2 * kStep);
  const double fine = oracle::derivative(f, x, kStep);
  const double rounding = operations * oracle::kEpsDouble * magnitude / (kStep / 2);
  return {fine, std::fabs(coarse - fine) + rounding};
}

// Every element of x, or every `stride`-th.
template <class F>
void expect_gradient(const std::string& name, F&& f, std::vector<double>& x,
                     const std::vector<double>& gradient, double magnitude, double operations,
                     size_t stride = 1) {
  ASSERT_EQ(x.size(), gradient.size()) << name;
  for (size_t i = 0; i < x.size(); i += stride) {
    const Derivative want = differentiate(f, x[i], magnitude, operations);
    EXPECT_LE(std::fabs(gradient[i] - want.value), want.error)
        << name << '[' << i << "]: got " << gradient[i] << ", want " << want.value;
  }
}

inline std::vector<double> random_numbers(int64_t n, uint64_t stream, double deviation = 1,
                                          double mean = 0) {
  Random random(20261129, stream);
  std::vector<double> numbers(static_cast<size_t>(n));
  for (double& number : numbers) number = mean + deviation * random.normal();
  return numbers;
}

// sum over i of weights[i] values[i]: what the tests of single layers differentiate.
inline double weighted(const std::vector<double>& weights, const double* values) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * values[i];
  return sum;
}
inline double magnitude_of(const std::vector<double>& weights, const double* values) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += std::fabs(weights[i] * values[i]);
  return sum;
}

}  // namespace locant::train
