// AVX-512 with the bf16 dot product: the vocabulary of vec_avx512-inl.h and pairs. A vector of pairs
// holds two bf16 numbers in each lane, the first in the lower half. See vec-inl.h.
// The instructions take denormals as zero.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace locant::simd::LOCANT_SIMD_NAMESPACE {

constexpr bool kPairs = true;

inline Vec fma_pairs(Vec a, Vec b, Vec c) {
  return _mm512_dpbf16_ps(c, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
inline Vec join_pairs(Vec low, Vec high) {
  return reinterpret_cast<Vec>(_mm512_cvtne2ps_pbh(high, low));
}
inline Vec zip_pairs(Vec first, Vec second) {
  const __m512i order = _mm512_setr_epi32(
      0x00100000, 0x00110001, 0x00120002, 0x00130003, 0x00140004, 0x00150005, 0x00160006, 0x00170007,
      0x00180008, 0x00190009, 0x001a000a, 0x001b000b, 0x001c000c, 0x001d000d, 0x001e000e, 0x001f000f);
  const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, halves));
}

}  // namespace locant::simd::LOCANT_SIMD_NAMESPACE
