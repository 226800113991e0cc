#include "locant/train/transformer.h"

#include <algorithm>

#include "locant/train/embedding.h"
#include "locant/train/linear.h"

namespace locant::train {

constexpr int64_t kLine = 16;  // numbers: every array begins on a cache line, or nearly (double)

template <class T>
T* ShardRunner<T>::take(int64_t count) {
  // First pass: buffer_ is empty and only the sum is wanted.
  T* at = buffer_.size() == 0 ? nullptr : buffer_.data() + taken_;
  taken_ += (count + kLine - 1) / kLine * kLine;
  return at;
}

template <class T>
ShardRunner<T>::ShardRunner(const ModelConfig& config, const ParameterLayout& layout, int64_t rows)
    : config_(config), layout_(layout),
      logits_stride_((config.vocabulary + kLine - 1) / kLine * kLine) {
  const int64_t width = config.width, hidden = config.hidden();
  const int64_t wide = std::max(3 * width, hidden);
  const auto norm = [&] {
    return NormMemory<T>{take(rows * width), take(rows * width), take(rows), take(rows)};
  };
  for (int pass = 0; pass < 2; ++pass) {
    if (pass == 1) buffer_ = Buffer<T>(taken_);
    taken_ = 0;
    attention_.clear();
    feed_forward_.clear();
    embedded_ = take(rows * width);
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      NormMemory<T> first = norm();
      T* qkv = take(rows * 3 * width);
      T* mixed = take(rows * width);
      attention_.push_back({first, qkv, mixed, take(rows * config.heads)});
      NormMemory<T> second = norm();
      T* activated = take(rows * hidden);
      feed_forward_.push_back({second, activated, take(rows * hidden)});
    }
    last_ = norm();
    out_ = take(rows * width);
    logits_ = take(rows * logits_stride_);
    losses_ = take(rows);
    residual_gradient_ = take(rows * width);
    narrow_gradient_ = take(rows * width);
    wide_gradient_ = take(rows * wide);
  }
}

template <class T>
double ShardRunner<T>::run(const ShardTokens<T>& tokens, const StepWeights<T>& weights,
                           T gradient_scale, StepGradients<T>* gradients, bool first,
                           bool learned) {
  const SingleThread single;
  const double loss = forward(tokens, weights, gradients != nullptr, gradient_scale);
  if (gradients) backward(tokens, weights, *gradients, first, learned);
  return loss;
}

template <class T>
double ShardRunner<T>::forward(const ShardTokens<T>& tokens, const StepWeights<T>& weights,
                               bool gradient, T gradient_scale) {
  const int64_t rows = tokens.batch * tokens.length, width = config_.width;
  const AttentionShape<T> attention = attention_shape(tokens);
  const FeedForwardShape feed_forward{rows, width, config_.hidden()};
  const PositionTerms<T>& positions = *weights.positions;

  embedding_forward<T>(tokens.batch, tokens.length, width, tokens.inputs,
                       weights.arrays.embedding,
                       positions.rows.empty() ? nullptr : positions.rows.data(), embedded_);
  Residual<T> residual{embedded_};
  for (size_t layer = 0; layer < attention_.size(); ++layer) {
    attention_block_forward(attention, weights.arrays.attention[layer],
                            positions.layer(static_cast<int64_t>(layer)), residual,
                            attention_[layer], out_, workspace_);
    feed_forward_forward(feed_forward, weights.arrays.feed_forward[layer], residual,
                         feed_forward_[layer], out_);
  }
  norm_forward<T>(residual, rows, width, weights.arrays.norm_gain, weights.arrays.norm_bias, last_);
  multiply<T>(Operand::kAsIs, Operand::kAsIs, rows, config_.vocabulary, width, last_.out, width,
              weights.transposed->head(), config_.vocabulary, logits_, logits_stride_, false);
  elementwise<T>().cross_entropy({.rows = rows, .vocabulary = config_.vocabulary,
                                  .stride = logits_stride_, .logits = logits_,
                                  .targets = tokens.targets, .losses = losses_,
                                  .gradient = gradient, .gradient_scale = gradient_scale});
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row) loss += static_cast<double>(losses_[row]);
  return loss;
}

