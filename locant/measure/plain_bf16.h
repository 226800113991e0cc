// A plain bf16 computation, as a number type for the twin: sums in float, and whatever is stored
// (scores, probabilities, their gradients, turned rows, results) rounded to bf16. What precision
// tests of bf16 measure against. Whoever runs it keeps the lse of the forward pass in float, as everybody
// does (`exact`).
#pragma once

#include <cmath>

#include "locant/base/bf16.h"

namespace locant::measure {

struct PlainBf16 {
  float value = 0;
  float exact = 0;  // before it was stored

  PlainBf16() = default;
  explicit PlainBf16(double x) : value(static_cast<float>(x)) {}
  PlainBf16(const PlainBf16&) = default;
  PlainBf16& operator=(const PlainBf16& other) {
    exact = other.value;
    value = to_float(to_bf16(exact));
    return *this;
  }
  PlainBf16& operator+=(const PlainBf16& y) { return value += y.value, *this; }
  PlainBf16& operator*=(const PlainBf16& y) { return *this = PlainBf16(value * y.value); }
  friend PlainBf16 operator+(const PlainBf16& x, const PlainBf16& y) { return PlainBf16(x.value + y.value); }
  friend PlainBf16 operator-(const PlainBf16& x, const PlainBf16& y) { return PlainBf16(x.value - y.value); }
  friend PlainBf16 operator*(const PlainBf16& x, const PlainBf16& y) { return PlainBf16(x.value * y.value); }
};

inline PlainBf16 operator/(const PlainBf16& x, const PlainBf16& y) { return PlainBf16(x.value / y.value); }
inline float widened(const PlainBf16& x) { return x.value; }
inline double real_part(const PlainBf16& x) { return x.value; }
inline PlainBf16 exp(const PlainBf16& x) { return PlainBf16(std::exp(x.value)); }
inline PlainBf16 log(const PlainBf16& x) { return PlainBf16(std::log(x.value)); }
inline PlainBf16 tanh(const PlainBf16& x) { return PlainBf16(std::tanh(x.value)); }

}  // namespace locant::measure
