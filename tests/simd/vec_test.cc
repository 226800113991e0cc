// Every function of the vector layer, on every instruction set of this machine, against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "locant/base/bf16.h"
#include "locant/simd/dispatch.h"
#include "tests/simd/vec_functions.h"

namespace locant::test {
namespace {

using simd::Set;

const VecFunctions* functions_of(Set set) {
  switch (set) {
    case Set::kScalar:
      return &scalar::kVecFunctions;
#if defined(__aarch64__)
    case Set::kNeon:
      return &neon::kVecFunctions;
#elif defined(__x86_64__)
    case Set::kAvx2:
      return &avx2::kVecFunctions;
    case Set::kAvx512:
    case Set::kAvx512Bf16:
      return &avx512::kVecFunctions;
#endif
    default:
      return nullptr;
  }
}

constexpr int kMost = 16;  // lanes
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class VecOf : public testing::TestWithParam<Set> {
 protected:
  void SetUp() override {
    ASSERT_NE(functions_of(GetParam()), nullptr);
    v_ = *functions_of(GetParam());
    for (int n = 0; n < 4 * kMost; ++n) {
      numbers_[n] = 0.37f * float((n * 29) % 64) - 11;
      whole_[n] = (n * 29) % 64 - 30;
    }
  }
  VecFunctions v_;
  float numbers_[4 * kMost], out_[kMost * kMost] = {};
  int32_t whole_[4 * kMost], whole_out_[8 * kMost] = {};
};

INSTANTIATE_TEST_SUITE_P(On, VecOf, testing::ValuesIn(simd::available()),
                         [](const auto& info) { return std::string(simd::name(info.param)); });

// Largest error of f in units of the last place, over steps of x.
template <class F, class G>
double worst_ulp(int lanes, double from, double to, int steps, F&& f, G&& exact) {
  double worst = 0;
  for (int n = 0; n < steps; n += lanes) {
    float x[kMost], got[kMost];
    for (int l = 0; l < lanes; ++l) x[l] = float(from + (to - from) * (n + l) / steps);
    f(x, got);
    for (int l = 0; l < lanes; ++l) {
      const double want = exact(double(x[l]));
      const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
      worst = std::max(worst, std::abs(double(got[l]) - want) / ulp);
    }
  }
  return worst;
}

TEST_P(VecOf, Exp2) {
  const auto exact = [](double x) { return std::exp2(x); };
  EXPECT_LT(worst_ulp(v_.lanes, -125.5, 127, 200000, v_.exp2, exact), 4);
  EXPECT_LT(worst_ulp(v_.lanes, -1, 1, 200000, v_.exp2, exact), 4);
  for (int whole = -126; whole < 127; ++whole) {
    float x[kMost];
    for (float& one : x) one = float(whole);
    v_.exp2(x, out_);
    EXPECT_EQ(out_[0], std::ldexp(1.0f, whole)) << "of " << whole;
  }
}

TEST_P(VecOf, Exp2MinusOne) {
  const auto exact = [](double x) { return std::expm1(x * std::log(2.0)); };
  for (double size : {1e-30, 1e-6, 1e-2, 0.6, 3.0, 120.0}) {
    // Steps that do not meet 0.
    EXPECT_LT(worst_ulp(v_.lanes, -size, 0.999 * size, 100001, v_.exp2_minus_one, exact), 5) << size;
  }
  for (float& one : numbers_) one = 0;
  v_.exp2_minus_one(numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], 0);
  for (float& one : numbers_) one = kNan;
  v_.exp2_minus_one(numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_TRUE(std::isnan(out_[l]));
}

TEST_P(VecOf, Exp2OfLargeNegativeNumbersAndNan) {
  for (float far : {-127.5f, -1000.0f, -1e30f}) {
    float x[kMost];
    for (float& one : x) one = far;
    v_.exp2(x, out_);
    for (int l = 0; l < v_.lanes; ++l) EXPECT_LE(out_[l], 0x1p-126f) << far;
    for (int l = 0; l < v_.lanes; ++l) EXPECT_GE(out_[l], 0) << far;
  }
  for (float& one : numbers_) one = kNan;
  v_.exp2(numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_TRUE(std::isnan(out_[l]));
}

TEST_P(VecOf, Log) {
  // Near 1 the result is small: what counts is then the error next to that of rounding 1 + f.
  for (double scale : {1e-30, 1e-3, 2.0, 1e5, 1e30}) {
    const auto exact = [](double x) { return std::log(x); };
    EXPECT_LT(worst_ulp(v_.lanes, scale, 3 * scale, 50000, v_.log, exact), 4) << scale;
  }
  for (float& one : numbers_) one = 1;
  v_.log(numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], 0);
  for (float& one : numbers_) one = kNan;
  v_.log(numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_TRUE(std::isnan(out_[l]));
}

TEST_P(VecOf, Arithmetic) {
  const float *a = numbers_, *b = numbers_ + kMost, *c = numbers_ + 2 * kMost;
  v_.fma(a, b, c, out_);
  for (int l = 0; l < v_.lanes; ++l) {
    const double exact = double(a[l]) * b[l] + c[l];
    EXPECT_NEAR(out_[l], exact, 0x1p-23 * (std::abs(double(a[l]) * b[l]) + std::abs(exact)));
  }
  v_.max(a, b, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], std::max(a[l], b[l]));
  v_.min(a, b, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], std::min(a[l], b[l]));
}

TEST_P(VecOf, MinKeepsTheSecondWhenItIsNan) {
  float x[kMost];
  for (float& one : x) one = kNan;
  v_.min(numbers_, x, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_TRUE(std::isnan(out_[l]));
}

TEST_P(VecOf, MaxTakesTheSecondWhenTheFirstIsNanAndRaiseKeepsIt) {
  float x[kMost];
  v_.raise(numbers_, numbers_ + kMost, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], std::max(numbers_[l], numbers_[kMost + l]));
  for (float& one : x) one = kNan;
  v_.raise(numbers_, x, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_TRUE(std::isnan(out_[l]));
  v_.max(x, numbers_, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], numbers_[l]);
}

TEST_P(VecOf, WholeNumbers) {
  const int32_t *a = whole_, *b = whole_ + kMost;
  const int L = v_.lanes;
  v_.whole(a, b, whole_out_);
  for (int l = 0; l < L; ++l) {
    EXPECT_EQ(whole_out_[l], a[l] + b[l]);
    EXPECT_EQ(whole_out_[L + l], a[l] - b[l]);
    EXPECT_EQ(whole_out_[2 * L + l], std::max(a[l], b[l]));
    EXPECT_EQ(whole_out_[3 * L + l], std::min(a[l], b[l]));
    float number;
    std::memcpy(&number, whole_out_ + 4 * L + l, sizeof number);
    EXPECT_EQ(number, float(a[l]));
    EXPECT_EQ(whole_out_[5 * L + l], a[l] * b[l]);
    EXPECT_EQ(whole_out_[6 * L + l], a[l] ^ b[l]);
    EXPECT_EQ(whole_out_[7 * L + l], int32_t(uint32_t(a[l]) >> 7));
  }
  v_.iota(whole_out_);
  for (int l = 0; l < L; ++l) EXPECT_EQ(whole_out_[l], l);
}

TEST_P(VecOf, MasksAndSelection) {
  const float *a = numbers_, *b = numbers_ + kMost;
  const int32_t largest = std::numeric_limits<int32_t>::max();
  for (const auto& [low, width] : {std::pair<int32_t, int32_t>(-3, 9), {0, largest}, {40, 5}, {-40, 100}}) {
    bool some = false;
    const bool any = v_.in_band(whole_, low, width, a, b, out_);
    for (int l = 0; l < v_.lanes; ++l) {
      const bool in = whole_[l] >= low && whole_[l] <= int64_t(low) + width;
      some |= in;
      EXPECT_EQ(out_[l], in ? a[l] : b[l]) << whole_[l] << " from " << low << " width " << width;
    }
    EXPECT_EQ(any, some);
  }
  // One lane alone is seen.
  for (int one = 0; one < v_.lanes; ++one) {
    int32_t x[kMost] = {};
    x[one] = 7;
    EXPECT_TRUE(v_.in_band(x, 7, 0, a, b, out_));
    for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], l == one ? a[l] : b[l]);
  }
  float x[kMost], y[kMost];
  for (int l = 0; l < kMost; ++l) x[l] = float(l % 3), y[l] = l == 3 ? kNan : 1;
  EXPECT_TRUE(v_.less(x, y, a, b, out_));
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], x[l] < y[l] ? a[l] : b[l]);
  EXPECT_FALSE(v_.less(a, a, a, b, out_));
}

