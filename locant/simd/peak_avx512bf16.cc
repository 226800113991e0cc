// Twelve independent chains of bf16 dot products; see peak-inl.h.
#include <immintrin.h>

#include <cstdint>

namespace locant::simd::peak_avx512bf16 {

float dot_rounds(int64_t rounds, float factor) {
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(factor), _mm512_set1_ps(factor));
  const auto dot = [a](__m512 c) { return _mm512_dpbf16_ps(c, a, a); };
  // Different, so that the compiler keeps all of them.
  const auto start = [factor](float x) { return _mm512_set1_ps(x * factor); };
  __m512 c0 = start(0), c1 = start(1), c2 = start(2), c3 = start(3), c4 = start(4), c5 = start(5),
         c6 = start(6), c7 = start(7), c8 = start(8), c9 = start(9), c10 = start(10), c11 = start(11);
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
