// The gradient of the whole model's loss, through every layer and every scheme's answers, against finite
// differences in double: for every registered scheme, with its tables shared and not shared.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "locant/position/options.h"
#include "locant/position/registry.h"
#include "locant/train/batch_gradient.h"
#include "tests/train/gradient_check.h"

namespace locant::train {
namespace {

constexpr int64_t kLength = 6, kBatch = 10, kVocabulary = 5;

// The scheme fitted to the length, then each of its sharings, with all that it can learn.
std::vector<std::string> variants_of(const std::string& name) {
  std::vector<std::string> variants;
  const std::unique_ptr<Scheme> scheme = make_scheme(name);
  scheme->fit({kLength, 0.02});
  variants.push_back(specification(*scheme, true));
  std::vector<std::string> sharings{""};
  for (const OptionHelp& option : explain_options(*scheme)) {
    // ALiBi's slopes are shared or not only if they are learned.
    std::vector<std::string> words;
    for (const char* word : {"shared", "each", "learned"}) {
      if (option.allowed.find(word) != std::string::npos) words.push_back(word);
    }
    std::vector<std::string> longer;
    for (const std::string& one : sharings) {
      for (const std::string& word : words) {
        longer.push_back(one + (one.empty() ? "" : ",") + option.name + "=" + word);
      }
    }
    if (words.empty()) continue;
    sharings = longer;
  }
  for (const std::string& options : sharings) {
    if (options.empty()) continue;
    const ParsedSpecification parsed = parse_specification("x(" + options + ")");
    const std::unique_ptr<Scheme> other = make_scheme(name);
    set_options(*other, parsed.options);
    other->fit({kLength, 0.02});
    variants.push_back(specification(*other, true));
  }
  std::sort(variants.begin() + 1, variants.end());
  variants.erase(std::unique(variants.begin(), variants.end()), variants.end());
  return variants;
}

// Whether an encoder can have the scheme.
bool encodes(const std::string& scheme, const ModelConfig& decoder) {
  ModelConfig config = decoder;
  config.encoder = true;
  config.scheme = scheme;
  try {
    config.check();
  } catch (const std::invalid_argument&) {
    return false;
  }
  return true;
}

class WholeModel : public testing::TestWithParam<std::string> {};

void expect_derivative(const ModelConfig& config) {
  SCOPED_TRACE(config.scheme + (config.encoder ? ", encoder" : ""));
  const Model model(config);
  std::vector<double> values(model.values(), model.values() + model.layout().size());
  uint64_t stream = 0;
  for (const ParameterArray& array : model.arrays()) {
    // Beginnings at zero are special points; beginnings drawn from an interval stay in it.
    const auto begin = values.begin() + array.offset, end = begin + array.size;
    if (array.position && std::any_of(begin, end, [](double x) { return x != 0; })) {
      if (std::all_of(begin, end, [](double x) { return x >= 0; })) continue;
    }
    const std::vector<double> noise = random_numbers(array.size, ++stream, 0.3);
    std::transform(begin, end, noise.begin(), begin, std::plus<>());
  }
  Random random(4);
  std::vector<int32_t> inputs, targets;
  for (int64_t i = 0; i < kBatch * kLength; ++i) {
    inputs.push_back(static_cast<int32_t>(random.below(kVocabulary)));
    targets.push_back(static_cast<int32_t>(random.below(kVocabulary)));
  }
  // Of an encoder, some places are padding that nobody sees and where nothing is asked.
  std::vector<double> number_per_key(inputs.size(), 0.0);
  for (size_t i = 0; config.encoder && i < inputs.size(); ++i) {
    if (static_cast<int64_t>(i) % kLength < 2 + static_cast<int64_t>(i) / kLength % 5) continue;
    number_per_key[i] = -std::numeric_limits<double>::infinity();
    targets[i] = -1;
  }
  const double* padding = config.encoder ? number_per_key.data() : nullptr;
  targets[1] = -1;
  // One sequence a shard: ten shards on eight lanes, so two lanes add to what they have.
  SerialExecutor executor;
  BatchGradient<double> batch(model.config(), model.scheme(), model.layout(), kBatch, executor,
                              kLength);
  std::vector<double> gradient(values.size());
  const auto result = batch.run(values.data(), inputs.data(), targets.data(), gradient.data(), padding);
  double squares = 0;
  for (double g : gradient) squares += g * g;
  EXPECT_NEAR(result.squares, squares, 1e-12 * squares);

  const auto loss = [&] {
    return batch.run(values.data(), inputs.data(), targets.data(), nullptr, padding).loss;
  };
  double learned = 0;
  for (const ParameterArray& array : model.arrays()) {
    // Trunk arrays: three places each. The scheme's: up to sixteen.
    const int64_t places = array.position ? 16 : 3;
    const int64_t stride = std::max<int64_t>(1, array.size / places);
    for (int64_t i = 0; i < array.size; i += stride) {
      const size_t at = static_cast<size_t>(array.offset + i);
      const Derivative want = differentiate(loss, values[at], result.loss, 500);
      EXPECT_LE(std::fabs(gradient[at] - want.value), want.error)
          << array.name << '[' << i << "]: got " << gradient[at] << ", want " << want.value;
      if (array.position) learned += std::fabs(want.value);
    }
  }
  if (model.position_parameters() > 0) {
    EXPECT_GT(learned, 1e-6) << "none of the places looked at matters";
  }
}

const ModelConfig kConfig{.vocabulary = kVocabulary, .layers = 2, .width = 8, .heads = 2,
                          .feed_forward = 12, .length = kLength, .scheme = "nope", .seed = 3};

TEST_P(WholeModel, GradientIsTheDerivative) {
  for (const std::string& scheme : variants_of(GetParam())) {
    ModelConfig config = kConfig;
    config.scheme = scheme;
    expect_derivative(config);
  }
}

// Music Transformer and Transformer-XL's own style are causal and say so.
TEST_P(WholeModel, GradientOfAnEncoderIsTheDerivative) {
  std::vector<std::string> variants = variants_of(GetParam());
  if (GetParam() == "transformer_xl") variants = {"transformer_xl(style=xlnet)"};
  for (const std::string& scheme : variants) {
    const bool refused = GetParam() == "music_transformer";
    EXPECT_EQ(encodes(scheme, kConfig), !refused) << scheme;
    if (refused) continue;
    ModelConfig config = kConfig;
    config.encoder = true;
    config.scheme = scheme;
    expect_derivative(config);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryScheme, WholeModel, testing::ValuesIn(scheme_names()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace locant::train
