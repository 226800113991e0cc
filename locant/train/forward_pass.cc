#include "locant/train/forward_pass.h"

#include "locant/train/attention_block.h"
#include "locant/train/embedding.h"
#include "locant/train/feed_forward.h"
#include "locant/train/linear.h"

namespace locant::train {

ForwardPass::ForwardPass(const Model& model, int64_t rows)
    : config_(model.config()), weights_(model.layout(), config_.layers, model.values()),
      transposed_(config_), x_(rows * config_.width), qkv_(rows * 3 * config_.width),
      mixed_(rows * config_.width), normed_(rows * config_.width), out_(rows * config_.width),
      statistics_(2 * rows), hidden_(rows * config_.hidden()), rows_(rows) {
  SerialExecutor serial;
  transposed_.update(weights_, false, serial);
}

void ForwardPass::run(int64_t batch, int64_t length, const int32_t* tokens,
                      const float* position_rows, const Mix& mix) {
  const SingleThread single;
  const int64_t rows = batch * length, width = config_.width;
  embedding_forward<float>(batch, length, width, tokens, weights_.embedding, position_rows, x_.data());
  Residual<float> residual{x_.data()};
  NormMemory<float> norm{x_.data(), normed_.data(), statistics_.data(), statistics_.data() + rows_};
  for (size_t layer = 0; layer < weights_.attention.size(); ++layer) {
    const SublayerArrays<const float>& attention = weights_.attention[layer];
    attention_block_in(rows, width, attention, residual, norm, qkv_.data());
    mix(static_cast<int64_t>(layer), qkv_.data(), mixed_.data());
    linear_forward<float>(rows, width, width, mixed_.data(), attention.out_weight, out_.data());
    residual.added = out_.data();
    residual.added_bias = attention.out_bias;
    FeedForwardMemory<float> memory{norm, hidden_.data(), nullptr};
    feed_forward_forward({rows, width, config_.hidden()}, weights_.feed_forward[layer], residual,
                         memory, out_.data());
  }
  norm_forward(residual, rows, width, weights_.norm_gain, weights_.norm_bias, norm);
}

void ForwardPass::logits(int64_t first, int64_t step, int64_t count, float* to) const {
  const SingleThread single;
  const int64_t width = config_.width, vocabulary = config_.vocabulary;
  multiply<float>(Operand::kAsIs, Operand::kAsIs, count, vocabulary, width,
                  normed_.data() + first * width, step * width, transposed_.head(), vocabulary, to,
                  vocabulary, false);
}

}  // namespace locant::train
