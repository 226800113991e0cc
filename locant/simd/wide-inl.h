// Rows of either width as f32, and sums over lanes: what products of a few rows with rows that are read
// once need beyond vec-inl.h. Include it on the same terms.
//
//   load_wide           kLanes numbers, float or the bits of bf16, as f32; load_wide_first: the first n
//   load_streamed       the same of rows that come from memory and not from a cache: no load is wider than
//                       half a line, since the machine fetches ahead by loads and not by lines
//   group_sums(a)       lane t of each group of four lanes = sum of that group in a[t]
//   join_groups(z)      lane 4 g + t = sum over the groups of lane t in z[g]: of kLanes vectors, lane n is
//                       then the sum of vector n
#pragma once

#include <cstdint>

#include "locant/simd/vec-inl.h"

namespace locant::simd::LOCANT_SIMD_NAMESPACE {

inline Vec load_wide(const float* p) { return load(p); }
inline Vec load_wide_first(const float* p, int n) { return load_first(p, n); }
inline Vec load_wide(const uint16_t* p) { return load_bf16(p); }
inline Vec load_wide_first(const uint16_t* p, int n) { return load_first_bf16(p, n); }

#if defined(LOCANT_SIMD_AVX512) || defined(LOCANT_SIMD_AVX512BF16)

inline Vec load_streamed(const float* p) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(p)), _mm256_loadu_ps(p + 8), 1);
}

inline Vec group_sums(const Vec (&a)[4]) {
  const Vec low = _mm512_unpacklo_ps(a[0], a[1]) + _mm512_unpackhi_ps(a[0], a[1]);
  const Vec high = _mm512_unpacklo_ps(a[2], a[3]) + _mm512_unpackhi_ps(a[2], a[3]);
  return _mm512_shuffle_ps(low, high, 0x44) + _mm512_shuffle_ps(low, high, 0xee);
}
inline Vec join_groups(const Vec (&z)[4]) {
  const Vec s = _mm512_shuffle_f32x4(z[0], z[1], 0x44) + _mm512_shuffle_f32x4(z[0], z[1], 0xee);
  const Vec t = _mm512_shuffle_f32x4(z[2], z[3], 0x44) + _mm512_shuffle_f32x4(z[2], z[3], 0xee);
  return _mm512_shuffle_f32x4(s, t, 0x88) + _mm512_shuffle_f32x4(s, t, 0xdd);
}

#elif defined(LOCANT_SIMD_AVX2)

inline Vec load_streamed(const float* p) { return load(p); }

inline Vec group_sums(const Vec (&a)[4]) {
  const Vec low = _mm256_unpacklo_ps(a[0], a[1]) + _mm256_unpackhi_ps(a[0], a[1]);
  const Vec high = _mm256_unpacklo_ps(a[2], a[3]) + _mm256_unpackhi_ps(a[2], a[3]);
  return _mm256_shuffle_ps(low, high, 0x44) + _mm256_shuffle_ps(low, high, 0xee);
}
inline Vec join_groups(const Vec (&z)[2]) {
  return _mm256_permute2f128_ps(z[0], z[1], 0x20) + _mm256_permute2f128_ps(z[0], z[1], 0x31);
}

#else  // four lanes: one group

inline Vec load_streamed(const float* p) { return load(p); }

inline Vec group_sums(const Vec (&a)[4]) {
  Vec r[4] = {a[0], a[1], a[2], a[3]};
  transpose(r);
  return (r[0] + r[2]) + (r[1] + r[3]);
}
inline Vec join_groups(const Vec (&z)[1]) { return z[0]; }

#endif

inline Vec load_streamed(const uint16_t* p) { return load_wide(p); }

}  // namespace locant::simd::LOCANT_SIMD_NAMESPACE
