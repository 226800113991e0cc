// Every instruction set's loops in float against the same loops in double, on odd sizes too.
#include "locant/train/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "locant/simd/dispatch.h"
#include "locant/train/matmul.h"
#include "tests/train/gradient_check.h"

namespace locant::train {
namespace {

using Floats = std::vector<float>;
using Numbers = std::vector<double>;

constexpr int64_t kRows = 3;
constexpr double kEps = oracle::kEpsFloat;

Numbers wide(const Floats& numbers) { return {numbers.begin(), numbers.end()}; }
Floats floats(int64_t n, uint64_t stream, double deviation = 1, double mean = 0) {
  const Numbers numbers = random_numbers(n, stream, deviation, mean);
  return {numbers.begin(), numbers.end()};
}

// |got - want| <= bound[i]; sizes must agree.
void expect_within(const char* name, const Floats& got, const Numbers& want, double bound) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LE(std::fabs(got[i] - want[i]), bound) << name << '[' << i << "]: got " << got[i]
                                                  << ", want " << want[i];
  }
}

double largest(const Numbers& numbers) {
  double max = 0;
  for (double number : numbers) max = std::max(max, std::fabs(number));
  return max;
}

// Width: below, at and beside a vector's length, and the real ones.
class EverySet : public testing::TestWithParam<std::tuple<simd::Set, int64_t>> {
 protected:
  void SetUp() override { ASSERT_TRUE(simd::choose(std::get<0>(GetParam()))); }
  void TearDown() override { simd::choose(simd::available().back()); }
  int64_t width() const { return std::get<1>(GetParam()); }
};

TEST_P(EverySet, LayerNorm) {
  const int64_t n = width(), all = kRows * n;
  const Floats x = floats(all, 1), added = floats(all, 2), added_bias = floats(n, 3);
  const Floats gain = floats(n, 4, 0.3, 1), bias = floats(n, 5), out_gradient = floats(all, 6);
  const auto run = [&]<class T>(T) {
    const std::vector<T> x_(x.begin(), x.end()), added_(added.begin(), added.end()),
        added_bias_(added_bias.begin(), added_bias.end()), gain_(gain.begin(), gain.end()),
        bias_(bias.begin(), bias.end()), out_gradient_(out_gradient.begin(), out_gradient.end());
    std::vector<T> sum(all), out(all), mean(kRows), inverse(kRows);
    elementwise<T>().norm_forward({kRows, n, x_.data(), added_.data(), added_bias_.data(),
                                   sum.data(), gain_.data(), bias_.data(), out.data(),
                                   mean.data(), inverse.data()});
    std::vector<T> sum_gradient = x_, gains(n, T(1)), biases(n, T(2)), added_biases(n, T(3));
    elementwise<T>().norm_backward({kRows, n, sum.data(), mean.data(), inverse.data(),
                                    gain_.data(), out_gradient_.data(), sum_gradient.data(),
                                    gains.data(), biases.data(), added_biases.data()});
    return std::vector<std::vector<T>>{sum, out, sum_gradient, gains, biases, added_biases, inverse};
  };
  const std::vector<Floats> got = run(0.0f);
  const std::vector<Numbers> want = run(0.0);
  // A narrow row may have a tiny deviation, which divides every error.
  const double c = 4 * (1 + static_cast<double>(n)) * (1 + largest(want[6]));
  const char* names[] = {"sum", "out", "sum gradient", "gain", "bias", "added bias", "inverse"};
  for (size_t i = 0; i < got.size(); ++i) {
    expect_within(names[i], got[i], want[i], c * kEps * (1 + largest(want[i])));
  }
}

