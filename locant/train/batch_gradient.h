// Loss and gradient of one batch for all that a model learns, in a fixed order of sums.
//
// The batch is cut into shards of whole sequences (about 256 tokens: products of that size run at full
// speed, activations stay in cache), the shards are dealt to at most 8 lanes, a lane runs its shards one
// after the other and has one gradient buffer, and the lanes' buffers are added in their order. None of
// this depends on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "locant/base/executor.h"
#include "locant/train/transformer.h"

namespace locant::train {

inline constexpr int64_t kShardRows = 256;  // tokens a shard, about

template <class T>
class BatchGradient {
 public:
  // All references must outlive this. batch sequences of config.length tokens.
  BatchGradient(const ModelConfig& config, const Scheme& scheme, const ParameterLayout& layout,
                int64_t batch, Executor& executor, int64_t shard_rows = kShardRows);

  struct Result {
    double loss = 0;     // mean over all targets asked for
    double squares = 0;  // sum of squares of the gradient
  };
  // values and gradient: flat buffers of the layout. gradient is overwritten; null: the loss alone.
  // inputs, targets: [batch][length], every token below the vocabulary; nothing is asked where a target
  // is negative, and one at least is not. number_per_key: [batch][length], -inf for padding; or null.
  Result run(const T* values, const int32_t* inputs, const int32_t* targets, T* gradient,
             const T* number_per_key = nullptr);

 private:
  struct Lane {
    Buffer<T> values;
    StepGradients<T> gradients;
  };

  double run_shards(const StepWeights<T>& weights, const int32_t* inputs, const int32_t* targets,
                    const T* number_per_key, bool gradient);
  double sum_trunk(T* gradient);
  double sum_positions(T* gradient);

  const ModelConfig& config_;
  const ParameterLayout& layout_;
  int64_t batch_;
  Executor& executor_;
  int64_t shard_batch_, shards_, trunk_;  // sequences a shard; numbers before the scheme's
  Positions positions_;
  PositionParameters position_values_, position_gradients_;
  std::optional<PositionTerms<T>> terms_;
  TransposedWeights<T> transposed_;
  std::vector<Lane> lanes_;
  std::vector<std::unique_ptr<ShardRunner<T>>> runners_;  // a worker
  std::vector<double> losses_, squares_;                  // a shard; a piece of the trunk
};

}  // namespace locant::train
