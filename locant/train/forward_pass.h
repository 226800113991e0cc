// One forward pass with attention left to the caller: what generation and an encoder's answers share.
// In the calling thread.
#pragma once

#include <cstdint>
#include <functional>

#include "locant/train/arrays.h"
#include "locant/train/buffer.h"
#include "locant/train/model.h"

namespace locant::train {

class ForwardPass {
 public:
  // For up to `rows` tokens at once. The model must outlive this and keep its numbers.
  ForwardPass(const Model& model, int64_t rows);

  // From qkv [rows][3 width] of a layer to what attention gives, [rows][width].
  using Mix = std::function<void(int64_t layer, const float* qkv, float* mixed)>;
  // tokens: [batch][length]; position_rows: [length][width] or null.
  void run(int64_t batch, int64_t length, const int32_t* tokens, const float* position_rows,
           const Mix& mix);
  // Of the last run: logits [count][vocabulary] of rows first, first + step, ...
  void logits(int64_t first, int64_t step, int64_t count, float* to) const;

 private:
  const ModelConfig& config_;
  ModelArrays<const float> weights_;
  TransposedWeights<float> transposed_;
  Buffer<float> x_, qkv_, mixed_, normed_, out_, statistics_, hidden_;
  int64_t rows_;
};

}  // namespace locant::train
