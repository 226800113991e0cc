// Generation: cached and read again give the same logits and the same text, for every scheme; the choice of
// tokens; an encoder's answers.
#include "locant/train/generate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>

#include "locant/position/registry.h"
#include "locant/train/evaluate.h"
#include "tests/oracle/tolerance.h"

namespace locant {
namespace {

constexpr int64_t kLength = 24, kVocabulary = 9;

// Deviation 0.3: a model whose logits differ enough to matter.
Model model_of(const std::string& specification_text, bool encoder = false) {
  const ParsedSpecification parsed = parse_specification(specification_text);
  const std::unique_ptr<Scheme> scheme = make_scheme(parsed.name);
  scheme->fit({kLength, 0.3});
  set_options(*scheme, parsed.options);
  ModelConfig config{.vocabulary = kVocabulary, .layers = 3, .width = 16, .heads = 2,
                     .feed_forward = 20, .length = kLength, .scheme = specification(*scheme, true),
                     .seed = 2, .encoder = encoder, .initial_deviation = 0.3};
  return Model(std::move(config));
}

std::vector<int32_t> tokens_of(int64_t n, uint64_t stream) {
  Random random(3, stream);
  std::vector<int32_t> text;
  for (int64_t i = 0; i < n; ++i) text.push_back(static_cast<int32_t>(random.below(kVocabulary)));
  return text;
}

// As in evaluate_test.cc: the rounding of a small model's sums, cut otherwise.
constexpr double kTolerance = 4 * 200 * oracle::kEpsFloat;

void expect_close(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], kTolerance * (1 + std::fabs(want[i]))) << what << ", logit " << i;
  }
}

std::vector<std::string> schemes_and_scalings() {
  std::vector<std::string> all = scheme_names();
  all.push_back("rope(scaling=linear,factor=2,original=12)");
  all.push_back("rope(scaling=dynamic,factor=2,original=12)");
  return all;
}

class GenerateEveryScheme : public testing::TestWithParam<std::string> {};

// Two texts at once, read in pieces of many sizes; the logits are those of the whole text read again, and
// those that evaluation's losses come from.
TEST_P(GenerateEveryScheme, CachedIsReadAgain) {
  const Model model = model_of(GetParam());
  const std::vector<int32_t> one = tokens_of(kLength, 1), two = tokens_of(kLength, 2);
  Generator cached(model, 2, kLength), again(model, 2, kLength, {.reading = {}, .cached = false});
  SerialExecutor serial;
  int64_t at = 0;
  for (const int64_t n : {5, 1, 1, 3, 1, 2, 1, 10}) {
    std::vector<int32_t> piece;
    for (const auto* text : {&one, &two}) {
      piece.insert(piece.end(), text->begin() + at, text->begin() + at + n);
    }
    at += n;
    const auto want = again.read(piece);
    expect_close(cached.read(piece), want, "after token " + std::to_string(at));
    ASSERT_EQ(cached.length(), at);
    if (at == kLength) break;
    // The loss of the next token by evaluation, against the same by these logits.
    const Window window[] = {{0, at, at - 1, 1}};
    const double loss = evaluate(model, one, window, {}, serial).mean;
    double sum = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(double(want[static_cast<size_t>(v)]));
    EXPECT_NEAR(std::log(sum) - want[static_cast<size_t>(one[static_cast<size_t>(at)])], loss,
                10 * kTolerance);
  }
}

TEST_P(GenerateEveryScheme, CachedWritesTheSameText) {
  const Model model = model_of(GetParam());
  for (const double temperature : {0.0, 0.9}) {
    std::vector<int32_t> texts[2];
    for (const bool cached : {true, false}) {
      Generator generator(model, 1, kLength, {.reading = {}, .cached = cached});
      Random random(11);
      auto logits = generator.read(tokens_of(4, 7));
      while (generator.length() < kLength) {
        const int32_t token = choose(logits, {.temperature = temperature, .top_k = 5}, random);
        texts[cached].push_back(token);
        logits = generator.read({&token, 1});
      }
    }
    EXPECT_EQ(texts[0], texts[1]) << "temperature " << temperature;
  }
}

INSTANTIATE_TEST_SUITE_P(Generate, GenerateEveryScheme, testing::ValuesIn(schemes_and_scalings()));

