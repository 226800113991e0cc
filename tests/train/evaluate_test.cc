// Evaluation gives what training's own forward gives, for any cut of the text and any threads.
#include "locant/train/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "locant/base/random.h"
#include "locant/position/registry.h"
#include "locant/train/trainer.h"
#include "tests/oracle/tolerance.h"

namespace locant {
namespace {

constexpr int64_t kLength = 12, kVocabulary = 9;

Model model_of(const std::string& name, double deviation = 0.3) {
  const std::unique_ptr<Scheme> scheme = make_scheme(name);
  scheme->fit({kLength, deviation});
  return Model({.vocabulary = kVocabulary, .layers = 3, .width = 16, .heads = 2,
                .feed_forward = 20, .length = kLength, .scheme = specification(*scheme, true),
                .seed = 2, .initial_deviation = deviation});
}

std::vector<int32_t> text_of_length(int64_t n) {
  Random random(3);
  std::vector<int32_t> text;
  for (int64_t i = 0; i < n; ++i) text.push_back(static_cast<int32_t>(random.below(kVocabulary)));
  return text;
}

// Losses may differ by the rounding of products cut otherwise: all of a small model's sums.
constexpr double kTolerance = 4 * 200 * oracle::kEpsFloat;

class EvaluateEveryScheme : public testing::TestWithParam<std::string> {};

TEST_P(EvaluateEveryScheme, MeanIsTheTrainersLoss) {
  Model model = model_of(GetParam());
  const std::vector<int32_t> text = text_of_length(4 * kLength + 1);
  const std::vector<int32_t> inputs(text.begin(), text.end() - 1), targets(text.begin() + 1, text.end());
  std::vector<Window> windows;
  for (int64_t w = 0; w < 4; ++w) windows.push_back({w * kLength, kLength, 0, kLength});
  SerialExecutor serial;
  const Evaluation evaluation = evaluate(model, text, windows, {}, serial);
  ASSERT_EQ(evaluation.losses.size(), 4u * kLength);
  EXPECT_FALSE(evaluation.repeated_rows);
  Trainer trainer(model, {.steps = 1, .batch = 4}, serial);
  EXPECT_NEAR(evaluation.mean, trainer.step(inputs, targets).loss, kTolerance);
}

// A causal model's early outputs do not depend on how long the window is or which targets are asked
// for. Longer than kBlock rows, and other windows in between.
TEST_P(EvaluateEveryScheme, OutputsDependOnWhatWasReadOnly) {
  const Model model = model_of(GetParam());
  if (model.scheme().table_length() >= 0) GTEST_SKIP() << "has no rows for long windows";
  const std::vector<int32_t> text = text_of_length(400);
  SerialExecutor serial;
  const Window all[] = {{5, 300, 0, 300}};
  const Evaluation whole = evaluate(model, text, all, {}, serial);
  const Window parts[] = {{5, 300, 280, 20}, {5, 40, 3, 9}, {5, 300, 17, 0},
                                    {5, 40, 39, 1},    {0, 7, 0, 7},  {5, 300, 100, 30}};
  const Evaluation some = evaluate(model, text, parts, {}, serial);
  ThreadPool pool(3);
  EXPECT_EQ(evaluate(model, text, parts, {}, pool).losses, some.losses) << "threads change bits";
  size_t at = 0;
  for (const Window& part : parts) {
    for (int64_t t = 0; t < part.n_targets; ++t, ++at) {
      if (part.start != 5) continue;
      EXPECT_NEAR(some.losses[at], whole.losses[static_cast<size_t>(part.first_target + t)],
                  kTolerance * 10)
          << "length " << part.length << ", target " << part.first_target + t;
    }
  }
  EXPECT_EQ(at, some.losses.size());
}

INSTANTIATE_TEST_SUITE_P(Evaluate, EvaluateEveryScheme, testing::ValuesIn(scheme_names()));

TEST(Evaluate, ReadsNothingOfTheFuture) {
  const Model model = model_of("alibi");
  std::vector<int32_t> text = text_of_length(60);
  SerialExecutor serial;
  const Window window[] = {{0, 50, 0, 30}};
  const Evaluation before = evaluate(model, text, window, {}, serial);
  for (size_t t = 31; t < text.size(); ++t) text[t] = (text[t] + 1) % kVocabulary;
  EXPECT_EQ(evaluate(model, text, window, {}, serial).losses, before.losses);
  text[3] = (text[3] + 1) % kVocabulary;
  EXPECT_NE(evaluate(model, text, window, {}, serial).losses, before.losses);
}

TEST(Evaluate, SchemeIsReplaced) {
  const Model model = model_of("rope");
  const std::vector<int32_t> text = text_of_length(60);
  const Window window[] = {{0, 48, 0, 48}};
  SerialExecutor serial;
  const Evaluation plain = evaluate(model, text, window, {}, serial);
  const auto variants = model.scheme().test_time_variants(4, kLength);
  ASSERT_FALSE(variants.empty());
  for (const Variant& variant : variants) {
    const Evaluation other = evaluate(model, text, window, {.scheme = variant.specification}, serial);
    EXPECT_NE(other.losses, plain.losses) << variant.label;
    EXPECT_NEAR(other.losses[0], plain.losses[0], kTolerance) << "one token has no distance";
  }
  EXPECT_EQ(evaluate(model, text, window, {.scheme = model.config().scheme}, serial).losses,
            plain.losses);
  try {
    evaluate(model, text, window, {.scheme = "t5"}, serial);
    FAIL() << "t5 has a table, the model has none";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("learns nothing"), std::string::npos) << error.what();
  }
}

TEST(Evaluate, LearnedTableEndsOrRepeats) {
  const Model model = model_of("learned");
  const std::vector<int32_t> text = text_of_length(60);
  SerialExecutor serial;
  const Window longer[] = {{0, 2 * kLength, 0, 2 * kLength}};
  EXPECT_THROW(evaluate(model, text, longer, {}, serial), std::invalid_argument);
  const Evaluation repeated = evaluate(model, text, longer, {.scheme = "", .repeat_last_row = true}, serial);
  EXPECT_TRUE(repeated.repeated_rows);
  const Window fits[] = {{0, kLength, 0, kLength}};
  const Evaluation own = evaluate(model, text, fits, {.scheme = "", .repeat_last_row = true}, serial);
  EXPECT_FALSE(own.repeated_rows);
  for (size_t t = 0; t < own.losses.size(); ++t) {
    EXPECT_NEAR(own.losses[t], repeated.losses[t], kTolerance);
  }
}

TEST(Evaluate, NothingAskedIsNothing) {
  const Model model = model_of("nope");
  SerialExecutor serial;
  const std::vector<int32_t> text = text_of_length(5);
  EXPECT_TRUE(evaluate(model, text, {}, {}, serial).losses.empty());
  const Window window[] = {{0, 5, 2, 0}};
  EXPECT_EQ(evaluate(model, text, window, {}, serial).mean, 0);
}

TEST(Evaluate, RefusesWindowsOutsideTheText) {
  const Model model = model_of("nope");
  SerialExecutor serial;
  std::vector<int32_t> text = text_of_length(20);
  const Window bad[] = {{0, 0, 0, 0},  {-1, 5, 0, 5}, {15, 6, 0, 1}, {21, 1, 0, 0},
                                  {0, 5, 0, 6},  {0, 5, -1, 2}, {0, 5, 6, 0},  {0, 5, 2, -1},
                                  {10, 10, 5, 5}, {0, std::numeric_limits<int64_t>::max(), 0, 1}};
  for (const Window& window : bad) {
    EXPECT_THROW(evaluate(model, text, {&window, 1}, {}, serial), std::invalid_argument)
        << window.start << ' ' << window.length << ' ' << window.first_target << ' '
        << window.n_targets;
  }
  const Window last[] = {{10, 10, 5, 4}};  // its last target is the text's last token
  EXPECT_EQ(evaluate(model, text, last, {}, serial).losses.size(), 4u);
  text[7] = kVocabulary;
  EXPECT_THROW(evaluate(model, text, last, {}, serial), std::invalid_argument);
}

}  // namespace
}  // namespace locant
