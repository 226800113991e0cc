// Configuration, layout and initial numbers of a model.
#include "locant/train/model.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/base/random.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"

namespace locant {
namespace {

constexpr int64_t kAlignment = 16;  // floats: 64 bytes

void fill_normal(std::span<float> numbers, uint64_t seed, std::string_view name, double deviation) {
  Random random(seed, stream_of(name));
  for (float& number : numbers) number = static_cast<float>(deviation * random.normal());
}

std::string layer_prefix(int64_t layer) { return text_of("layers.", layer, '.'); }

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Sizes ModelConfig::sizes() const {
  return {.layers = layers, .heads = heads, .head_size = head_size(), .width = width,
          .value_size = head_size()};
}

Call ModelConfig::call(int64_t layer, int64_t n) const {
  return {.sizes = sizes(), .layer = static_cast<int>(layer), .causal = !encoder,
          .first_distance = 1 - n, .last_distance = encoder ? n - 1 : 0, .length = n};
}

void ModelConfig::check() const {
  Check check("model");
  const auto within = [&](const char* what, int64_t value, int64_t low, int64_t high) {
    return check.require(value >= low && value <= high, what, " must be ", low, " to ", high,
                         ", got ", value);
  };
  within("vocabulary", vocabulary, 1, 1 << 24);
  within("layers", layers, 1, 1024);
  const bool width_fits = within("width", width, 1, 1 << 16);
  const bool heads_fit = within("heads", heads, 1, 1 << 12);
  within("feed-forward width", feed_forward, 0, 1 << 20);
  within("length", length, 1, 1 << 24);
  if (width_fits && heads_fit) {
    check.require(width % heads == 0, "heads must divide the width, got ", heads, " heads and width ",
                  width);
  }
  check.require(std::isfinite(initial_deviation) && initial_deviation >= 0,
                "initial deviation must be finite and not negative, got ", initial_deviation);
  check.done();

  const std::unique_ptr<Scheme> made = make_scheme(scheme);
  made->check(call(0, length));
  check.require(made->table_length() < 0 || made->table_length() >= length || made->repeats_last_row(), "scheme ", scheme,
                " has rows for ", made->table_length(), " positions, the length is ", length);
  check.done();
}

std::string position_parameter_name(const ParameterSpec& spec, int64_t layer) {
  return (spec.per_layer ? layer_prefix(layer) : std::string()) + "position." + spec.name;
}

void ParameterLayout::add(std::string name, std::vector<int64_t> shape, bool decays) {
  int64_t size = 1;
  for (int64_t extent : shape) size *= extent;
  arrays_.push_back({.name = std::move(name), .shape = std::move(shape), .offset = size_,
                     .size = size, .decays = decays});
  size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
}

ParameterLayout::ParameterLayout(const ModelConfig& config) {
  const int64_t width = config.width, hidden = config.hidden();
  add("embedding.weight", {config.vocabulary, width}, true);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = layer_prefix(layer);
    add(prefix + "attention.norm.gain", {width}, false);
    add(prefix + "attention.norm.bias", {width}, false);
    add(prefix + "attention.in.weight", {width, 3 * width}, true);  // q, k, v side by side
    add(prefix + "attention.in.bias", {3 * width}, false);
    add(prefix + "attention.out.weight", {width, width}, true);
    add(prefix + "attention.out.bias", {width}, false);
    add(prefix + "feed_forward.norm.gain", {width}, false);
    add(prefix + "feed_forward.norm.bias", {width}, false);
    add(prefix + "feed_forward.in.weight", {width, hidden}, true);
    add(prefix + "feed_forward.in.bias", {hidden}, false);
    add(prefix + "feed_forward.out.weight", {hidden, width}, true);
    add(prefix + "feed_forward.out.bias", {width}, false);
  }
  add("norm.gain", {width}, false);
  add("norm.bias", {width}, false);
  for (const ParameterSpec& spec : make_scheme(config.scheme)->learn(config.sizes())) {
    for (int64_t layer = 0; layer < (spec.per_layer ? config.layers : 1); ++layer) {
      add(position_parameter_name(spec, layer), spec.shape, !spec.table);
      arrays_.back().table = spec.table;
      arrays_.back().position = true;
    }
  }
}

const ParameterArray& ParameterLayout::find(std::string_view name) const {
  for (const ParameterArray& array : arrays_) {
    if (array.name == name) return array;
  }
  fail("model", "has no array named ", name);
}

Model::Model(ModelConfig config)
    : config_((config.check(), std::move(config))),
      scheme_(make_scheme(config_.scheme)),
      layout_(config_),
      values_(layout_.size()) {
  const double deviation = config_.initial_deviation;
  // GPT-2: each of the 2 x layers projections that add to the residual stream begins smaller.
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (const ParameterArray& array : layout_.arrays()) {
    const std::span<float> numbers(values() + array.offset, static_cast<size_t>(array.size));
    if (array.position) continue;
    if (ends_with(array.name, "out.weight")) {
      fill_normal(numbers, config_.seed, array.name, residual);
    } else if (ends_with(array.name, ".weight")) {
      fill_normal(numbers, config_.seed, array.name, deviation);
    } else if (ends_with(array.name, ".gain")) {
      for (float& number : numbers) number = 1;
    }
  }
  for (const ParameterSpec& spec : scheme_->learn(config_.sizes())) {
    for (int64_t layer = 0; layer < (spec.per_layer ? config_.layers : 1); ++layer) {
      const std::string name = position_parameter_name(spec, layer);
      fill_initial(spec, config_.seed, name, array(name));
    }
  }
}

void Model::add_text(uint64_t fingerprint) {
  std::vector<uint64_t>& texts = config_.texts;
  if (std::find(texts.begin(), texts.end(), fingerprint) == texts.end()) texts.push_back(fingerprint);
}

std::span<float> Model::array(std::string_view name) {
  const ParameterArray& array = layout_.find(name);
  return {values() + array.offset, static_cast<size_t>(array.size)};
}

std::span<const float> Model::array(std::string_view name) const {
  const ParameterArray& array = layout_.find(name);
  return {values() + array.offset, static_cast<size_t>(array.size)};
}

int64_t Model::parameters() const {
  int64_t count = 0;
  for (const ParameterArray& array : arrays()) count += array.size;
  return count;
}

int64_t Model::position_parameters() const {
  int64_t count = 0;
  for (const ParameterArray& array : arrays()) count += array.position ? array.size : 0;
  return count;
}

}  // namespace locant