TEST(Generate, PastALearnedTable) {
  const Model model = model_of("learned");
  EXPECT_THROW(Generator(model, 1, kLength + 1), std::invalid_argument);
  Generator longer(model, 1, kLength + 8, {.reading = {.scheme = "", .repeat_last_row = true}});
  longer.read(tokens_of(kLength, 1));
  longer.read(tokens_of(8, 2));
  EXPECT_EQ(longer.length(), kLength + 8);
}

TEST(Generate, RefusesWhatDoesNotFit) {
  const Model model = model_of("alibi");
  Generator generator(model, 2, 6);
  EXPECT_THROW(generator.read({}), std::invalid_argument);
  EXPECT_THROW(generator.read(tokens_of(3, 1)), std::invalid_argument) << "no two rows of one length";
  EXPECT_THROW(generator.read(std::vector<int32_t>{0, kVocabulary}), std::invalid_argument);
  EXPECT_THROW(generator.read(std::vector<int32_t>{0, -1}), std::invalid_argument);
  generator.read(tokens_of(8, 1));
  EXPECT_THROW(generator.read(tokens_of(6, 1)), std::invalid_argument) << "past the capacity";
  generator.read(tokens_of(4, 1));
  EXPECT_THROW(Generator(model_of("alibi", true), 1, 4), std::invalid_argument);
}

TEST(Choose, TemperatureTopKAndShares) {
  const std::vector<float> logits{0, std::log(2.0f), std::log(5.0f), std::log(2.0f)};
  Random random(1);
  EXPECT_EQ(choose(logits, {.temperature = 0}, random), 2);
  EXPECT_EQ(choose(std::vector<float>{1, 3, 3}, {.temperature = 0}, random), 1) << "of equals the first";
  EXPECT_EQ(choose(logits, {.temperature = 1, .top_k = 1}, random), 2);
  for (int n = 0; n < 50; ++n) {
    const int32_t token = choose(logits, {.temperature = 1, .top_k = 2}, random);
    EXPECT_TRUE(token == 2 || token == 1) << "token 3 is as likely as 1 but comes later";
  }
  // Shares of 4000 draws within five deviations.
  for (const double temperature : {1.0, 0.5, 3.0}) {
    std::map<int32_t, int> counts;
    for (int n = 0; n < 4000; ++n) ++counts[choose(logits, {.temperature = temperature}, random)];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / temperature);
    for (int32_t token = 0; token < 4; ++token) {
      const double p = std::exp(logits[static_cast<size_t>(token)] / temperature) / sum;
      EXPECT_NEAR(counts[token], 4000 * p, 5 * std::sqrt(4000 * p * (1 - p))) << token;
    }
  }
  EXPECT_THROW((Sampling{.temperature = -1}.check()), std::invalid_argument);
  EXPECT_THROW((Sampling{.temperature = NAN}.check()), std::invalid_argument);
  EXPECT_THROW((Sampling{.top_k = -1}.check()), std::invalid_argument);
}

TEST(AnswerEverywhere, SeesBothSidesAndEachTextAlone) {
  const Model model = model_of("rope", true);
  std::vector<int32_t> both = tokens_of(2 * 10, 5);
  const auto answers = answer_everywhere(model, 2, both, {});
  ASSERT_EQ(answers.size(), 20u);
  const std::vector<int32_t> second(both.begin() + 10, both.end());
  EXPECT_EQ(answer_everywhere(model, 1, second, {}),
            std::vector<int32_t>(answers.begin() + 10, answers.end()));
  // A change at the end reaches the beginning in some of a few texts.
  bool reached = false;
  for (uint64_t stream = 0; stream < 20 && !reached; ++stream) {
    std::vector<int32_t> text = tokens_of(10, stream);
    const int32_t before = answer_everywhere(model, 1, text, {})[0];
    text.back() = (text.back() + 1) % kVocabulary;
    reached = answer_everywhere(model, 1, text, {})[0] != before;
  }
  EXPECT_TRUE(reached);
  EXPECT_THROW(answer_everywhere(model_of("rope"), 1, second, {}), std::invalid_argument);
  EXPECT_THROW(answer_everywhere(model, 3, second, {}), std::invalid_argument);
}

}  // namespace
}  // namespace locant
