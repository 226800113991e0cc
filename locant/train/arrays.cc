#include "locant/train/arrays.h"

namespace locant::train {

template <class T>
TransposedWeights<T>::TransposedWeights(const ModelConfig& config)
    : vocabulary_(config.vocabulary), width_(config.width), hidden_(config.hidden()),
      layers_(config.layers), head_(vocabulary_ * width_), buffers_(static_cast<size_t>(4 * layers_)) {}

template <class T>
void TransposedWeights<T>::update(const ModelArrays<const T>& weights, bool with_layers,
                                  Executor& executor) {
  transpose(weights.embedding, vocabulary_, width_, head_.data());
  if (!with_layers) return;
  executor.run(4 * layers_, [&](int64_t which, int) {
    const size_t layer = static_cast<size_t>(which / 4);
    const bool attends = which % 4 < 2, out = which % 2 == 1;
    const SublayerArrays<const T>& from =
        attends ? weights.attention[layer] : weights.feed_forward[layer];
    const int64_t inner = attends ? (out ? width_ : 3 * width_) : hidden_;
    Buffer<T>& to = buffers_[static_cast<size_t>(which)];
    if (to.size() == 0) to = Buffer<T>(inner * width_);
    if (out) {
      transpose(from.out_weight, inner, width_, to.data());
    } else {
      transpose(from.in_weight, width_, inner, to.data());
    }
  });
}

template class TransposedWeights<float>;
template class TransposedWeights<double>;

}  // namespace locant::train
