// The vector vocabulary of one instruction set (simd/vec-inl.h) as plain functions over memory, so that
// a test compiled for any machine can call it. Arrays have `lanes` numbers unless said.
#pragma once

#include <cstdint>

namespace locant::test {

struct VecFunctions {
  int lanes;
  void (*exp2)(const float* x, float* out);
  void (*exp2_minus_one)(const float* x, float* out);
  void (*log)(const float* x, float* out);
  void (*fma)(const float* a, const float* b, const float* c, float* out);
  void (*max)(const float* a, const float* b, float* out);
  void (*raise)(const float* low, const float* x, float* out);
  void (*min)(const float* a, const float* b, float* out);
  // out: [8][lanes]: a + b, a - b, the larger, the smaller, a as float's bits, a * b, a ^ b, a >> 7
  void (*whole)(const int32_t* a, const int32_t* b, int32_t* out);
  void (*iota)(int32_t* out);
  // out: mask ? a : b; the result: any lane of the mask
  bool (*in_band)(const int32_t* x, int32_t low, int32_t width, const float* a, const float* b,
                  float* out);
  bool (*less)(const float* x, const float* y, const float* a, const float* b, float* out);
  void (*gather)(const float* base, const int32_t* index, float* out);
  void (*igather)(const int32_t* base, const int32_t* index, int32_t* out);
  void (*pick)(const float* base, const uint8_t* lanes, float* out);
  void (*transpose)(const float* in, float* out);  // [lanes][lanes]
  float (*hmax)(const float* x);
  float (*hsum)(const float* x);
  void (*load_first)(const float* x, int n, float* out);
  void (*store_first)(const float* x, int n, float* out);
  void (*load_bf16)(const uint16_t* x, int n, float* out);         // n = lanes: the whole vector
  void (*store_bf16)(const float* x, int n, uint16_t* out);
};

namespace scalar {
extern const VecFunctions kVecFunctions;
}
namespace neon {
extern const VecFunctions kVecFunctions;
}
namespace avx2 {
extern const VecFunctions kVecFunctions;
}
namespace avx512 {
extern const VecFunctions kVecFunctions;
}

}  // namespace locant::test
