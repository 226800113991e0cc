#pragma once

// The oracle: derivatives by central differences in double with one Richardson step:
// error O(h^4) and rounding about eps |f| / h, so near 1e-10 for well-scaled functions.

#include <algorithm>
#include <cmath>
#include <vector>

namespace locant::oracle {

// d f() / d x, where f reads x by reference. x is put back.
template <class Function>
double derivative(Function&& f, double& x, double relative_step = 2e-3) {
  const double kept = x;
  const double h = relative_step * std::max(1.0, std::fabs(kept));
  const auto central = [&](double step) {
    const double high = kept + step;
    const double low = kept - step;
    x = high;
    const double above = f();
    x = low;
    const double below = f();
    x = kept;
    return (above - below) / (high - low);
  };
  return (4 * central(h / 2) - central(h)) / 3;
}

// One derivative per element of x.
template <class Function>
std::vector<double> gradient(Function&& f, std::vector<double>& x, double relative_step = 2e-3) {
  std::vector<double> result;
  for (double& element : x) result.push_back(derivative(f, element, relative_step));
  return result;
}

}  // namespace locant::oracle
