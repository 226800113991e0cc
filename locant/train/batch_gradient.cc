#include "locant/train/batch_gradient.h"

#include <algorithm>

namespace locant::train {
namespace {

constexpr int64_t kLanes = 8;
constexpr int64_t kPiece = 1 << 14;  // numbers of the trunk summed by one task

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

double sum_in_order(const std::vector<double>& numbers) {
  double sum = 0;
  for (double number : numbers) sum += number;
  return sum;
}

}  // namespace

template <class T>
BatchGradient<T>::BatchGradient(const ModelConfig& config, const Scheme& scheme,
                                const ParameterLayout& layout, int64_t batch, Executor& executor,
                                int64_t shard_rows)
    : config_(config), layout_(layout), batch_(batch), executor_(executor),
      shard_batch_(std::clamp<int64_t>(shard_rows / config.length, 1, batch)),
      shards_(divide_up(batch, shard_batch_)), trunk_(layout.size()),
      positions_(scheme, config, config.length), position_values_(scheme, config.sizes()),
      position_gradients_(scheme, config.sizes()), transposed_(config),
      lanes_(static_cast<size_t>(std::min(shards_, kLanes))),
      runners_(static_cast<size_t>(executor.threads())), losses_(static_cast<size_t>(shards_)) {
  for (const ParameterArray& array : layout.arrays()) {
    if (array.position) trunk_ = std::min(trunk_, array.offset);  // they come last
  }
  squares_.resize(static_cast<size_t>(divide_up(trunk_, kPiece)));
}

template <class T>
typename BatchGradient<T>::Result BatchGradient<T>::run(const T* values, const int32_t* inputs,
                                                        const int32_t* targets, T* gradient,
                                                        const T* number_per_key) {
  if (!terms_ || positions_.learned()) {
    position_values_.read(layout_, values);
    terms_ = positions_.lower<T>(position_values_, executor_);
  }
  StepWeights<T> weights{ModelArrays<const T>(layout_, config_.layers, values), &transposed_,
                         &*terms_};
  transposed_.update(weights.arrays, gradient != nullptr, executor_);

  Result result;
  result.loss = run_shards(weights, inputs, targets, number_per_key, gradient != nullptr);
  if (gradient) {
    result.squares = sum_trunk(gradient);
    result.squares += sum_positions(gradient);
  }
  return result;
}

template <class T>
double BatchGradient<T>::run_shards(const StepWeights<T>& weights, const int32_t* inputs,
                                    const int32_t* targets, const T* number_per_key,
                                    bool gradient) {
  const int64_t length = config_.length;
  const auto asked = std::count_if(targets, targets + batch_ * length, [](int32_t t) { return t >= 0; });
  const double count = static_cast<double>(asked);
  executor_.run(static_cast<int64_t>(lanes_.size()), [&](int64_t index, int worker) {
    Lane& lane = lanes_[static_cast<size_t>(index)];
    if (gradient && lane.values.size() == 0) {
      lane.values = Buffer<T>(layout_.size());
      lane.gradients = {ModelArrays<T>(layout_, config_.layers, lane.values.data()),
                        lane.values.data(), positions_.make_gradients(*terms_)};
    }
    std::unique_ptr<ShardRunner<T>>& runner = runners_[static_cast<size_t>(worker)];
    if (!runner) {
      runner = std::make_unique<ShardRunner<T>>(config_, layout_, shard_batch_ * length);
    }
    for (int64_t shard = index; shard < shards_; shard += static_cast<int64_t>(lanes_.size())) {
      const int64_t first = shard * shard_batch_;
      const int64_t sequences = std::min(shard_batch_, batch_ - first);
      losses_[static_cast<size_t>(shard)] = runner->run(
          {sequences, length, inputs + first * length, targets + first * length,
           number_per_key ? number_per_key + first * length : nullptr},
          weights,
          static_cast<T>(1 / count), gradient ? &lane.gradients : nullptr, shard == index,
          positions_.learned());
    }
  });
  return sum_in_order(losses_) / count;
}

template <class T>
double BatchGradient<T>::sum_trunk(T* gradient) {
  executor_.run(static_cast<int64_t>(squares_.size()), [&](int64_t piece, int) {
    const int64_t first = piece * kPiece, size = std::min(kPiece, trunk_ - first);
    const T* parts[kLanes];
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      parts[lane] = lanes_[lane].values.data() + first;
    }
    squares_[static_cast<size_t>(piece)] = elementwise<T>().sum_parts(
        size, parts, static_cast<int64_t>(lanes_.size()), gradient + first);
  });
  return sum_in_order(squares_);
}

template <class T>
double BatchGradient<T>::sum_positions(T* gradient) {
  std::fill(gradient + trunk_, gradient + layout_.size(), T(0));
  if (!positions_.learned()) return 0;
  PositionGradients<double> total;
  total.rows.resize(terms_->rows.size());
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    total.terms.push_back(zeros_like(cast<double>(terms_->layer(layer))));
  }
  for (const Lane& lane : lanes_) {
    const PositionGradients<T>& from = lane.gradients.positions;
    for (size_t i = 0; i < total.rows.size(); ++i) total.rows[i] += static_cast<double>(from.rows[i]);
    for (size_t l = 0; l < total.terms.size(); ++l) add_terms(from.terms[l], total.terms[l]);
  }
  position_gradients_.clear();
  positions_.lower_backward(position_values_, total, position_gradients_, executor_);
  position_gradients_.add_to(layout_, gradient);
  double squares = 0;
  for (int64_t i = trunk_; i < layout_.size(); ++i) {
    squares += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
  }
  return squares;
}

template class BatchGradient<float>;
template class BatchGradient<double>;

}  // namespace locant::train
