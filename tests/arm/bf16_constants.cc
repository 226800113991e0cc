// A vector of bf16 ones, twice: as a constant that the compiler sees, and from memory. Prints the sums of
// four dot products with twos, "8 8" when both are right. g++ 12 writes the constant as ones of half
// precision: 0x3c00, read as bf16 0.0078125, gives 0.0625 (and without +fp16 the assembler refuses it).
#include <arm_neon.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

float dot(bfloat16x8_t a, bfloat16x8_t b) {
  return vaddvq_f32(vbfdotq_f32(vdupq_n_f32(0), a, b)) / 2;
}

bfloat16x8_t loaded(const volatile uint16_t* bits) {
  uint16_t eight[8];
  for (uint16_t& one : eight) one = *bits;
  bfloat16x8_t x;
  std::memcpy(&x, eight, sizeof x);
  return x;
}

}  // namespace

int main() {
  const uint16_t one_bits = 0x3f80;
  volatile uint16_t one = 0x3f80, two = 0x4000;
  bfloat16_t constant;
  std::memcpy(&constant, &one_bits, sizeof constant);
  const float by_constant = dot(vdupq_n_bf16(constant), loaded(&two));
  const float by_memory = dot(loaded(&one), loaded(&two));
  std::printf("%g %g\n", static_cast<double>(by_constant), static_cast<double>(by_memory));
}
