// Models as safetensors files; the configuration is in the metadata, one entry each.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "locant/base/check.h"
#include "locant/checkpoint/safetensors.h"
#include "locant/position/registry.h"
#include "locant/train/model.h"

namespace locant {
namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kFormat = "locant model 1";

// Metadata is text; bytes of a vocabulary are anything.
std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string bytes_of(const std::string& hex, const std::string& path) {
  std::string bytes;
  for (size_t n = 0; n < hex.size(); n += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(hex.data() + n, hex.data() + std::min(n + 2, hex.size()), value, 16);
    if (error != std::errc() || end != hex.data() + n + 2) {
      fail("load model", path, ": \"bytes\" must be pairs of hexadecimal digits, got \"", hex, "\"");
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string fingerprints_of(const std::vector<uint64_t>& texts) {
  std::string text;
  for (const uint64_t one : texts) text += fmt::format("{}{:016x}", text.empty() ? "" : " ", one);
  return text;
}

std::vector<uint64_t> texts_of(const std::string& fingerprints, const std::string& path) {
  constexpr size_t kDigits = 16;
  std::vector<uint64_t> texts;
  for (size_t n = 0; n < fingerprints.size(); n += kDigits + 1) {
    const std::string one = fingerprints.substr(n, kDigits);
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), value, 16);
    if (error != std::errc() || end != one.data() + kDigits) {
      fail("load model", path, ": \"texts\" must be fingerprints of 16 hexadecimal digits, got \"", fingerprints, "\"");
    }
    texts.push_back(value);
  }
  return texts;
}

Metadata metadata_of(const Model& model) {
  const ModelConfig& config = model.config();
  Metadata metadata{{"format", kFormat},
          {"vocabulary", fmt::format("{}", config.vocabulary)},
          {"bytes", hex_of(config.bytes)},
          {"layers", fmt::format("{}", config.layers)},
          {"width", fmt::format("{}", config.width)},
          {"heads", fmt::format("{}", config.heads)},
          {"feed_forward", fmt::format("{}", config.hidden())},
          {"length", fmt::format("{}", config.length)},
          {"scheme", specification(model.scheme(), true)},
          {"seed", fmt::format("{}", config.seed)},
          {"initial_deviation", fmt::format("{}", config.initial_deviation)}};
  if (config.encoder) metadata["encoder"] = "yes";
  if (!config.texts.empty()) metadata["texts"] = fingerprints_of(config.texts);
  return metadata;
}

const std::string& entry(const Metadata& metadata, const char* key, const std::string& path) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) {
    fail("load model", path, ": the metadata has no \"", key, "\"; is this a model of locant?");
  }
  return found->second;
}

template <class Number>
Number number(const Metadata& metadata, const char* key, const std::string& path) {
  const std::string& text = entry(metadata, key, path);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail("load model", path, ": \"", key, "\" must be a number, got \"", text, "\"");
  }
  return value;
}

ModelConfig read_config(const SafetensorsReader& file) {
  const Metadata& metadata = file.metadata();
  const std::string& path = file.path();
  const std::string& format = entry(metadata, "format", path);
  if (format != kFormat) {
    fail("load model", path, ": expected format \"", kFormat, "\", got \"", format, "\"");
  }
  ModelConfig config;
  config.vocabulary = number<int64_t>(metadata, "vocabulary", path);
  config.bytes = bytes_of(entry(metadata, "bytes", path), path);
  if (!config.bytes.empty() && static_cast<int64_t>(config.bytes.size()) != config.vocabulary) {
    fail("load model", path, ": expected a byte for each of ", config.vocabulary, " tokens, got ", config.bytes.size());
  }
  config.layers = number<int64_t>(metadata, "layers", path);
  config.width = number<int64_t>(metadata, "width", path);
  config.heads = number<int64_t>(metadata, "heads", path);
  config.feed_forward = number<int64_t>(metadata, "feed_forward", path);
  config.length = number<int64_t>(metadata, "length", path);
  config.scheme = entry(metadata, "scheme", path);
  config.seed = number<uint64_t>(metadata, "seed", path);
  config.initial_deviation = number<double>(metadata, "initial_deviation", path);
  // Models of before have none.
  if (metadata.count("texts")) config.texts = texts_of(entry(metadata, "texts", path), path);
  config.encoder = metadata.count("encoder") && entry(metadata, "encoder", path) == "yes";
  try {
    config.check();
  } catch (const std::invalid_argument& problem) {
    fail("load model", path, ": ", problem.what());
  }
  return config;
}

std::string list_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// The file must hold these arrays and no others. Checked against the file before a model is made:
// a configuration alone may ask for any amount of memory.
void check_tensors(const SafetensorsReader& file, const ParameterLayout& layout) {
  Check check("load model");
  for (const ParameterArray& array : layout.arrays()) {
    const TensorInfo* info = file.header().find(array.name);
    if (!check.require(info != nullptr, file.path(), ": ", array.name, " is missing")) continue;
    check.require(info->shape == array.shape, file.path(), ": ", array.name, " must be ",
                  list_text(array.shape), ", got ", list_text(info->shape));
    check.require(info->type == ElementType::kF32, file.path(), ": ", array.name,
                  " must be F32, got ", name_of(info->type));
  }
  for (const TensorInfo& info : file.header().tensors) {
    bool known = false;
    for (const ParameterArray& array : layout.arrays()) known |= array.name == info.name;
    check.require(known, file.path(), ": ", info.name, " does not belong to such a model");
  }
  check.done();
}

void check_same(const std::string& path, const ModelConfig& got, const ModelConfig& expected) {
  Check check("load model");
  const auto same = [&](const char* what, const auto& is, const auto& should) {
    check.require(is == should, path, ": ", what, ": expected ", should, ", got ", is);
  };
  same("vocabulary", got.vocabulary, expected.vocabulary);
  same("layers", got.layers, expected.layers);
  same("width", got.width, expected.width);
  same("heads", got.heads, expected.heads);
  same("feed-forward width", got.hidden(), expected.hidden());
  same("length", got.length, expected.length);
  same("encoder", got.encoder, expected.encoder);
  same("scheme", got.scheme, specification(*make_scheme(expected.scheme), true));
  check.done();
}

Model read_model(const SafetensorsReader& file, const ModelConfig& config) {
  check_tensors(file, ParameterLayout(config));
  Model model(config);
  for (const ParameterArray& array : model.arrays()) {
    const std::span<float> numbers = model.array(array.name);
    file.read_floats(array.name, array.shape, numbers);
    if (!std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); })) {
      fail("load model", file.path(), ": ", array.name, " holds numbers that are not finite");
    }
  }
  return model;
}

}  // namespace

void save_model(const Model& model, const std::string& path) {
  std::vector<TensorToWrite> tensors;
  for (const ParameterArray& array : model.arrays()) {
    tensors.push_back(float_tensor(array.name, array.shape, model.array(array.name)));
  }
  write_safetensors(path, metadata_of(model), tensors);
}

Model load_model(const std::string& path) {
  const SafetensorsReader file(path);
  return read_model(file, read_config(file));
}

Model load_model(const std::string& path, const ModelConfig& expected) {
  expected.check();
  const SafetensorsReader file(path);
  const ModelConfig config = read_config(file);
  check_same(path, config, expected);
  return read_model(file, config);
}

}  // namespace locant