TEST_P(EverySet, Gelu) {
  const int64_t n = width(), all = kRows * n;
  const Floats x = floats(all, 10, 3), bias = floats(n, 11), later = floats(all, 12);
  Floats values = x, slope(all), gradient = later, biases(n, 1.0f);
  elementwise<float>().gelu_forward({kRows, n, bias.data(), values.data(), slope.data()});
  elementwise<float>().gelu_backward({kRows, n, slope.data(), gradient.data(), biases.data()});
  Numbers want = wide(x), want_slope(all), want_gradient = wide(later), want_biases(n, 1.0);
  const Numbers wide_bias = wide(bias);
  elementwise<double>().gelu_forward({kRows, n, wide_bias.data(), want.data(), want_slope.data()});
  elementwise<double>().gelu_backward(
      {kRows, n, want_slope.data(), want_gradient.data(), want_biases.data()});
  // The argument 2u is rounded before exp: |x s'(2u) 2u| stays below 1 x, and so do the factors.
  const double c = 16 * kEps;
  expect_within("values", values, want, c * (1 + largest(want)));
  expect_within("slope", slope, want_slope, c * (1 + largest(want)));
  expect_within("gradient", gradient, want_gradient, c * (1 + largest(want)) * largest(wide(later)));
  expect_within("bias", biases, want_biases,
                c * (1 + largest(want)) * kRows * (1 + largest(wide(later))));
}

TEST_P(EverySet, GeluFarOut) {
  const int64_t n = width();
  Floats values(n), bias(n, 0.0f), slope(n);
  for (int64_t i = 0; i < n; ++i) values[i] = i % 2 ? 1e4f : -1e4f;
  elementwise<float>().gelu_forward({1, n, bias.data(), values.data(), slope.data()});
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(values[i], i % 2 ? 1e4f : 0.0f) << i;
    EXPECT_EQ(slope[i], i % 2 ? 1.0f : 0.0f) << i;
  }
}

TEST_P(EverySet, CrossEntropy) {
  const int64_t n = width(), stride = n + 3;
  const Floats logits = floats(kRows * stride, 20, 4);
  const int32_t targets[kRows] = {0, static_cast<int32_t>(n - 1), static_cast<int32_t>(n / 2)};
  Floats got = logits, losses(kRows);
  elementwise<float>().cross_entropy(
      {kRows, n, stride, got.data(), targets, losses.data(), true, 0.5f});
  Numbers want = wide(logits), want_losses(kRows);
  elementwise<double>().cross_entropy(
      {kRows, n, stride, want.data(), targets, want_losses.data(), true, 0.5});
  const double c = 4 * (1 + static_cast<double>(n)) * kEps;
  expect_within("losses", losses, want_losses, c * (1 + largest(wide(logits))));
  // exp's argument carries the rounding of the largest logit.
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < stride; ++i) {
      const size_t at = row * stride + i;
      if (i >= n) {
        EXPECT_EQ(got[at], logits[at]) << "between the rows nothing is written";
      } else {
        EXPECT_NEAR(got[at], want[at], c * (1 + largest(wide(logits))));
      }
    }
  }
}

TEST_P(EverySet, NotFiniteStaysNotFinite) {
  const int64_t n = width();
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity()};
  for (float value : bad) {
    const int64_t at = n - 1;
    Floats x = floats(n, 30), out(n), zero(n, 0.0f), one(n, 1.0f), losses(1);
    float mean = 0, inverse = 0;
    const int32_t target = 0;
    x[at] = value;
    elementwise<float>().norm_forward({1, n, x.data(), nullptr, nullptr, nullptr, one.data(),
                                       zero.data(), out.data(), &mean, &inverse});
    EXPECT_FALSE(std::isfinite(out[at]));
    Floats logits = x;
    elementwise<float>().cross_entropy(
        {1, n, n, logits.data(), &target, losses.data(), true, 1.0f});
    EXPECT_FALSE(std::isfinite(losses[0]));
    Floats values = x;
    elementwise<float>().gelu_forward({1, n, zero.data(), values.data(), nullptr});
    EXPECT_FALSE(std::isfinite(values[at]));
    const float* parts[] = {x.data(), one.data()};
    EXPECT_FALSE(std::isfinite(elementwise<float>().sum_parts(n, parts, 2, out.data())));
  }
}

TEST_P(EverySet, BiasAndColumnSums) {
  const int64_t n = width(), all = kRows * n;
  const Floats x = floats(all, 40), bias = floats(n, 41);
  Floats values = x, sums(n, 1.0f);
  elementwise<float>().add_bias(kRows, n, bias.data(), values.data());
  elementwise<float>().column_sums(kRows, n, x.data(), sums.data());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(values[row * n + i], x[row * n + i] + bias[i]);
    }
    EXPECT_EQ(sums[i], 1.0f + x[i] + x[n + i] + x[2 * n + i]);  // in the order of the rows
  }
}