TEST_P(VecOf, LooksUp) {
  int32_t index[kMost];
  uint8_t lanes[kMost];
  for (int l = 0; l < kMost; ++l) {
    index[l] = (l * 37 + 5) % (4 * kMost);
    lanes[l] = uint8_t((l * 7 + 3) % v_.lanes);
  }
  v_.gather(numbers_, index, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], numbers_[index[l]]);
  v_.igather(whole_, index, whole_out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(whole_out_[l], whole_[index[l]]);
  v_.pick(numbers_ + 1, lanes, out_);
  for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], numbers_[1 + lanes[l]]);
}

TEST_P(VecOf, TransposesAndReduces) {
  const int L = v_.lanes;
  std::vector<float> in(size_t(L * L));
  for (size_t n = 0; n < in.size(); ++n) in[n] = float(n);
  v_.transpose(in.data(), out_);
  for (int r = 0; r < L; ++r) {
    for (int c = 0; c < L; ++c) EXPECT_EQ(out_[r * L + c], in[size_t(c * L + r)]);
  }
  float sum = 0;
  for (int at = 0; at < L; ++at) {
    float x[kMost];
    for (int l = 0; l < kMost; ++l) x[l] = l == at ? -0.5f : -1 - float(l);
    EXPECT_EQ(v_.hmax(x), -0.5f);
    sum += float(at);
  }
  float x[kMost];
  for (int l = 0; l < kMost; ++l) x[l] = float(l);
  EXPECT_EQ(v_.hsum(x), sum);
}

