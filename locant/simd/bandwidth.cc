#include "locant/simd/bandwidth.h"

#include "locant/simd/dispatch.h"

namespace locant::simd {
namespace {

typedef uint32_t Bits128 __attribute__((vector_size(16), aligned(4)));
typedef uint32_t Bits256 __attribute__((vector_size(32), aligned(4)));
typedef uint32_t Bits512 __attribute__((vector_size(64), aligned(4)));

// Bits are or-ed: no latency to wait for.
template <class Bits>
inline __attribute__((always_inline)) uint32_t read_by(const float* data, int64_t n) {
  constexpr int64_t kFloats = sizeof(Bits) / 4;
  Bits a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kFloats <= n; i += 4 * kFloats) {
    const auto* at = reinterpret_cast<const Bits*>(data + i);
    a |= at[0], b |= at[1], c |= at[2], d |= at[3];
  }
  a |= b | c | d;
  uint32_t all = 0;
  for (int64_t lane = 0; lane < kFloats; ++lane) all |= a[lane];
  for (; i < n; ++i) all |= data[i] != 0;
  return all;
}

#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint32_t read_512(const float* data, int64_t n) {
  return read_by<Bits512>(data, n);
}
__attribute__((target("avx2"))) uint32_t read_256(const float* data, int64_t n) {
  return read_by<Bits256>(data, n);
}
#endif
uint32_t read_128(const float* data, int64_t n) { return read_by<Bits128>(data, n); }

}  // namespace

float read_all(const float* data, int64_t n) {
  switch (chosen()) {
#if defined(__x86_64__)
    case Set::kAvx512:
    case Set::kAvx512Bf16:
      return static_cast<float>(read_512(data, n));
    case Set::kAvx2:
      return static_cast<float>(read_256(data, n));
#endif
    default:
      return static_cast<float>(read_128(data, n));
  }
}

}  // namespace locant::simd