TEST_P(EverySet, SumOfParts) {
  const int64_t n = width() + 2048;  // more than one block
  const Floats a = floats(n, 50), b = floats(n, 51), c = floats(n, 52);
  const float* parts[] = {a.data(), b.data(), c.data()};
  Floats to(n);
  const double squares = elementwise<float>().sum_parts(n, parts, 3, to.data());
  double want = 0;
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(to[i], a[i] + b[i] + c[i]);
    want += static_cast<double>(to[i]) * to[i];
  }
  EXPECT_NEAR(squares, want, 4 * 1025 * kEps * want);
}

// Two steps, worked out in double.
TEST_P(EverySet, AdamW) {
  const int64_t n = width();
  Floats value = floats(n, 60), mean(n, 0.0f), square(n, 0.0f);
  Numbers v = wide(value), m(n, 0.0), s(n, 0.0);
  const double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-8, rate = 0.01, decay = 0.1, scale = 0.5;
  for (int step = 1; step <= 2; ++step) {
    const Floats gradient = floats(n, 60 + static_cast<uint64_t>(step));
    const double corrections[] = {1 / (1 - std::pow(beta1, step)), 1 / (1 - std::pow(beta2, step))};
    elementwise<float>().adamw(
        {.n = n, .value = value.data(), .mean = mean.data(), .square = square.data(),
         .gradient = gradient.data(), .gradient_scale = 0.5f, .beta1 = 0.9f, .beta2 = 0.99f,
         .epsilon = 1e-8f, .mean_correction = static_cast<float>(corrections[0]),
         .square_correction = static_cast<float>(corrections[1]), .learning_rate = 0.01f,
         .weight_decay = 0.1f});
    for (int64_t i = 0; i < n; ++i) {
      const double g = scale * gradient[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      s[i] = beta2 * s[i] + (1 - beta2) * g * g;
      v[i] -= rate * decay * v[i];
      v[i] -= rate * m[i] * corrections[0] / (std::sqrt(s[i] * corrections[1]) + epsilon);
    }
  }
  // 1 - beta2 in float is wrong by eps / 2 / 0.01 of itself, and enters by its square root.
  expect_within("value", value, v, 64 * kEps * (1 + largest(v)));
  expect_within("mean", mean, m, 16 * kEps);
}

INSTANTIATE_TEST_SUITE_P(
    Sets, EverySet,
    testing::Combine(testing::ValuesIn(simd::available()),
                     testing::Values(int64_t{1}, 2, 7, 16, 17, 65, 128, 513)),
    [](const auto& info) {
      return std::string(simd::name(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
    });

TEST(MatrixProduct, FloatIsDoubleRounded) {
  for (const auto a_operand : {Operand::kAsIs, Operand::kTransposed}) {
    for (const auto b_operand : {Operand::kAsIs, Operand::kTransposed}) {
      for (const bool accumulate : {false, true}) {
        const int64_t m = 5, n = 7, k = 33, lda = 40, ldb = 41, ldc = 9;
        const Floats a = floats(40 * 41, 70), b = floats(40 * 41, 71);
        Floats c = floats(m * ldc, 72);
        const Numbers wide_a = wide(a), wide_b = wide(b);
        Numbers want = wide(c);
        multiply<float>(a_operand, b_operand, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc,
                        accumulate);
        multiply<double>(a_operand, b_operand, m, n, k, wide_a.data(), lda, wide_b.data(), ldb,
                         want.data(), ldc, accumulate);
        const double magnitude = (static_cast<double>(k) + 1) * largest(wide_a) * largest(wide_b);
        expect_within("c", c, want, 4 * (1 + static_cast<double>(k)) * kEps * magnitude);
      }
    }
  }
}

TEST(MatrixProduct, Transpose) {
  const Numbers from = random_numbers(19 * 35, 80);
  Numbers to(19 * 35);
  transpose(from.data(), 19, 35, to.data());
  for (int64_t row = 0; row < 19; ++row) {
    for (int64_t column = 0; column < 35; ++column) {
      EXPECT_EQ(to[column * 19 + row], from[row * 35 + column]);
    }
  }
}

}  // namespace
}  // namespace locant::train
