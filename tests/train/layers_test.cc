// Each layer's backward against finite differences of its own forward, in double; and forwards against
// their formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "locant/train/attention_block.h"
#include "locant/train/embedding.h"
#include "locant/train/feed_forward.h"
#include "locant/train/linear.h"
#include "tests/train/gradient_check.h"

namespace locant::train {
namespace {

using Numbers = std::vector<double>;

Numbers zeros(int64_t n) { return Numbers(static_cast<size_t>(n)); }

struct NormCase {
  int64_t rows = 3, width = 7;
  Numbers x = random_numbers(21, 1), added = random_numbers(21, 2), added_bias = random_numbers(7, 3);
  Numbers gain = random_numbers(7, 4, 0.3, 1), bias = random_numbers(7, 5);
  Numbers sum = zeros(21), out = zeros(21), mean = zeros(3), inverse = zeros(3);

  NormMemory<double> memory() { return {sum.data(), out.data(), mean.data(), inverse.data()}; }
  void forward() {
    Residual<double> residual{x.data(), added.data(), added_bias.data()};
    NormMemory<double> m = memory();
    norm_forward(residual, rows, width, gain.data(), bias.data(), m);
  }
};

TEST(LayerNorm, IsItsFormula) {
  NormCase c;
  c.forward();
  for (int64_t row = 0; row < c.rows; ++row) {
    double mean = 0, variance = 0;
    Numbers sum(7);
    for (int64_t i = 0; i < 7; ++i) {
      sum[i] = c.x[row * 7 + i] + c.added[row * 7 + i] + c.added_bias[i];
      mean += sum[i] / 7;
    }
    for (double s : sum) variance += (s - mean) * (s - mean) / 7;
    for (int64_t i = 0; i < 7; ++i) {
      EXPECT_DOUBLE_EQ(c.sum[row * 7 + i], sum[i]);
      EXPECT_NEAR(c.out[row * 7 + i],
                  c.gain[i] * (sum[i] - mean) / std::sqrt(variance + 1e-5) + c.bias[i], 1e-14);
    }
  }
}

TEST(LayerNorm, BackwardIsTheDerivative) {
  NormCase c;
  const Numbers weights = random_numbers(21, 6), from_later = random_numbers(21, 7);
  // The stream's own way on: the sum also reaches the loss directly.
  const auto loss = [&] {
    c.forward();
    return weighted(weights, c.out.data()) + weighted(from_later, c.sum.data());
  };
  loss();
  const double magnitude =
      magnitude_of(weights, c.out.data()) + magnitude_of(from_later, c.sum.data());
  Numbers x_gradient = from_later, gain = zeros(7), bias = zeros(7), added_bias = zeros(7);
  norm_backward(c.memory(), c.rows, c.width, c.gain.data(), weights.data(), x_gradient.data(),
                gain.data(), bias.data(), added_bias.data());
  expect_gradient("x", loss, c.x, x_gradient, magnitude, 40);
  expect_gradient("added", loss, c.added, x_gradient, magnitude, 40);
  expect_gradient("added bias", loss, c.added_bias, added_bias, magnitude, 40);
  expect_gradient("gain", loss, c.gain, gain, magnitude, 40);
  expect_gradient("bias", loss, c.bias, bias, magnitude, 40);
}

TEST(Gelu, IsTheTanhFormAndItsDerivative) {
  constexpr int64_t kRows = 2, kWidth = 9;
  Numbers x = random_numbers(18, 10, 2), bias = random_numbers(9, 11);
  const Numbers weights = random_numbers(18, 12);
  Numbers values, slope = zeros(18);
  const auto loss = [&] {
    values = x;
    elementwise<double>().gelu_forward({.rows = kRows, .width = kWidth, .bias = bias.data(),
                                        .values = values.data(), .slope = slope.data()});
    return weighted(weights, values.data());
  };
  loss();
  for (int64_t i = 0; i < 18; ++i) {
    const double t = x[i] + bias[i % 9];
    const double u = std::sqrt(2 / std::acos(-1.0)) * (t + 0.044715 * t * t * t);
    EXPECT_NEAR(values[i], 0.5 * t * (1 + std::tanh(u)), 1e-15 * (1 + std::fabs(t)) * 8);
  }
  Numbers gradient = weights, bias_gradient = zeros(9);
  elementwise<double>().gelu_backward({.rows = kRows, .width = kWidth, .slope = slope.data(),
                                       .gradient = gradient.data(),
                                       .bias_gradient = bias_gradient.data()});
  const double magnitude = magnitude_of(weights, values.data());
  expect_gradient("x", loss, x, gradient, magnitude, 40);
  expect_gradient("bias", loss, bias, bias_gradient, magnitude, 40);
}

TEST(CrossEntropy, IsItsFormulaAndItsDerivative) {
  constexpr int64_t kRows = 3, kVocabulary = 5, kStride = 8;
  const int32_t targets[kRows] = {4, 0, 2};
  Numbers logits = random_numbers(kRows * kStride, 20, 3);
  Numbers losses = zeros(kRows), gradient;
  const auto loss = [&] {
    Numbers scratch = logits;
    elementwise<double>().cross_entropy(
        {.rows = kRows, .vocabulary = kVocabulary, .stride = kStride, .logits = scratch.data(),
         .targets = targets, .losses = losses.data(), .gradient = false, .gradient_scale = 0});
    EXPECT_EQ(scratch, logits) << "logits must stay when no gradient is wanted";
    return 0.25 * (losses[0] + losses[1] + losses[2]);
  };
  const double value = loss();
  for (int64_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < kVocabulary; ++i) sum += std::exp(logits[row * kStride + i]);
    EXPECT_NEAR(losses[row], std::log(sum) - logits[row * kStride + targets[row]], 1e-13);
  }
  gradient = logits;
  elementwise<double>().cross_entropy(
      {.rows = kRows, .vocabulary = kVocabulary, .stride = kStride, .logits = gradient.data(),
       .targets = targets, .losses = losses.data(), .gradient = true, .gradient_scale = 0.25});
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = kVocabulary; i < kStride; ++i) {  // between the rows nothing is written
      EXPECT_EQ(gradient[row * kStride + i], logits[row * kStride + i]);
      gradient[row * kStride + i] = 0;
    }
  }
  expect_gradient("logits", loss, logits, gradient, value, 40);
}

