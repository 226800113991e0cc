// The body that every vec_functions_<set>.cc compiles with its own flags. See vec_functions.h.
#pragma once

#include "locant/simd/vec-inl.h"

#include "tests/simd/vec_functions.h"

namespace locant::test::LOCANT_SIMD_NAMESPACE {
namespace {
namespace v = simd::LOCANT_SIMD_NAMESPACE;

void exp2(const float* x, float* out) { v::store(out, v::exp2(v::load(x))); }
void exp2_minus_one(const float* x, float* out) { v::store(out, v::exp2_minus_one(v::load(x))); }
void log(const float* x, float* out) { v::store(out, v::log(v::load(x))); }
void fma(const float* a, const float* b, const float* c, float* out) {
  v::store(out, v::fma(v::load(a), v::load(b), v::load(c)));
}
void max(const float* a, const float* b, float* out) {
  v::store(out, v::max(v::load(a), v::load(b)));
}
void raise(const float* low, const float* x, float* out) {
  v::store(out, v::raise(v::load(low), v::load(x)));
}
void min(const float* a, const float* b, float* out) {
  v::store(out, v::min(v::load(a), v::load(b)));
}
void whole(const int32_t* a, const int32_t* b, int32_t* out) {
  const v::IVec x = v::iload(a), y = v::iload(b);
  v::istore(out, v::iadd(x, y));
  v::istore(out + v::kLanes, v::isub(x, y));
  v::istore(out + 2 * v::kLanes, v::imax(x, y));
  v::istore(out + 3 * v::kLanes, v::imin(x, y));
  float numbers[v::kLanes];
  v::store(numbers, v::to_float(x));
  __builtin_memcpy(out + 4 * v::kLanes, numbers, sizeof numbers);
  v::istore(out + 5 * v::kLanes, v::imul(x, y));
  v::istore(out + 6 * v::kLanes, v::ixor(x, y));
  v::istore(out + 7 * v::kLanes, v::ishr<7>(x));
}
void iota(int32_t* out) { v::istore(out, v::iota()); }
bool in_band(const int32_t* x, int32_t low, int32_t width, const float* a, const float* b,
             float* out) {
  const v::Mask mask = v::in_band(v::iload(x), v::iset(low), v::iset(width));
  v::store(out, v::select(mask, v::load(a), v::load(b)));
  return v::any(mask);
}
bool less(const float* x, const float* y, const float* a, const float* b, float* out) {
  const v::Mask mask = v::less(v::load(x), v::load(y));
  v::store(out, v::select(mask, v::load(a), v::load(b)));
  return v::any(mask);
}
void gather(const float* base, const int32_t* index, float* out) {
  v::store(out, v::gather(base, v::iload(index)));
}
void igather(const int32_t* base, const int32_t* index, int32_t* out) {
  v::istore(out, v::igather(base, v::iload(index)));
}
void pick(const float* base, const uint8_t* lanes, float* out) {
  v::store(out, v::pick(base, lanes));
}
void transpose(const float* in, float* out) {
  v::Vec rows[v::kLanes];
  for (int n = 0; n < v::kLanes; ++n) rows[n] = v::load(in + n * v::kLanes);
  v::transpose(rows);
  for (int n = 0; n < v::kLanes; ++n) v::store(out + n * v::kLanes, rows[n]);
}
float hmax(const float* x) { return v::hmax(v::load(x)); }
float hsum(const float* x) { return v::hsum(v::load(x)); }
void load_first(const float* x, int n, float* out) { v::store(out, v::load_first(x, n)); }
void store_first(const float* x, int n, float* out) { v::store_first(out, v::load(x), n); }
void load_bf16(const uint16_t* x, int n, float* out) {
  v::store(out, n == v::kLanes ? v::load_bf16(x) : v::load_first_bf16(x, n));
}
void store_bf16(const float* x, int n, uint16_t* out) {
  if (n == v::kLanes) {
    v::store_bf16(out, v::load(x));
  } else {
    v::store_first_bf16(out, v::load(x), n);
  }
}

}  // namespace

const VecFunctions kVecFunctions = {
    v::kLanes, exp2, exp2_minus_one, log, fma,  max,        raise,       min,       whole,     iota, in_band, less, gather,
    igather,   pick,      transpose,  hmax, hsum, load_first, store_first, load_bf16, store_bf16};

}  // namespace locant::test::LOCANT_SIMD_NAMESPACE
