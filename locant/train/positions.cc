#include "locant/train/positions.h"

#include <algorithm>

#include "locant/base/check.h"

namespace locant::train {

PositionParameters::PositionParameters(const Scheme& scheme, const Sizes& sizes) {
  for (const ParameterSpec& spec : scheme.learn(sizes)) {
    const size_t copies = spec.per_layer ? static_cast<size_t>(sizes.layers) : 1;
    arrays_.push_back({spec, std::vector<std::vector<double>>(
                                 copies, std::vector<double>(static_cast<size_t>(spec.size())))});
  }
}

template <class T>
void PositionParameters::read(const ParameterLayout& layout, const T* values) {
  for (Array& array : arrays_) {
    for (size_t layer = 0; layer < array.numbers.size(); ++layer) {
      const std::string name = position_parameter_name(array.spec, static_cast<int64_t>(layer));
      const T* from = values + layout.find(name).offset;
      for (double& number : array.numbers[layer]) number = *from++;
    }
  }
}
template void PositionParameters::read<float>(const ParameterLayout&, const float*);
template void PositionParameters::read<double>(const ParameterLayout&, const double*);

template <class T>
void PositionParameters::add_to(const ParameterLayout& layout, T* values) const {
  for (const Array& array : arrays_) {
    for (size_t layer = 0; layer < array.numbers.size(); ++layer) {
      const std::string name = position_parameter_name(array.spec, static_cast<int64_t>(layer));
      T* to = values + layout.find(name).offset;
      for (double number : array.numbers[layer]) *to++ += static_cast<T>(number);
    }
  }
}
template void PositionParameters::add_to<float>(const ParameterLayout&, float*) const;
template void PositionParameters::add_to<double>(const ParameterLayout&, double*) const;

Parameters PositionParameters::views(int64_t layer) const {
  Parameters views;
  for (const Array& array : arrays_) {
    const size_t which = array.spec.per_layer ? static_cast<size_t>(layer) : 0;
    views.add(array.spec.name, array.numbers[which].data());
  }
  return views;
}

ParameterGradients PositionParameters::gradient_views(int64_t layer) {
  ParameterGradients views;
  for (Array& array : arrays_) {
    const size_t which = array.spec.per_layer ? static_cast<size_t>(layer) : 0;
    views.add(array.spec.name, array.numbers[which].data());
  }
  return views;
}

void PositionParameters::clear() {
  for (Array& array : arrays_) {
    for (std::vector<double>& numbers : array.numbers) {
      std::fill(numbers.begin(), numbers.end(), 0.0);
    }
  }
}

PositionParameters& PositionParameters::operator+=(const PositionParameters& other) {
  for (size_t a = 0; a < arrays_.size(); ++a) {
    for (size_t layer = 0; layer < arrays_[a].numbers.size(); ++layer) {
      std::vector<double>& to = arrays_[a].numbers[layer];
      const std::vector<double>& from = other.arrays_[a].numbers[layer];
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    }
  }
  return *this;
}

template <class T, class From>
void add_terms(const Terms<From>& from, Terms<T>& to) {
  const auto add = [](const std::vector<From>& numbers, std::vector<T>& sums) {
    for (size_t i = 0; i < numbers.size(); ++i) sums[i] += static_cast<T>(numbers[i]);
  };
  if (from.number) {
    add(from.number->table.data, to.number->table.data);
    add(from.number->left, to.number->left);
    add(from.number->right, to.number->right);
  }
  if (from.query_rows) add(from.query_rows->rows.data, to.query_rows->rows.data);
  if (from.key_rows) add(from.key_rows->rows.data, to.key_rows->rows.data);
  if (from.value_rows) add(from.value_rows->rows.data, to.value_rows->rows.data);
  if (from.content_bias) add(from.content_bias->data, to.content_bias->data);
  add(from.hook_gradient, to.hook_gradient);
}
template void add_terms<float, float>(const Terms<float>&, Terms<float>&);
template void add_terms<double, float>(const Terms<float>&, Terms<double>&);
template void add_terms<double, double>(const Terms<double>&, Terms<double>&);

Positions::Positions(const Scheme& scheme, const ModelConfig& config, int64_t length,
                     bool repeat_last_row)
    : scheme_(scheme), config_(config), sizes_(config.sizes()), length_(length),
      learned_(!scheme.learn(sizes_).empty()) {
  const int64_t rows = scheme.table_length();
  if (!scheme.embeds()) return;
  positions_.resize(static_cast<size_t>(length));
  for (int64_t p = 0; p < length; ++p) {
    const bool past = rows >= 0 && p >= rows;
    if (past && repeat_last_row) repeats_rows_ = true;
    positions_[static_cast<size_t>(p)] = past && repeat_last_row ? rows - 1 : p;
  }
}

template <class T>
PositionTerms<T> Positions::lower(const PositionParameters& parameters, Executor& executor) const {
  PositionTerms<T> lowered;
  const size_t layers = scheme_.same_in_every_layer() ? 1 : static_cast<size_t>(sizes_.layers);
  lowered.terms.resize(layers);
  executor.run(static_cast<int64_t>(layers), [&](int64_t layer, int) {
    lowered.terms[static_cast<size_t>(layer)] =
        cast<T>(locant::lower(scheme_, config_.call(layer, length_), parameters.views(layer)));
  });
  if (!positions_.empty()) {
    std::vector<double> rows(static_cast<size_t>(length_ * sizes_.width));
    scheme_.embed(positions_.data(), length_, sizes_, parameters.views(0), rows.data());
    lowered.rows.assign(rows.begin(), rows.end());
  }
  return lowered;
}
template PositionTerms<float> Positions::lower(const PositionParameters&, Executor&) const;
template PositionTerms<double> Positions::lower(const PositionParameters&, Executor&) const;

template <class T>
PositionGradients<T> Positions::make_gradients(const PositionTerms<T>& terms) const {
  PositionGradients<T> gradients;
  gradients.rows.resize(terms.rows.size());
  for (int64_t layer = 0; layer < sizes_.layers; ++layer) {
    gradients.terms.push_back(zeros_like(terms.layer(layer)));
  }
  return gradients;
}
template PositionGradients<float> Positions::make_gradients(const PositionTerms<float>&) const;
template PositionGradients<double> Positions::make_gradients(const PositionTerms<double>&) const;

void Positions::lower_backward(const PositionParameters& parameters,
                               const PositionGradients<double>& from,
                               PositionParameters& gradients, Executor& executor) const {
  if (!learned_) return;
  if (scheme_.same_in_every_layer()) {
    Terms<double> sum = from.terms[0];
    for (size_t layer = 1; layer < from.terms.size(); ++layer) add_terms(from.terms[layer], sum);
    ParameterGradients views = gradients.gradient_views(0);
    locant::lower_backward(scheme_, config_.call(0, length_), parameters.views(0), sum, views);
  } else {
    // Layers may share an array: each layer's gradients apart, summed in the order of the layers.
    std::vector<PositionParameters> of_layer(from.terms.size(), PositionParameters(scheme_, sizes_));
    executor.run(static_cast<int64_t>(from.terms.size()), [&](int64_t layer, int) {
      const size_t l = static_cast<size_t>(layer);
      ParameterGradients views = of_layer[l].gradient_views(layer);
      locant::lower_backward(scheme_, config_.call(layer, length_), parameters.views(layer), from.terms[l], views);
    });
    for (const PositionParameters& one : of_layer) gradients += one;
  }
  if (!positions_.empty()) {
    ParameterGradients views = gradients.gradient_views(0);
    scheme_.embed_backward(positions_.data(), length_, sizes_, from.rows.data(), views);
  }
}

}  // namespace locant::train