TEST(CrossEntropy, HugeLogitsStayFinite) {
  double logits[4] = {3e4, -3e4, 0, 3e4}, loss = 0;
  const int32_t target = 3;
  elementwise<double>().cross_entropy({.rows = 1, .vocabulary = 4, .stride = 4, .logits = logits,
                                       .targets = &target, .losses = &loss, .gradient = true,
                                       .gradient_scale = 1});
  EXPECT_DOUBLE_EQ(loss, std::log(2.0));
  EXPECT_DOUBLE_EQ(logits[0], 0.5);
  EXPECT_DOUBLE_EQ(logits[3], -0.5);
}

TEST(Linear, BackwardIsTheDerivative) {
  constexpr int64_t kRows = 4, kIn = 3, kOut = 5;
  Numbers x = random_numbers(kRows * kIn, 30), weight = random_numbers(kIn * kOut, 31);
  const Numbers weights = random_numbers(kRows * kOut, 32);
  Numbers y = zeros(kRows * kOut), transposed = zeros(kIn * kOut);
  const auto loss = [&] {
    linear_forward(kRows, kIn, kOut, x.data(), weight.data(), y.data());
    return weighted(weights, y.data());
  };
  loss();
  const double magnitude = magnitude_of(weights, y.data());
  transpose(weight.data(), kIn, kOut, transposed.data());
  Numbers x_gradient = zeros(kRows * kIn), weight_gradient = random_numbers(kIn * kOut, 33);
  linear_backward_input(kRows, kIn, kOut, weights.data(), transposed.data(), x_gradient.data());
  linear_backward_weight(kRows, kIn, kOut, x.data(), weights.data(), weight_gradient.data(), false);
  expect_gradient("x", loss, x, x_gradient, magnitude, 40);
  expect_gradient("weight", loss, weight, weight_gradient, magnitude, 40);
  const Numbers once = weight_gradient;
  linear_backward_weight(kRows, kIn, kOut, x.data(), weights.data(), weight_gradient.data(), true);
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(weight_gradient[i], 2 * once[i], 1e-13) << "accumulate adds";
  }
}

