// Portable: 4 floats in the compiler's own vectors (GCC, Clang), whatever the machine makes of them.
// No fused multiply-add. See vec-inl.h.
#pragma once

#include <cstdint>
#include <cstring>

namespace locant::simd::scalar {

constexpr int kLanes = 4;
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IVec __attribute__((vector_size(16)));
typedef uint32_t UVec __attribute__((vector_size(16)));
using Mask = IVec;

// Register block of the tile products: rows x vectors.
constexpr int kBlockRows = 4, kBlockVecs = 2;

inline Vec zero() { return Vec{0, 0, 0, 0}; }
inline Vec set(float x) { return Vec{x, x, x, x}; }
inline IVec iset(int32_t x) { return IVec{x, x, x, x}; }
inline IVec iota() { return IVec{0, 1, 2, 3}; }
inline Vec load(const float* p) {
  Vec x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline void store(float* p, Vec x) { __builtin_memcpy(p, &x, sizeof x); }
inline Vec load_first(const float* p, int n) {
  Vec x = zero();
  for (int l = 0; l < n; ++l) x[l] = p[l];
  return x;
}
inline void store_first(float* p, Vec x, int n) {
  for (int l = 0; l < n; ++l) p[l] = x[l];
}

inline Vec load_first_bf16(const uint16_t* p, int n) {
  UVec bits = {0, 0, 0, 0};
  for (int l = 0; l < n; ++l) bits[l] = static_cast<uint32_t>(p[l]) << 16;
  return (Vec)bits;
}
inline Vec load_bf16(const uint16_t* p) { return load_first_bf16(p, kLanes); }
inline void store_first_bf16(uint16_t* p, Vec x, int n) {
  const UVec bits = (UVec)x, nan = (UVec)(x != x);
  const UVec nearest = bits + 0x7fff + ((bits >> 16) & 1);
  const UVec whole = ((bits | 0x400000) & nan) | (nearest & ~nan);
  for (int l = 0; l < n; ++l) p[l] = static_cast<uint16_t>(whole[l] >> 16);
}
inline void store_bf16(uint16_t* p, Vec x) { store_first_bf16(p, x, kLanes); }
inline IVec iload(const int32_t* p) {
  IVec x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
inline void istore(int32_t* p, IVec x) { __builtin_memcpy(p, &x, sizeof x); }

inline Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec select(Mask m, Vec a, Vec b) {
  const UVec bits = (UVec)m;
  return (Vec)(((UVec)a & bits) | ((UVec)b & ~bits));
}
inline IVec iselect(Mask m, IVec a, IVec b) { return (a & m) | (b & ~m); }
inline Vec max(Vec a, Vec b) { return select((Mask)(a > b), a, b); }
inline Vec raise(Vec low, Vec x) { return max(low, x); }
inline Vec min(Vec a, Vec b) { return select((Mask)(a < b), a, b); }
inline IVec iadd(IVec a, IVec b) { return (IVec)((UVec)a + (UVec)b); }
inline IVec isub(IVec a, IVec b) { return (IVec)((UVec)a - (UVec)b); }
inline IVec imax(IVec a, IVec b) { return iselect(a > b, a, b); }
inline IVec imin(IVec a, IVec b) { return iselect(a < b, a, b); }
inline IVec imul(IVec a, IVec b) { return (IVec)((UVec)a * (UVec)b); }
inline IVec ixor(IVec a, IVec b) { return a ^ b; }
template <int n>
inline IVec ishr(IVec x) {
  return (IVec)((UVec)x >> n);
}
inline Vec to_float(IVec x) { return __builtin_convertvector(x, Vec); }

inline Mask in_band(IVec x, IVec low, IVec width) {
  return (Mask)((UVec)isub(x, low) <= (UVec)width);
}
inline Mask less(Vec a, Vec b) { return (Mask)(a < b); }
inline bool any(Mask m) { return (m[0] | m[1] | m[2] | m[3]) != 0; }
inline Vec gather(const float* base, IVec index) {
  return Vec{base[index[0]], base[index[1]], base[index[2]], base[index[3]]};
}
inline IVec igather(const int32_t* base, IVec index) {
  return IVec{base[index[0]], base[index[1]], base[index[2]], base[index[3]]};
}
inline Vec pick(const float* base, const uint8_t* lanes) {
  return Vec{base[lanes[0]], base[lanes[1]], base[lanes[2]], base[lanes[3]]};
}

inline float hmax(Vec x) {
  const float a = x[0] > x[2] ? x[0] : x[2], b = x[1] > x[3] ? x[1] : x[3];
  return a > b ? a : b;
}
inline float hsum(Vec x) { return (x[0] + x[2]) + (x[1] + x[3]); }

// x = whole + fraction, |fraction| <= 1/2. Clamped: below 2^-126 the result is flushed to zero.
inline void split(Vec x, Vec& whole, Vec& fraction) {
  x = raise(set(-127.0f), x);
  const Vec shift = set(12582912.0f);  // 1.5 2^23: adding it rounds to a whole number
  Vec rounded = x + shift;
  __asm__("" : "+m"(rounded));  // keeps the compiler from cancelling the two
  whole = rounded - shift;
  fraction = x - whole;
}
inline Vec scale_by_power(Vec x, Vec whole) {
  const IVec power = (__builtin_convertvector(whole, IVec) + iset(127)) << 23;
  return x * (Vec)power;
}

inline void take_apart(Vec x, Vec& exponent, Vec& mantissa) {
  const IVec origin = iset(0x3f3504f3);
  const IVec bits = isub((IVec)x, origin);
  exponent = __builtin_convertvector(bits >> 23, Vec);
  mantissa = (Vec)iadd(bits & iset(0x007fffff), origin);
}

inline void transpose(Vec (&r)[4]) {
  const Vec a = r[0], b = r[1], c = r[2], d = r[3];
  for (int l = 0; l < 4; ++l) r[l] = Vec{a[l], b[l], c[l], d[l]};
}

}  // namespace locant::simd::scalar
