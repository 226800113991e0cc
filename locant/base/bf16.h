// bf16: the upper half of a float, 8 bits of precision and the range of float. A storage type: it
// has no arithmetic. Code compiled for one instruction set has conversions of its own (simd/).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace locant {

struct Bf16 {
  uint16_t bits = 0;
};

inline float to_float(Bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

// To the nearest, ties to even; beyond the largest bf16 becomes infinity, a NaN stays a (quiet) NaN.
inline Bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// The type in which one calculates with numbers stored as T: float for Bf16, else T itself.
template <class T>
struct RealOf {
  using type = T;
};
template <>
struct RealOf<Bf16> {
  using type = float;
};
template <>
struct RealOf<const Bf16> {
  using type = const float;
};
template <class T>
using Real = typename RealOf<T>::type;

}  // namespace locant
