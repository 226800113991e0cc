// The vector vocabulary of one instruction set: a handful of types and functions over f32 and i32.
// Include it only in files compiled for one set, which first define LOCANT_SIMD_AVX512BF16,
// LOCANT_SIMD_AVX512, LOCANT_SIMD_AVX2, LOCANT_SIMD_NEON or LOCANT_SIMD_SCALAR. Everything lives in a
// namespace named after the set, so that code of two sets never meets at link time; nothing of std::
// is used for the same reason.
//
//   kLanes, Vec, IVec, Mask            floats in a vector; vectors of f32 and i32; a lane mask
//   load store set zero iset iota      load_first / store_first touch only the first n lanes
//   load_bf16 store_bf16 load_first_bf16 store_first_bf16
//                                      of bf16 numbers: widened; rounded to the nearest, ties to even
//   fma(a, b, c) = a b + c             max min add (+) sub (-) mul (*)
//   max(a, b)                          b where a is NaN
//   raise(low, x)                      the larger one; a NaN in x stays one
//   iload iadd isub imin imax to_float load of i32, arithmetic, conversion
//   imul ixor ishr<n>                  low half of a product, exclusive or, shift right filling zeros
//   in_band(x, low, width)             low <= x <= low + width, one unsigned comparison
//   less(a, b) select(m, a, b)         m ? a : b
//   gather(base, index)                base[index]
//   pick(base, lanes)                  base[lanes[n]], lanes in [0, kLanes) as bytes
//   transpose(rows)                    kLanes x kLanes in registers
//   kPairs                             whether there is a dot product of pairs of bf16 numbers; then
//   fma_pairs(a, b, c)                 = c + sum of the two products of a lane
//   join_pairs(low, high)              rounds 2 kLanes numbers in a row; zip_pairs(first, second): lane
//                                      by lane the pair of both
//   exp2 exp2_rough log                rel. error below 2 ulp; exp2 takes any finite number below 2^7
//   exp2_minus_one                     2^x - 1 of the same numbers, rel. error below 4 ulp
//   hmax hsum                          over the lanes, in a fixed order
#pragma once

#if defined(LOCANT_SIMD_AVX512BF16)
#define LOCANT_SIMD_NAMESPACE avx512bf16
#include "locant/simd/vec_avx512-inl.h"
#include "locant/simd/vec_avx512bf16-inl.h"
#elif defined(LOCANT_SIMD_AVX512)
#define LOCANT_SIMD_NAMESPACE avx512
#include "locant/simd/vec_avx512-inl.h"
#elif defined(LOCANT_SIMD_AVX2)
#define LOCANT_SIMD_NAMESPACE avx2
#include "locant/simd/vec_avx2-inl.h"
#elif defined(LOCANT_SIMD_NEON)
#define LOCANT_SIMD_NAMESPACE neon
#include "locant/simd/vec_neon-inl.h"
#elif defined(LOCANT_SIMD_SCALAR)
#define LOCANT_SIMD_NAMESPACE scalar
#include "locant/simd/vec_scalar-inl.h"
#else
#error "define the instruction set before including this file"
#endif

namespace locant::simd::LOCANT_SIMD_NAMESPACE {

#if !defined(LOCANT_SIMD_AVX512BF16)
// Without a dot product of pairs: declared for the sake of code that is discarded, defined nowhere.
constexpr bool kPairs = false;
Vec fma_pairs(Vec a, Vec b, Vec c);
Vec join_pairs(Vec low, Vec high);
Vec zip_pairs(Vec first, Vec second);
#endif

// Minimax polynomials, found by weighted least squares; 2^x on [-1/2, 1/2], constant term exact.
constexpr float kExp2_1 = 0.693147f, kExp2_2 = 0.24022242f, kExp2_3 = 0.055507336f,
                kExp2_4 = 0.009671513f, kExp2_5 = 0.0013264724f;

inline Vec exp2_fraction(Vec r) {
  Vec p = set(kExp2_5);
  p = fma(p, r, set(kExp2_4));
  p = fma(p, r, set(kExp2_3));
  p = fma(p, r, set(kExp2_2));
  p = fma(p, r, set(kExp2_1));
  return fma(p, r, set(1.0f));
}

inline Vec exp2(Vec x) {
  Vec whole, fraction;
  split(x, whole, fraction);
  return scale_by_power(exp2_fraction(fraction), whole);
}

// 2^x - 1, with all its digits where x is small: of a polynomial for (2^r - 1) / r, rel. error 2e-8.
inline Vec exp2_minus_one(Vec x) {
  Vec whole, r;
  split(x, whole, r);
  Vec p = set(0.000154035f);
  p = fma(p, r, set(0.0013390735f));
  p = fma(p, r, set(0.009618238f));
  p = fma(p, r, set(0.055503573f));
  p = fma(p, r, set(0.24022649f));
  p = fma(p, r, set(0.6931472f));
  const Vec power = scale_by_power(set(1.0f), whole);
  return fma(power, p * r, power - set(1.0f));
}

// The same for results that will be rounded to bf16: rel. error 1.02e-4, a twentieth of that rounding.
inline Vec exp2_rough(Vec x) {
  Vec whole, r;
  split(x, whole, r);
  Vec p = set(0.0550089516f);
  p = fma(p, r, set(0.242211014f));
  p = fma(p, r, set(0.693282902f));
  return scale_by_power(fma(p, r, set(1.0f)), whole);
}

// Natural logarithm of positive normal numbers: log(2^e (1+f)), f in [sqrt(1/2)-1, sqrt(2)-1]. A NaN
// stays one.
inline Vec log(Vec x) {
  Vec exponent, mantissa;  // mantissa in [sqrt(1/2), sqrt(2))
  take_apart(x, exponent, mantissa);
  const Vec f = mantissa - set(1.0f);
  Vec p = set(-0.07634437829256058f);
  p = fma(p, f, set(0.12761563062667847f));
  p = fma(p, f, set(-0.1316019743680954f));
  p = fma(p, f, set(0.14201760292053223f));
  p = fma(p, f, set(-0.16623355448246002f));
  p = fma(p, f, set(0.20001226663589478f));
  p = fma(p, f, set(-0.250008225440979f));
  p = fma(p, f, set(0.3333333134651184f));
  const Vec square = f * f;
  p = fma(p * f, square, square * set(-0.5f)) + f;
  return fma(exponent, set(0.6931471805599453f), p + (x - x));
}

}  // namespace locant::simd::LOCANT_SIMD_NAMESPACE
