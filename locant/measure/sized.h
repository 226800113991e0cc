// A number that knows how large the things were that it was made of: run the twin in it and every
// output and gradient comes with the magnitude its tolerance needs (tolerance.h).
// Rounding changes a result by at most about n eps size, to first order, whatever the order of
// sums: sums add sizes, products weigh them, and exp turns an absolute error into a relative one.
// Near the end of float's range errors are absolute: products and powers have a least size.
#pragma once

#include <cmath>

namespace locant::measure {

// A product below float's normal numbers is rounded to a multiple of 2^-149: half of that is 2^-127 eps.
inline constexpr double kDenormal = 0x1p-127;

struct Sized {
  double value = 0, size = 0;

  Sized() = default;
  Sized(double x) : value(x), size(std::fabs(x)) {}  // NOLINT: implicit, as from double to complex
  Sized(double value, double size) : value(value), size(size) {}

  Sized& operator+=(const Sized& y) { return *this = {value + y.value, size + y.size}; }
  bool is_zero() const { return value == 0 && size == 0; }  // masked, for instance: exactly
  Sized& operator*=(const Sized& y) {
    if (is_zero() || y.is_zero()) return *this = {value * y.value, 0};
    return *this = {value * y.value, size * std::fabs(y.value) + std::fabs(value) * y.size + kDenormal};
  }
  friend Sized operator+(Sized x, const Sized& y) { return x += y; }
  friend Sized operator-(const Sized& x, const Sized& y) {
    return {x.value - y.value, x.size + y.size};
  }
  friend Sized operator*(Sized x, const Sized& y) { return x *= y; }
  friend Sized operator/(const Sized& x, const Sized& y) {
    return x * Sized(1 / y.value, y.size / (y.value * y.value));
  }
};

// Rows of scores round independently of each other, and errors of either sign grow as the root of their number.
inline void add_apart(Sized& to, const Sized& x) { to = {to.value + x.value, std::hypot(to.size, x.size)}; }

inline double real_part(const Sized& x) { return x.value; }
// In float a power below 2^-126 may become 0, whatever the rest of a sum: that is 2^-103 eps.
inline constexpr double kUnderflow = 0x1p-103;
inline Sized exp(const Sized& x) {
  const double y = std::exp(x.value);
  return {y, y * (1 + x.size) + kUnderflow};
}
inline Sized log(const Sized& x) {
  return {std::log(x.value), std::fabs(std::log(x.value)) + x.size / x.value};
}
inline Sized tanh(const Sized& x) {
  const double y = std::tanh(x.value);
  return {y, std::fabs(y) + (1 - y * y) * x.size};
}

}  // namespace locant::measure
