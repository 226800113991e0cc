// NEON of AArch64, which every such machine has: 4 floats, 32 registers. See vec-inl.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace locant::simd::neon {

constexpr int kLanes = 4;
using Vec = float32x4_t;
using IVec = int32x4_t;
using Mask = uint32x4_t;  // all bits of a lane

// Register block of the tile products: rows x vectors. 16 chains hide a latency of 4 on four units, and
// there are two multiply-adds for each load.
constexpr int kBlockRows = 4, kBlockVecs = 4;

inline Vec zero() { return vdupq_n_f32(0); }
inline Vec set(float x) { return vdupq_n_f32(x); }
inline IVec iset(int32_t x) { return vdupq_n_s32(x); }
inline IVec iota() { return IVec{0, 1, 2, 3}; }
inline Vec load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, Vec x) { vst1q_f32(p, x); }
inline Vec load_first(const float* p, int n) {
  if (n >= kLanes) return load(p);
  Vec x = zero();
  if (n >= 2) x = vcombine_f32(vld1_f32(p), vdup_n_f32(0));
  if (n == 1) x = vld1q_lane_f32(p, x, 0);
  if (n == 3) x = vld1q_lane_f32(p + 2, x, 2);
  return x;
}
inline void store_first(float* p, Vec x, int n) {
  if (n >= kLanes) return store(p, x);
  if (n >= 2) vst1_f32(p, vget_low_f32(x));
  if (n == 1) vst1q_lane_f32(p, x, 0);
  if (n == 3) vst1q_lane_f32(p + 2, x, 2);
}

inline Vec load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
inline uint16x4_t round_to_bf16(Vec x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t nearest = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), nearest, quiet), 16);
}
inline void store_bf16(uint16_t* p, Vec x) { vst1_u16(p, round_to_bf16(x)); }
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
inline IVec iload(const int32_t* p) { return vld1q_s32(p); }
inline void istore(int32_t* p, IVec x) { vst1q_s32(p, x); }

inline Vec fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c, a, b); }
// The number where one of them is NaN: a row of NaN does not hide the maxima of others.
inline Vec max(Vec a, Vec b) { return vmaxnmq_f32(a, b); }
inline Vec raise(Vec low, Vec x) { return vmaxq_f32(low, x); }
inline Vec min(Vec a, Vec b) { return vminq_f32(a, b); }  // a NaN stays a NaN
inline IVec iadd(IVec a, IVec b) { return vaddq_s32(a, b); }
inline IVec isub(IVec a, IVec b) { return vsubq_s32(a, b); }
inline IVec imax(IVec a, IVec b) { return vmaxq_s32(a, b); }
inline IVec imin(IVec a, IVec b) { return vminq_s32(a, b); }
inline IVec imul(IVec a, IVec b) { return vmulq_s32(a, b); }
inline IVec ixor(IVec a, IVec b) { return veorq_s32(a, b); }
template <int n>
inline IVec ishr(IVec x) {
  return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n));
}
inline Vec to_float(IVec x) { return vcvtq_f32_s32(x); }

inline Mask in_band(IVec x, IVec low, IVec width) {
  return vcleq_u32(vreinterpretq_u32_s32(vsubq_s32(x, low)), vreinterpretq_u32_s32(width));
}
inline Mask less(Vec a, Vec b) { return vcltq_f32(a, b); }
inline Vec select(Mask m, Vec a, Vec b) { return vbslq_f32(m, a, b); }
inline bool any(Mask m) { return vmaxvq_u32(m) != 0; }
inline Vec gather(const float* base, IVec index) {
  Vec x = vdupq_n_f32(base[vgetq_lane_s32(index, 0)]);
  x = vld1q_lane_f32(base + vgetq_lane_s32(index, 1), x, 1);
  x = vld1q_lane_f32(base + vgetq_lane_s32(index, 2), x, 2);
  return vld1q_lane_f32(base + vgetq_lane_s32(index, 3), x, 3);
}
inline IVec igather(const int32_t* base, IVec index) {
  IVec x = vdupq_n_s32(base[vgetq_lane_s32(index, 0)]);
  x = vld1q_lane_s32(base + vgetq_lane_s32(index, 1), x, 1);
  x = vld1q_lane_s32(base + vgetq_lane_s32(index, 2), x, 2);
  return vld1q_lane_s32(base + vgetq_lane_s32(index, 3), x, 3);
}
inline Vec pick(const float* base, const uint8_t* lanes) {
  uint32_t four;
  __builtin_memcpy(&four, lanes, sizeof four);
  // Bytes of lane n are 4 lanes[n] + 0, 1, 2, 3: each of the four bytes times 0x04040404.
  const uint16x8_t half = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
  const uint32x4_t word = vmovl_u16(vget_low_u16(half));
  const uint32x4_t bytes = vmlaq_n_u32(vdupq_n_u32(0x03020100), word, 0x04040404);
  const uint8x16_t from = vreinterpretq_u8_f32(vld1q_f32(base));
  return vreinterpretq_f32_u8(vqtbl1q_u8(from, vreinterpretq_u8_u32(bytes)));
}

inline float hmax(Vec x) { return vmaxnmvq_f32(x); }
inline float hsum(Vec x) { return vaddvq_f32(x); }  // (x0 + x1) + (x2 + x3)

// x = whole + fraction, |fraction| <= 1/2. Clamped: below 2^-126 the result is flushed to zero.
inline void split(Vec x, Vec& whole, Vec& fraction) {
  x = raise(vdupq_n_f32(-127.0f), x);
  whole = vrndnq_f32(x);
  fraction = vsubq_f32(x, whole);
}
// x 2^whole for whole in [-127, 127]: the power is built in the exponent bits, 2^-127 as zero.
inline Vec scale_by_power(Vec x, Vec whole) {
  const IVec power = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(whole), iset(127)), 23);
  return vmulq_f32(x, vreinterpretq_f32_s32(power));
}

inline void take_apart(Vec x, Vec& exponent, Vec& mantissa) {
  // Bits of sqrt(1/2) as origin: what is left above bit 23 counts powers of two.
  const IVec origin = iset(0x3f3504f3);
  const IVec bits = vsubq_s32(vreinterpretq_s32_f32(x), origin);
  exponent = vcvtq_f32_s32(vshrq_n_s32(bits, 23));
  mantissa = vreinterpretq_f32_s32(vaddq_s32(vandq_s32(bits, iset(0x007fffff)), origin));
}

inline void transpose(Vec (&r)[4]) {
  const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
  const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
  const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
  const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
  r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
  r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
  r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
  r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

}  // namespace locant::simd::neon
