// The model: a Transformer with any position scheme, as numbers and a configuration. A decoder (causal,
// predicts the next token) or an encoder (every place sees all, answers at every place).
//
// One token's way: embedding row (+ the scheme's row) -> layers x [ layer norm -> q, k, v ->
// attention with the scheme's terms -> projection -> added back; layer norm -> feed-forward with
// GELU (the tanh form of GPT-2) -> added back ] -> layer norm -> logits, by the embedding table again
// (tied head, no bias). All other linear layers have biases. No dropout.
//
// How it runs forward and backward is in transformer.h; training in trainer.h; evaluation in evaluate.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/position/scheme.h"
#include "locant/train/buffer.h"

namespace locant {

struct ModelConfig {
  int64_t vocabulary = 0;  // tokens are 0 .. vocabulary-1
  std::string bytes{};     // byte of each token, kept with the model; empty: not said
  int64_t layers = 4;
  int64_t width = 128;
  int64_t heads = 4;         // divides the width
  int64_t feed_forward = 0;  // hidden width; 0 means 4 * width
  int64_t length = 64;       // tokens of a training sequence; positions are 0 .. length-1
  std::string scheme = "nope";  // specification, as make_scheme reads it; nothing is fitted to the length
  uint64_t seed = 0;
  bool encoder = false;  // no causal mask
  double initial_deviation = 0.02;  // of embeddings and weights; residual projections / sqrt(2 layers)
  std::vector<uint64_t> texts{};    // fingerprints (data/corpus.h) of what it learned, kept with it; empty: not said

  int64_t head_size() const { return width / heads; }
  int64_t hidden() const { return feed_forward ? feed_forward : 4 * width; }
  Sizes sizes() const;
  // Attention over positions 0 .. n-1 in one layer, as the scheme is told of it.
  Call call(int64_t layer, int64_t n) const;
  // Throws std::invalid_argument with all that is wrong, the scheme and what it refuses included.
  void check() const;
};

// One named array of a model; its numbers lie at values() + offset.
struct ParameterArray {
  std::string name;  // "layers.0.attention.in.weight", "layers.2.position.NAME", "position.NAME"
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t size = 0;
  bool decays = false;    // takes part in weight decay: weights and embeddings
  bool table = false;     // a position table: its own learning rate, no weight decay
  bool position = false;  // belongs to the position scheme
};

// Which arrays a model has, and where they lie in one flat buffer (64-byte aligned offsets).
class ParameterLayout {
 public:
  explicit ParameterLayout(const ModelConfig& config);
  const std::vector<ParameterArray>& arrays() const { return arrays_; }
  int64_t size() const { return size_; }  // numbers in the buffer, gaps included
  // Throws std::invalid_argument if there is none of this name.
  const ParameterArray& find(std::string_view name) const;

 private:
  void add(std::string name, std::vector<int64_t> shape, bool decays);

  std::vector<ParameterArray> arrays_;
  int64_t size_ = 0;
};

// Name of a learned array of the scheme in `layer`: "position.NAME" when all layers share it.
std::string position_parameter_name(const ParameterSpec& spec, int64_t layer);

class Model {
 public:
  // Initial numbers: each array draws from its own stream of the seed, named after the array, so the
  // trunk begins the same for every scheme. Throws as ModelConfig::check().
  explicit Model(ModelConfig config);
  Model(Model&&) noexcept = default;
  Model& operator=(Model&&) noexcept = default;

  const ModelConfig& config() const { return config_; }
  // Notes that it learns the text of this fingerprint.
  void add_text(uint64_t fingerprint);
  const Scheme& scheme() const { return *scheme_; }
  const ParameterLayout& layout() const { return layout_; }
  std::span<const ParameterArray> arrays() const { return layout_.arrays(); }

  // One buffer of layout().size() numbers.
  float* values() { return values_.data(); }
  const float* values() const { return values_.data(); }
  // One array, by name; throws std::invalid_argument.
  std::span<float> array(std::string_view name);
  std::span<const float> array(std::string_view name) const;

  int64_t parameters() const;           // learned numbers
  int64_t position_parameters() const;  // of these, the scheme's

 private:
  ModelConfig config_;
  std::unique_ptr<Scheme> scheme_;
  ParameterLayout layout_;
  train::Buffer<float> values_;
};

// The same numbers in a model for sequences of another length, under a scheme that learns the same arrays
// (another scaling). Throws std::invalid_argument.
Model stretched(const Model& model, int64_t length, const std::string& scheme);

// A safetensors file, the whole configuration (full scheme specification) in its metadata. Saving is
// atomic: the old file or the new one, never a piece. Both throw std::runtime_error naming the file when
// it cannot be written or read, std::invalid_argument when it is not a model of this kind: expected
// and got names, shapes, configuration.
void save_model(const Model& model, const std::string& path);
Model load_model(const std::string& path);
// As load_model, but the file must hold a model of this configuration (the seed apart).
Model load_model(const std::string& path, const ModelConfig& expected);

}  // namespace locant
