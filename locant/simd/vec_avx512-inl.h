// AVX-512 F, BW, DQ, VL: 16 floats. See vec-inl.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace locant::simd::LOCANT_SIMD_NAMESPACE {

constexpr int kLanes = 16;
using Vec = __m512;
using IVec = __m512i;
using Mask = __mmask16;

// Register block of the tile products: rows x vectors.
constexpr int kBlockRows = 4, kBlockVecs = 4;

inline Vec zero() { return _mm512_setzero_ps(); }
inline Vec set(float x) { return _mm512_set1_ps(x); }
inline IVec iset(int32_t x) { return _mm512_set1_epi32(x); }
inline IVec iota() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
inline Vec load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, Vec x) { _mm512_storeu_ps(p, x); }
inline Mask first(int n) { return static_cast<Mask>((1u << n) - 1); }
inline Vec load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
inline void store_first(float* p, Vec x, int n) { _mm512_mask_storeu_ps(p, first(n), x); }

inline Vec widen(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
inline __m256i round_to_bf16(Vec x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i whole = _mm512_mask_or_epi32(nearest, nan, bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(whole, 16));
}
inline Vec load_bf16(const uint16_t* p) {
  return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline Vec load_first_bf16(const uint16_t* p, int n) {
  return widen(_mm256_maskz_loadu_epi16(first(n), p));
}
inline void store_bf16(uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), round_to_bf16(x));
}
inline void store_first_bf16(uint16_t* p, Vec x, int n) {
  _mm256_mask_storeu_epi16(p, first(n), round_to_bf16(x));
}
inline IVec iload(const int32_t* p) { return _mm512_loadu_si512(p); }
inline void istore(int32_t* p, IVec x) { _mm512_storeu_si512(p, x); }

inline Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
// vmaxps takes the second operand where one is NaN.
inline Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec raise(Vec low, Vec x) { return max(low, x); }
inline Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline IVec iadd(IVec a, IVec b) { return _mm512_add_epi32(a, b); }
inline IVec isub(IVec a, IVec b) { return _mm512_sub_epi32(a, b); }
inline IVec imax(IVec a, IVec b) { return _mm512_max_epi32(a, b); }
inline IVec imin(IVec a, IVec b) { return _mm512_min_epi32(a, b); }
inline IVec imul(IVec a, IVec b) { return _mm512_mullo_epi32(a, b); }
inline IVec ixor(IVec a, IVec b) { return _mm512_xor_si512(a, b); }
template <int n>
inline IVec ishr(IVec x) {
  return _mm512_srli_epi32(x, n);
}
inline Vec to_float(IVec x) { return _mm512_cvtepi32_ps(x); }

inline Mask in_band(IVec x, IVec low, IVec width) {
  return _mm512_cmple_epu32_mask(_mm512_sub_epi32(x, low), width);
}
inline Mask less(Vec a, Vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
inline Vec select(Mask m, Vec a, Vec b) { return _mm512_mask_blend_ps(m, b, a); }
inline bool any(Mask m) { return m != 0; }
inline Vec gather(const float* base, IVec index) { return _mm512_i32gather_ps(index, base, 4); }
inline IVec igather(const int32_t* base, IVec index) { return _mm512_i32gather_epi32(index, base, 4); }
inline Vec pick(const float* base, const uint8_t* lanes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes));
  return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(bytes), _mm512_loadu_ps(base));
}

// Not the _mm512_reduce_ forms: g++ 12 warns about its own header there.
inline __m256 upper(Vec x) { return _mm512_extractf32x8_ps(x, 1); }
inline float hmax(Vec x) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(x), upper(x));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
inline float hsum(Vec x) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), upper(x));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

// x = whole + fraction, |fraction| <= 1/2, for any finite x.
inline void split(Vec x, Vec& whole, Vec& fraction) {
  whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  fraction = _mm512_sub_ps(x, whole);
}
inline Vec scale_by_power(Vec x, Vec whole) { return _mm512_scalef_ps(x, whole); }

inline void take_apart(Vec x, Vec& exponent, Vec& mantissa) {
  const Vec scaled = _mm512_mul_ps(x, _mm512_set1_ps(1.41421356f));  // rounds to the nearest power
  exponent = _mm512_getexp_ps(scaled);
  mantissa = _mm512_scalef_ps(x, _mm512_sub_ps(_mm512_setzero_ps(), exponent));
}

inline void transpose(Vec (&r)[16]) {
  Vec t[16];
#pragma GCC unroll 8
  for (int n = 0; n < 8; ++n) {
    t[2 * n] = _mm512_unpacklo_ps(r[2 * n], r[2 * n + 1]);
    t[2 * n + 1] = _mm512_unpackhi_ps(r[2 * n], r[2 * n + 1]);
  }
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    const __m512d a = _mm512_castps_pd(t[4 * n]), b = _mm512_castps_pd(t[4 * n + 1]);
    const __m512d c = _mm512_castps_pd(t[4 * n + 2]), d = _mm512_castps_pd(t[4 * n + 3]);
    r[4 * n] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[4 * n + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[4 * n + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[4 * n + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    t[n] = _mm512_shuffle_f32x4(r[n], r[4 + n], 0x88);
    t[4 + n] = _mm512_shuffle_f32x4(r[n], r[4 + n], 0xdd);
    t[8 + n] = _mm512_shuffle_f32x4(r[8 + n], r[12 + n], 0x88);
    t[12 + n] = _mm512_shuffle_f32x4(r[8 + n], r[12 + n], 0xdd);
  }
#pragma GCC unroll 4
  for (int n = 0; n < 4; ++n) {
    r[n] = _mm512_shuffle_f32x4(t[n], t[8 + n], 0x88);
    r[8 + n] = _mm512_shuffle_f32x4(t[n], t[8 + n], 0xdd);
    r[4 + n] = _mm512_shuffle_f32x4(t[4 + n], t[12 + n], 0x88);
    r[12 + n] = _mm512_shuffle_f32x4(t[4 + n], t[12 + n], 0xdd);
  }
}

}  // namespace locant::simd::LOCANT_SIMD_NAMESPACE
