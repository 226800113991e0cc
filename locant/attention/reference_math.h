// The twin's arithmetic (reference.h): sums of products, and the turn of one row, for any number
// type.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "locant/base/view.h"
#include "locant/position/terms.h"

namespace locant::attention::reference {

inline constexpr double kNothing = -std::numeric_limits<double>::infinity();  // a masked score

inline double real_part(double x) { return x; }
inline double real_part(const std::complex<double>& x) { return x.real(); }

// A number that knows its magnitude has add_apart, for sums of numbers whose roundings are independent.
template <class T>
concept KnowsSize = requires(T& x) { add_apart(x, x); };

template <class T>
T dot(const T* x, const T* y, int64_t n) {
  T sum(0);
  for (int64_t c = 0; c < n; ++c) sum += x[c] * y[c];
  return sum;
}
template <class T>
void add(T* to, T factor, const T* x, int64_t n) {
  for (int64_t c = 0; c < n; ++c) to[c] += factor * x[c];
}

template <class T>
void set_zero(const View<T, 3>& view) {
  for (int64_t b = 0; view && b < view.shape[0]; ++b) {
    for (int64_t h = 0; h < view.shape[1]; ++h) {
      for (int64_t j = 0; j < view.shape[2]; ++j) view(b, h, j) = T(0);
    }
  }
}

// Pass 1 for one row. side: +1 query, -1 key (xPos grows one and shrinks the other). The adjoint
// (back) turns the other way by the same angle and keeps the factors.
template <class T>
void rotate(const Rotation& rotation, int64_t position, int side, bool back, T* row) {
  const bool interleaved = rotation.layout == Rotation::Layout::kInterleaved;
  const int64_t pairs = rotation.width / 2;
  for (int64_t t = 0; t < pairs; ++t) {
    T& x = row[interleaved ? 2 * t : t];
    T& y = row[interleaved ? 2 * t + 1 : t + pairs];
    const double angle = static_cast<double>(position) * rotation.frequency[t];
    double size = rotation.magnitude;
    if (!rotation.log_growth.empty()) {
      size *=
          std::exp(side * static_cast<double>(position - rotation.center) * rotation.log_growth[t]);
    }
    const T cosine(size * std::cos(angle));
    const T sine((back ? -size : size) * std::sin(angle));
    const T turned = x * cosine - y * sine;
    y = x * sine + y * cosine;
    x = turned;
  }
}

}  // namespace locant::attention::reference
