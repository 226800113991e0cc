// The arrays of a model as pointers into a flat buffer: numbers (T = const float) or gradients.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "locant/base/executor.h"
#include "locant/train/buffer.h"
#include "locant/train/matmul.h"
#include "locant/train/model.h"

namespace locant::train {

// Attention and feed-forward have the same six: norm, a linear layer in, one out. Weights lie
// [in][out], so that y = x W + b.
template <class T>
struct SublayerArrays {
  T *norm_gain, *norm_bias, *in_weight, *in_bias, *out_weight, *out_bias;
};

template <class T>
struct ModelArrays {
  T* embedding = nullptr;  // [vocabulary][width]
  std::vector<SublayerArrays<T>> attention, feed_forward;  // a layer
  T *norm_gain = nullptr, *norm_bias = nullptr;

  ModelArrays() = default;
  ModelArrays(const ParameterLayout& layout, int64_t layers, T* values) {
    const auto at = [&](const std::string& name) { return values + layout.find(name).offset; };
    embedding = at("embedding.weight");
    norm_gain = at("norm.gain");
    norm_bias = at("norm.bias");
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (const bool attends : {true, false}) {
        const std::string name =
            "layers." + std::to_string(layer) + (attends ? ".attention." : ".feed_forward.");
        (attends ? attention : feed_forward)
            .push_back({at(name + "norm.gain"), at(name + "norm.bias"), at(name + "in.weight"),
                        at(name + "in.bias"), at(name + "out.weight"), at(name + "out.bias")});
      }
    }
  }
};

// Weights the other way round, made once a step: oneDNN is faster with plain operands (115 against
// 85-105 GFLOP/s on the shapes of a small model), and every shard uses them.
template <class T>
class TransposedWeights {
 public:
  struct Sublayer {
    const T *in = nullptr, *out = nullptr;
  };
  // Buffers for a model of this configuration.
  explicit TransposedWeights(const ModelConfig& config);
  // with_layers: those that backward needs; otherwise the head's only.
  void update(const ModelArrays<const T>& weights, bool with_layers, Executor& executor);

  const T* head() const { return head_.data(); }  // [width][vocabulary]
  Sublayer attention(int64_t layer) const { return {buffer(4 * layer), buffer(4 * layer + 1)}; }
  Sublayer feed_forward(int64_t layer) const { return {buffer(4 * layer + 2), buffer(4 * layer + 3)}; }

 private:
  const T* buffer(int64_t which) const { return buffers_[static_cast<size_t>(which)].data(); }

  int64_t vocabulary_, width_, hidden_, layers_;
  Buffer<T> head_;
  std::vector<Buffer<T>> buffers_;
};

}  // namespace locant::train