TEST(Embedding, BackwardIsTheDerivative) {
  constexpr int64_t kBatch = 2, kLength = 3, kWidth = 4;
  const int32_t tokens[kBatch * kLength] = {1, 1, 4, 0, 1, 4};  // 2 and 3 do not occur
  Numbers table = random_numbers(5 * kWidth, 40), rows = random_numbers(kLength * kWidth, 41);
  const Numbers weights = random_numbers(kBatch * kLength * kWidth, 42);
  Numbers x = zeros(kBatch * kLength * kWidth);
  const auto loss = [&] {
    embedding_forward(kBatch, kLength, kWidth, tokens, table.data(), rows.data(), x.data());
    return weighted(weights, x.data());
  };
  loss();
  Numbers table_gradient = zeros(5 * kWidth), rows_gradient = zeros(kLength * kWidth);
  embedding_backward(kBatch, kLength, kWidth, tokens, weights.data(), table_gradient.data(),
                     rows_gradient.data());
  const double magnitude = magnitude_of(weights, x.data());
  expect_gradient("table", loss, table, table_gradient, magnitude, 40);
  expect_gradient("rows", loss, rows, rows_gradient, magnitude, 40);
}

// Both sublayers: norm, linear in, something, linear out, and the residual stream past them.
struct SublayerCase {
  int64_t width, inner;  // linear in: width -> inner; out: from_inner -> width
  int64_t from_inner;
  Numbers norm_gain = random_numbers(width, 50, 0.3, 1), norm_bias = random_numbers(width, 51);
  Numbers in_weight = random_numbers(width * inner, 52, 0.5), in_bias = random_numbers(inner, 53);
  Numbers out_weight = random_numbers(from_inner * width, 54, 0.5);
  Numbers out_bias = random_numbers(width, 55);
  Numbers in_transposed = zeros(width * inner), out_transposed = zeros(from_inner * width);
  Numbers gradient_of[6] = {zeros(width), zeros(width), zeros(width * inner), zeros(inner),
                            zeros(from_inner * width), zeros(width)};

  SublayerArrays<const double> arrays() const {
    return {norm_gain.data(), norm_bias.data(), in_weight.data(), in_bias.data(),
            out_weight.data(), out_bias.data()};
  }
  SublayerArrays<double> gradients() {
    return {gradient_of[0].data(), gradient_of[1].data(), gradient_of[2].data(),
            gradient_of[3].data(), gradient_of[4].data(), gradient_of[5].data()};
  }
  void turn_weights() {
    transpose(in_weight.data(), width, inner, in_transposed.data());
    transpose(out_weight.data(), from_inner, width, out_transposed.data());
  }
  // out_bias is missing: its gradient belongs to the next norm (LayerNorm above).
  template <class F>
  void expect_gradients(F&& loss, double magnitude) {
    constexpr double kOperations = 200;
    expect_gradient("norm gain", loss, norm_gain, gradient_of[0], magnitude, kOperations);
    expect_gradient("norm bias", loss, norm_bias, gradient_of[1], magnitude, kOperations);
    expect_gradient("in weight", loss, in_weight, gradient_of[2], magnitude, kOperations);
    expect_gradient("in bias", loss, in_bias, gradient_of[3], magnitude, kOperations);
    expect_gradient("out weight", loss, out_weight, gradient_of[4], magnitude, kOperations);
  }
};