// Nothing beyond the first n lanes is read (the sanitizers would see it) or written.
TEST_P(VecOf, PartsOfAVector) {
  for (int n = 1; n <= v_.lanes; ++n) {
    const std::vector<float> part(numbers_, numbers_ + n);
    v_.load_first(part.data(), n, out_);
    for (int l = 0; l < v_.lanes; ++l) EXPECT_EQ(out_[l], l < n ? numbers_[l] : 0) << n;
    std::vector<float> to(kMost, -99.0f);
    v_.store_first(numbers_, n, to.data());
    for (int l = 0; l < kMost; ++l) EXPECT_EQ(to[size_t(l)], l < n ? numbers_[l] : -99.0f) << n;
  }
}

// bf16 numbers against base/bf16.h: ties, numbers on both sides of them, the largest, infinities, NaN.
TEST_P(VecOf, Bf16) {
  std::vector<uint32_t> bits;
  for (uint32_t high : {0x0000u, 0x0001u, 0x3f80u, 0x3f81u, 0x7f7fu, 0x7f80u, 0x7fa0u, 0xbf80u, 0xff80u, 0xffc1u}) {
    for (uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) bits.push_back(high << 16 | low);
  }
  while (bits.size() % kMost != 0) bits.push_back(0x3f800000);
  const auto is_bf16 = [](Bf16 got, float from) {
    return std::isnan(from) ? std::isnan(to_float(got)) : got.bits == to_bf16(from).bits;
  };
  for (size_t at = 0; at < bits.size(); at += size_t(v_.lanes)) {
    float x[kMost];
    std::memcpy(x, bits.data() + at, size_t(v_.lanes) * 4);
    for (int n = 1; n <= v_.lanes; ++n) {
      std::vector<uint16_t> to(kMost, 7);
      v_.store_bf16(x, n, to.data());
      for (int l = 0; l < kMost; ++l) {
        if (l < n) {
          EXPECT_TRUE(is_bf16(Bf16{to[size_t(l)]}, x[l])) << std::hex << bits[at + size_t(l)];
        } else {
          EXPECT_EQ(to[size_t(l)], 7);
        }
      }
      const std::vector<uint16_t> part(to.begin(), to.begin() + n);
      v_.load_bf16(part.data(), n, out_);
      for (int l = 0; l < v_.lanes; ++l) {
        const float want = l < n ? to_float(Bf16{part[size_t(l)]}) : 0;
        EXPECT_EQ(std::memcmp(&out_[l], &want, 4), 0) << out_[l] << " for " << want;
      }
    }
  }
}

}  // namespace
}  // namespace locant::test
