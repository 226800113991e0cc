// Rows of either width as f32, and sums over lanes: what products of a few rows with rows that are read
// once need beyond vec-inl.h. Include it on the same terms.
//
//   load_wide           kLanes numbers, float or the bits of bf16, as f32; load_wide_first: the first n
//   lane_sums(a)        lane n = sum over the lanes of a[n]
//   kHeldVecs           vectors that may stay in registers through a loop beside its own
#pragma once

#include <cstdint>

#include "locant/simd/vec-inl.h"

namespace locant::simd::LOCANT_SIMD_NAMESPACE {

inline Vec load_wide(const float* p) { return load(p); }
inline Vec load_wide_first(const float* p, int n) { return load_first(p, n); }
inline Vec load_wide(const uint16_t* p) { return load_bf16(p); }
inline Vec load_wide_first(const uint16_t* p, int n) { return load_first_bf16(p, n); }

#if defined(LOCANT_SIMD_AVX512) || defined(LOCANT_SIMD_AVX512BF16)

constexpr int kHeldVecs = 16;

// Four vectors to one: lane t of a group of four = sum over that group of a[t].
inline Vec group_sums(const Vec* a) {
  const Vec low = _mm512_unpacklo_ps(a[0], a[1]) + _mm512_unpackhi_ps(a[0], a[1]);
  const Vec high = _mm512_unpacklo_ps(a[2], a[3]) + _mm512_unpackhi_ps(a[2], a[3]);
  return _mm512_shuffle_ps(low, high, 0x44) + _mm512_shuffle_ps(low, high, 0xee);
}
inline Vec lane_sums(const Vec (&a)[16]) {
  const Vec z0 = group_sums(a), z1 = group_sums(a + 4), z2 = group_sums(a + 8), z3 = group_sums(a + 12);
  const Vec s = _mm512_shuffle_f32x4(z0, z1, 0x44) + _mm512_shuffle_f32x4(z0, z1, 0xee);
  const Vec t = _mm512_shuffle_f32x4(z2, z3, 0x44) + _mm512_shuffle_f32x4(z2, z3, 0xee);
  return _mm512_shuffle_f32x4(s, t, 0x88) + _mm512_shuffle_f32x4(s, t, 0xdd);
}

#elif defined(LOCANT_SIMD_AVX2)

constexpr int kHeldVecs = 8;

inline Vec group_sums(const Vec* a) {
  const Vec low = _mm256_unpacklo_ps(a[0], a[1]) + _mm256_unpackhi_ps(a[0], a[1]);
  const Vec high = _mm256_unpacklo_ps(a[2], a[3]) + _mm256_unpackhi_ps(a[2], a[3]);
  return _mm256_shuffle_ps(low, high, 0x44) + _mm256_shuffle_ps(low, high, 0xee);
}
inline Vec lane_sums(const Vec (&a)[8]) {
  const Vec z0 = group_sums(a), z1 = group_sums(a + 4);
  return _mm256_permute2f128_ps(z0, z1, 0x20) + _mm256_permute2f128_ps(z0, z1, 0x31);
}

#else  // four lanes

constexpr int kHeldVecs = 8;

inline Vec lane_sums(const Vec (&a)[4]) {
  Vec r[4] = {a[0], a[1], a[2], a[3]};
  transpose(r);
  return (r[0] + r[2]) + (r[1] + r[3]);
}

#endif

}  // namespace locant::simd::LOCANT_SIMD_NAMESPACE