template <class T>
void ShardRunner<T>::backward(const ShardTokens<T>& tokens, const StepWeights<T>& weights,
                              StepGradients<T>& gradients, bool first, bool learned) {
  const int64_t rows = tokens.batch * tokens.length, width = config_.width;
  const AttentionShape<T> attention = attention_shape(tokens);
  const FeedForwardShape feed_forward{rows, width, config_.hidden()};
  const PositionTerms<T>& positions = *weights.positions;
  if (first) {
    // Vectors are summed row by row and begin at zero; weights are overwritten by their products.
    for (const ParameterArray& array : layout_.arrays()) {
      if (array.shape.size() != 1 || array.position) continue;
      std::fill_n(gradients.values + array.offset, array.size, T(0));
    }
    std::fill(gradients.positions.rows.begin(), gradients.positions.rows.end(), T(0));
  }

  // logits = last.out embedding^T; the logits' gradient lies in their place
  multiply<T>(Operand::kTransposed, Operand::kAsIs, config_.vocabulary, width, rows, logits_,
              logits_stride_, last_.out, width, gradients.arrays.embedding, width, !first);
  multiply<T>(Operand::kAsIs, Operand::kAsIs, rows, width, config_.vocabulary, logits_,
              logits_stride_, weights.arrays.embedding, width, narrow_gradient_, width, false);
  std::fill_n(residual_gradient_, rows * width, T(0));
  norm_backward<T>(last_, rows, width, weights.arrays.norm_gain, narrow_gradient_,
                   residual_gradient_, gradients.arrays.norm_gain, gradients.arrays.norm_bias,
                   gradients.arrays.feed_forward.back().out_bias);

  for (size_t layer = attention_.size(); layer-- > 0;) {
    const int64_t l = static_cast<int64_t>(layer);
    feed_forward_backward<T>(
        feed_forward,
        {.weights = weights.arrays.feed_forward[layer],
         .in_transposed = weights.transposed->feed_forward(l).in,
         .out_transposed = weights.transposed->feed_forward(l).out,
         .gradients = gradients.arrays.feed_forward[layer], .accumulate = !first,
         .added_bias_gradient = gradients.arrays.attention[layer].out_bias,
         .activated_gradient = wide_gradient_, .normed_gradient = narrow_gradient_},
        feed_forward_[layer], residual_gradient_);

    Terms<T>* terms_gradient = nullptr;
    if (learned && first) {
      terms_gradient = &gradients.positions.terms[layer];
    } else if (learned) {
      if (terms_gradient_.empty()) terms_gradient_ = gradients.positions.terms;
      terms_gradient = &terms_gradient_[layer];
    }
    attention_block_backward<T>(
        attention,
        {.weights = weights.arrays.attention[layer],
         .in_transposed = weights.transposed->attention(l).in,
         .out_transposed = weights.transposed->attention(l).out, .terms = &positions.layer(l),
         .gradients = gradients.arrays.attention[layer], .accumulate = !first,
         .added_bias_gradient =
             layer ? gradients.arrays.feed_forward[layer - 1].out_bias : nullptr,
         .terms_gradient = terms_gradient, .qkv_gradient = wide_gradient_,
         .mixed_gradient = narrow_gradient_, .normed_gradient = narrow_gradient_},
        attention_[layer], residual_gradient_, workspace_);
    if (learned && !first) add_terms(*terms_gradient, gradients.positions.terms[layer]);
  }

  embedding_backward<T>(
      tokens.batch, tokens.length, width, tokens.inputs, residual_gradient_,
      gradients.arrays.embedding,
      learned && !gradients.positions.rows.empty() ? gradients.positions.rows.data() : nullptr);
}

template class ShardRunner<float>;
template class ShardRunner<double>;

}  // namespace locant::train
