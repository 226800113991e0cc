// Twelve independent chains of bf16 dot products; see peak-inl.h.
#include <immintrin.h>

#include <cstdint>

namespace locant::simd::peak_avx512bf16 {

float dot_rounds(int64_t rounds, float factor) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  const auto dot = [a](__m512 c) { return _mm512_dpbf16_ps(c, a, a); };
  const __m512 zero = _mm512_setzero_ps();
  __m512 c0 = zero, c1 = zero, c2 = zero, c3 = zero, c4 = zero, c5 = zero, c6 = zero, c7 = zero,
         c8 = zero, c9 = zero, c10 = zero, c11 = zero;
  for (int64_t r = 0; r < rounds; ++r) {
    c0 = dot(c0), c1 = dot(c1), c2 = dot(c2), c3 = dot(c3), c4 = dot(c4), c5 = dot(c5);
    c6 = dot(c6), c7 = dot(c7), c8 = dot(c8), c9 = dot(c9), c10 = dot(c10), c11 = dot(c11);
  }
  const __m512 all = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
  return _mm_cvtss_f32(_mm512_castps512_ps128(all));
}

extern const int lanes;
const int lanes = 16;

}  // namespace locant::simd::peak_avx512bf16