TEST(FeedForward, BackwardIsTheDerivative) {
  constexpr int64_t kRows = 3, kWidth = 4, kHidden = 6;
  SublayerCase c{.width = kWidth, .inner = kHidden, .from_inner = kHidden};
  Numbers x = random_numbers(kRows * kWidth, 60), added = random_numbers(kRows * kWidth, 61);
  Numbers added_bias = random_numbers(kWidth, 62);
  const Numbers weights = random_numbers(kRows * kWidth, 63);
  Numbers sum = zeros(12), normed = zeros(12), statistics = zeros(6), hidden = zeros(18),
          slope = zeros(18), out = zeros(12);
  FeedForwardMemory<double> memory;
  const auto loss = [&] {
    memory = {{sum.data(), normed.data(), statistics.data(), statistics.data() + 3},
              hidden.data(), slope.data()};
    Residual<double> residual{x.data(), added.data(), added_bias.data()};
    feed_forward_forward({kRows, kWidth, kHidden}, c.arrays(), residual, memory, out.data());
    EXPECT_EQ(residual.added, out.data());
    return weighted(weights, out.data()) + weighted(weights, residual.x);
  };
  loss();
  const double magnitude = magnitude_of(weights, out.data()) + magnitude_of(weights, sum.data());
  c.turn_weights();
  Numbers x_gradient = weights, added_bias_gradient = zeros(kWidth), wide = zeros(18),
          narrow = zeros(12);
  feed_forward_backward<double>(
      {kRows, kWidth, kHidden},
      {.weights = c.arrays(), .in_transposed = c.in_transposed.data(),
       .out_transposed = c.out_transposed.data(), .gradients = c.gradients(), .accumulate = false,
       .added_bias_gradient = added_bias_gradient.data(), .activated_gradient = wide.data(),
       .normed_gradient = narrow.data()},
      memory, x_gradient.data());
  c.expect_gradients(loss, magnitude);
  expect_gradient("x", loss, x, x_gradient, magnitude, 200);
  expect_gradient("added bias", loss, added_bias, added_bias_gradient, magnitude, 200);
}

TEST(AttentionBlock, BackwardIsTheDerivative) {
  const AttentionShape<double> shape{.batch = 2, .length = 3, .width = 4, .heads = 2};
  const int64_t rows = shape.rows(), width = shape.width;
  SublayerCase c{.width = width, .inner = 3 * width, .from_inner = width};
  // A number for each distance and head, learned, and inside the scale.
  Terms<double> terms;
  terms.number.emplace();
  terms.number->scaled = true;
  terms.number->index = {.first = -2, .rows = {0, 1, 2}, .before = kNoRow, .after = kNoRow};
  terms.number->table = Table<double>(2, 3, 1);
  terms.number->table.data = random_numbers(6, 70);
  Numbers x = random_numbers(rows * width, 71);
  const Numbers weights = random_numbers(rows * width, 72);
  Numbers normed = zeros(24), statistics = zeros(12), qkv = zeros(72), mixed = zeros(24),
          lse = zeros(12), out = zeros(24);
  AttentionMemory<double> memory;
  attention::Workspace workspace;
  const auto loss = [&] {
    memory = {{nullptr, normed.data(), statistics.data(), statistics.data() + 6}, qkv.data(),
              mixed.data(), lse.data()};
    Residual<double> residual{x.data()};
    attention_block_forward(shape, c.arrays(), terms, residual, memory, out.data(), workspace);
    EXPECT_EQ(residual.x, x.data()) << "nothing waited, so nothing was copied";
    return weighted(weights, out.data()) + weighted(weights, residual.x);
  };
  loss();
  const double magnitude = magnitude_of(weights, out.data()) + magnitude_of(weights, x.data());
  c.turn_weights();
  Numbers x_gradient = weights, wide = zeros(72), narrow = zeros(24);
  Terms<double> terms_gradient = zeros_like(terms);
  attention_block_backward<double>(
      shape,
      {.weights = c.arrays(), .in_transposed = c.in_transposed.data(),
       .out_transposed = c.out_transposed.data(), .terms = &terms, .gradients = c.gradients(),
       .accumulate = false, .added_bias_gradient = nullptr, .terms_gradient = &terms_gradient,
       .qkv_gradient = wide.data(), .mixed_gradient = narrow.data(),
       .normed_gradient = narrow.data()},
      memory, x_gradient.data(), workspace);
  c.expect_gradients(loss, magnitude);
  expect_gradient("x", loss, x, x_gradient, magnitude, 200);
  expect_gradient("table", loss, terms.number->table.data, terms_gradient.number->table.data,
                  magnitude, 200);
}

}  // namespace
}  // namespace locant::train
