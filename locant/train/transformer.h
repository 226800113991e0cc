// One shard of a batch, forward and backward, in one thread: from tokens to losses and gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/train/arrays.h"
#include "locant/train/attention_block.h"
#include "locant/train/buffer.h"
#include "locant/train/feed_forward.h"
#include "locant/train/positions.h"

namespace locant::train {

// What all shards of a step read.
template <class T>
struct StepWeights {
  ModelArrays<const T> arrays;
  const TransposedWeights<T>* transposed = nullptr;
  const PositionTerms<T>* positions = nullptr;
};

// What the shards of one lane add up. A lane is a fixed set of shards, run in order by one thread at a
// time, so its sums do not depend on the number of threads.
template <class T>
struct StepGradients {
  ModelArrays<T> arrays;
  T* values = nullptr;  // the flat buffer that arrays point into
  PositionGradients<T> positions;
};

// A piece of a batch: tokens and what is asked of each place (negative: nothing), [batch][length].
template <class T>
struct ShardTokens {
  int64_t batch, length;
  const int32_t *inputs, *targets;
  const T* number_per_key = nullptr;  // -inf for padding; null: there is none
};

// Activations and scratch for shards of up to `rows` tokens. One for each worker.
template <class T>
class ShardRunner {
 public:
  ShardRunner(const ModelConfig& config, const ParameterLayout& layout, int64_t rows);

  // Returns the sum of the losses, in row order. Backward of gradient_scale times that sum follows
  // if gradients is not null; `first`: the lane's buffers hold nothing yet and are overwritten.
  // learned: whether anybody wants the gradients of the positions.
  double run(const ShardTokens<T>& tokens, const StepWeights<T>& weights, T gradient_scale,
             StepGradients<T>* gradients, bool first, bool learned);

 private:
  double forward(const ShardTokens<T>& tokens, const StepWeights<T>& weights, bool gradient,
                 T gradient_scale);
  void backward(const ShardTokens<T>& tokens, const StepWeights<T>& weights,
                StepGradients<T>& gradients, bool first, bool learned);
  AttentionShape<T> attention_shape(const ShardTokens<T>& tokens) const {
    return {tokens.batch, tokens.length, config_.width, config_.heads, !config_.encoder,
            tokens.number_per_key};
  }
  T* take(int64_t count);

  const ModelConfig& config_;
  const ParameterLayout& layout_;
  int64_t logits_stride_;
  Buffer<T> buffer_;
  int64_t taken_ = 0;

  T *embedded_, *out_, *logits_, *losses_;
  std::vector<AttentionMemory<T>> attention_;        // a layer
  std::vector<FeedForwardMemory<T>> feed_forward_;  // a layer
  NormMemory<T> last_;
  T *residual_gradient_, *narrow_gradient_, *wide_gradient_;
  std::vector<Terms<T>> terms_gradient_;  // scratch, a layer
  attention::Workspace workspace_;
};

}  // namespace locant::train
