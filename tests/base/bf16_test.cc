// bf16 against its definition: all 2^16 values, and the nearest of them for floats.
#include "locant/base/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/oracle/random.h"

namespace locant {
namespace {

Bf16 of_bits(uint32_t bits) { return {static_cast<uint16_t>(bits)}; }

// Sign, exponent and fraction by the definition of the format.
double value_of(uint32_t bits) {
  const int exponent = bits >> 7 & 0xff, fraction = bits & 0x7f;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 0xff) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -126 - 7);
  return sign * std::ldexp(128 + fraction, exponent - 127 - 7);
}

TEST(Bf16, EveryValueIsItsDefinitionAndComesBack) {
  for (uint32_t bits = 0; bits < 1u << 16; ++bits) {
    const double want = value_of(bits);
    const float got = to_float(of_bits(bits));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(to_float(to_bf16(got)))) << bits;
      continue;
    }
    EXPECT_EQ(double(got), want) << bits;
    EXPECT_EQ(std::signbit(got), bits >> 15 != 0) << bits;
    EXPECT_EQ(to_bf16(got).bits, bits);
  }
}

// x between two neighbours becomes the nearer one, halfway the even one.
void expect_nearest(float x) {
  const Bf16 got = to_bf16(x);
  if (std::isnan(x)) {
    EXPECT_TRUE(std::isnan(to_float(got)));
    return;
  }
  const uint32_t below = std::bit_cast<uint32_t>(x) >> 16;  // towards zero
  // Beyond the largest number the next one would be 2^128.
  const auto size = [](uint32_t bits) {
    return (bits & 0x7fff) == 0x7f80 ? std::ldexp(1.0, 128) : std::fabs(value_of(bits));
  };
  const double middle = (size(below) + size(below + 1)) / 2, ax = std::fabs(double(x));
  const bool up = ax > middle || (ax == middle && (below & 1));
  EXPECT_EQ(got.bits, std::isinf(x) ? below : below + up) << x;
}

TEST(Bf16, RoundsToTheNearestAndToEven) {
  for (uint32_t upper = 0; upper < 1u << 16; ++upper) {
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      expect_nearest(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  oracle::Rng rng(1);
  for (int n = 0; n < 200000; ++n) {
    expect_nearest(std::bit_cast<float>(static_cast<uint32_t>(rng.bits())));
    expect_nearest(float(rng.normal()));
  }
}

TEST(Bf16, RealIsFloat) {
  static_assert(std::is_same_v<Real<Bf16>, float>);
  static_assert(std::is_same_v<Real<const Bf16>, const float>);
  static_assert(std::is_same_v<Real<double>, double>);
  static_assert(sizeof(Bf16) == 2);
}

}  // namespace
}  // namespace locant
