// A plain bf16 computation, as a number type for the twin: sums in float, and whatever is stored
// (scores, probabilities, their gradients, turned rows, results) rounded to bf16. What precision
// tests of bf16 measure against. run_twin keeps the lse of its forward in float, as everybody does.
#pragma once

#include <cmath>

#include "locant/base/bf16.h"

namespace locant::test {

struct Plain {
  float value = 0;
  float exact = 0;  // before it was stored

  Plain() = default;
  explicit Plain(double x) : value(static_cast<float>(x)) {}
  Plain(const Plain&) = default;
  Plain& operator=(const Plain& other) {
    exact = other.value;
    value = to_float(to_bf16(exact));
    return *this;
  }
  Plain& operator+=(const Plain& y) { return value += y.value, *this; }
  Plain& operator*=(const Plain& y) { return *this = Plain(value * y.value); }
  friend Plain operator+(const Plain& x, const Plain& y) { return Plain(x.value + y.value); }
  friend Plain operator-(const Plain& x, const Plain& y) { return Plain(x.value - y.value); }
  friend Plain operator*(const Plain& x, const Plain& y) { return Plain(x.value * y.value); }
};

inline Plain operator/(const Plain& x, const Plain& y) { return Plain(x.value / y.value); }
inline double real_part(const Plain& x) { return x.value; }
inline Plain exp(const Plain& x) { return Plain(std::exp(x.value)); }
inline Plain log(const Plain& x) { return Plain(std::log(x.value)); }
inline Plain tanh(const Plain& x) { return Plain(std::tanh(x.value)); }

}  // namespace locant::test
