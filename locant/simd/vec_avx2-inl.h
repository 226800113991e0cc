// AVX2 and FMA: 8 floats. See vec-inl.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace locant::simd::avx2 {

constexpr int kLanes = 8;
using Vec = __m256;
using IVec = __m256i;
using Mask = __m256;  // all bits of a lane

// Register block of the tile products: rows x vectors.
constexpr int kBlockRows = 4, kBlockVecs = 3;

inline Vec zero() { return _mm256_setzero_ps(); }
inline Vec set(float x) { return _mm256_set1_ps(x); }
inline IVec iset(int32_t x) { return _mm256_set1_epi32(x); }
inline IVec iota() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
inline Vec load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, Vec x) { _mm256_storeu_ps(p, x); }
inline IVec first(int n) { return _mm256_cmpgt_epi32(iset(n), iota()); }
inline Vec load_first(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
inline void store_first(float* p, Vec x, int n) { _mm256_maskstore_ps(p, first(n), x); }

inline Vec load_bf16(const uint16_t* p) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline void store_bf16(uint16_t* p, Vec x) {
  const IVec bits = _mm256_castps_si256(x);
  const IVec odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), iset(1));
  const IVec nearest = _mm256_add_epi32(bits, _mm256_add_epi32(odd, iset(0x7fff)));
  const IVec nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const IVec quiet = _mm256_or_si256(bits, iset(0x400000));
  const IVec halves = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, nan), 16);
  const IVec packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
inline Vec load_first_bf16(const uint16_t* p, int n) {
  uint16_t all[kLanes] = {};
  for (int l = 0; l < n; ++l) all[l] = p[l];
  return load_bf16(all);
}
inline void store_first_bf16(uint16_t* p, Vec x, int n) {
  uint16_t all[kLanes];
  store_bf16(all, x);
  for (int l = 0; l < n; ++l) p[l] = all[l];
}
inline IVec iload(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void istore(int32_t* p, IVec x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x); }

inline Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec raise(Vec low, Vec x) { return max(low, x); }
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline IVec iadd(IVec a, IVec b) { return _mm256_add_epi32(a, b); }
inline IVec isub(IVec a, IVec b) { return _mm256_sub_epi32(a, b); }
inline IVec imax(IVec a, IVec b) { return _mm256_max_epi32(a, b); }
inline IVec imin(IVec a, IVec b) { return _mm256_min_epi32(a, b); }
inline IVec imul(IVec a, IVec b) { return _mm256_mullo_epi32(a, b); }
inline IVec ixor(IVec a, IVec b) { return _mm256_xor_si256(a, b); }
template <int n>
inline IVec ishr(IVec x) {
  return _mm256_srli_epi32(x, n);
}
inline Vec to_float(IVec x) { return _mm256_cvtepi32_ps(x); }

inline Mask in_band(IVec x, IVec low, IVec width) {
  const IVec from_low = _mm256_sub_epi32(x, low);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(from_low, width), from_low));
}
inline Mask less(Vec a, Vec b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
inline Vec select(Mask m, Vec a, Vec b) { return _mm256_blendv_ps(b, a, m); }
inline bool any(Mask m) { return _mm256_movemask_ps(m) != 0; }
inline Vec gather(const float* base, IVec index) { return _mm256_i32gather_ps(base, index, 4); }
inline IVec igather(const int32_t* base, IVec index) {
  return _mm256_i32gather_epi32(base, index, 4);
}
inline Vec pick(const float* base, const uint8_t* lanes) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes));
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(base), _mm256_cvtepu8_epi32(bytes));
}

inline float hmax(Vec x) {
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}
inline float hsum(Vec x) {
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

// x = whole + fraction, |fraction| <= 1/2. Clamped: below 2^-126 the result is flushed to zero.
inline void split(Vec x, Vec& whole, Vec& fraction) {
  x = raise(_mm256_set1_ps(-127.0f), x);
  whole = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  fraction = _mm256_sub_ps(x, whole);
}
// x 2^whole for whole in [-127, 127]: the power is built in the exponent bits, 2^-127 as zero.
inline Vec scale_by_power(Vec x, Vec whole) {
  const IVec power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(whole), iset(127)), 23);
  return _mm256_mul_ps(x, _mm256_castsi256_ps(power));
}

inline void take_apart(Vec x, Vec& exponent, Vec& mantissa) {
  // Bits of sqrt(1/2) as origin: what is left above bit 23 counts powers of two.
  const IVec origin = iset(0x3f3504f3);
  const IVec bits = _mm256_sub_epi32(_mm256_castps_si256(x), origin);
  exponent = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
  mantissa = _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_and_si256(bits, iset(0x007fffff)), origin));
}

inline void transpose(Vec (&r)[8]) {
  Vec t[8];
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    t[2 * n] = _mm256_unpacklo_ps(r[2 * n], r[2 * n + 1]);
    t[2 * n + 1] = _mm256_unpackhi_ps(r[2 * n], r[2 * n + 1]);
  }
#pragma GCC unroll 2
  for (int n = 0; n < 2; ++n) {
    r[4 * n] = _mm256_shuffle_ps(t[4 * n], t[4 * n + 2], 0x44);
    r[4 * n + 1] = _mm256_shuffle_ps(t[4 * n], t[4 * n + 2], 0xee);
    r[4 * n + 2] = _mm256_shuffle_ps(t[4 * n + 1], t[4 * n + 3], 0x44);
    r[4 * n + 3] = _mm256_shuffle_ps(t[4 * n + 1], t[4 * n + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    t[n] = _mm256_permute2f128_ps(r[n], r[4 + n], 0x20);
    t[4 + n] = _mm256_permute2f128_ps(r[n], r[4 + n], 0x31);
  }
#pragma GCC unroll 8
  for (int n = 0; n < 8; ++n) r[n] = t[n];
}

}  // namespace locant::simd::avx2
