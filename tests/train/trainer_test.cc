// Training: the same bits for any number of threads, the schedule, what is updated and what is not.
#include "locant/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "locant/base/random.h"
#include "locant/position/registry.h"

namespace locant {
namespace {

std::string fitted(const std::string& name, int64_t length) {
  const std::unique_ptr<Scheme> scheme = make_scheme(name);
  scheme->fit({length, 0.02});
  return specification(*scheme, true);
}

ModelConfig small(const std::string& scheme, int64_t length = 16) {
  return {.vocabulary = 13, .layers = 2, .width = 32, .heads = 4, .feed_forward = 40,
          .length = length, .scheme = fitted(scheme, length), .seed = 1};
}

struct Batch {
  std::vector<int32_t> inputs, targets;
};

// Batch number n: a noisy walk, so that there is something to learn.
Batch batch_of(int64_t sequences, int64_t length, uint64_t n) {
  Random random(7, n);
  Batch batch;
  for (int64_t s = 0; s < sequences; ++s) {
    int32_t token = static_cast<int32_t>(random.below(13));
    for (int64_t i = 0; i < length; ++i) {
      batch.inputs.push_back(token);
      token = static_cast<int32_t>((token + 1 + random.below(2)) % 13);
      batch.targets.push_back(token);
    }
  }
  return batch;
}

// What a run leaves: losses, norms and all numbers.
struct Trace {
  std::vector<double> losses, norms;
  std::vector<float> values;
  bool operator==(const Trace&) const = default;
};

Trace trace_of(const ModelConfig& config, const TrainOptions& options, Executor& executor) {
  Model model(config);
  Trainer trainer(model, options, executor);
  Trace trace;
  for (int64_t step = 0; step < options.steps; ++step) {
    const Batch batch = batch_of(options.batch, config.length, static_cast<uint64_t>(step));
    const StepResult result = trainer.step(batch.inputs, batch.targets);
    EXPECT_EQ(result.step, step);
    EXPECT_TRUE(result.finite);
    trace.losses.push_back(result.loss);
    trace.norms.push_back(result.gradient_norm);
  }
  trace.values.assign(model.values(), model.values() + model.layout().size());
  return trace;
}

class TrainEveryScheme : public testing::TestWithParam<std::string> {};

// 70 sequences of 16: five shards, the last one short.
TEST_P(TrainEveryScheme, SameBitsForAnyNumberOfThreads) {
  const TrainOptions options{.steps = 4, .batch = 70};
  SerialExecutor serial;
  const Trace want = trace_of(small(GetParam()), options, serial);
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    EXPECT_TRUE(want == trace_of(small(GetParam()), options, pool)) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Trainer, TrainEveryScheme, testing::ValuesIn(scheme_names()));

// More shards than lanes: lanes run several.
TEST(Trainer, SameBitsWhenLanesRunSeveralShards) {
  const TrainOptions options{.steps = 3, .batch = 11};
  const ModelConfig config = small("t5", 200);  // a shard each
  SerialExecutor serial;
  ThreadPool pool(2);
  EXPECT_TRUE(trace_of(config, options, serial) == trace_of(config, options, pool));
}

TEST(Trainer, Learns) {
  SerialExecutor serial;
  TrainOptions options{.steps = 150, .batch = 16};
  options.learning_rate = 1e-2;
  const Trace trace = trace_of(small("alibi"), options, serial);
  // Begins knowing nothing; a tied head expects the token just read, which this walk never repeats.
  EXPECT_GT(trace.losses.front(), std::log(13.0));
  EXPECT_LT(trace.losses.front(), std::log(13.0) + 0.2);
  // The walk has two equally likely ways on: its entropy is ln 2.
  EXPECT_NEAR(trace.losses.back(), std::log(2.0), 0.05);
}

TEST(Schedule, WarmsUpThenFallsAsACosine) {
  TrainOptions options{.steps = 100};
  options.learning_rate = 2;
  options.final_learning_rate = 0.5;
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 3), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 4), 2);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 52), 1.25);  // half way
  EXPECT_NEAR(learning_rate_at(options, 99), 0.5, 1.5 * std::pow(std::acos(-1) / 2 / 96, 2) * 1.01);
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 100), 0.5);
  options.warmup_steps = 0;
  EXPECT_DOUBLE_EQ(learning_rate_at(options, 0), 2);
  options.warmup_steps = -1;
  EXPECT_EQ(options.warmup(), 5);
}

// One step by hand: Adam's first step moves every number by rate x sign(gradient), nearly.
TEST(Trainer, TablesHaveTheirOwnRateAndDoNotDecay) {
  ModelConfig config = small("t5");
  Model model(config), before(config);
  TrainOptions options{.steps = 10, .batch = 8};
  options.learning_rate = 1e-3;
  options.warmup_steps = 0;
  options.weight_decay = 0.5;
  options.table_learning_rate_multiplier = 30;
  for (Model* m : {&model, &before}) {
    for (const ParameterArray& array : m->arrays()) {
      if (!array.table) continue;
      for (float& x : m->array(array.name)) x = 0.25f;
    }
  }
  SerialExecutor serial;
  Trainer trainer(model, options, serial);
  const Batch batch = batch_of(8, 16, 0);
  trainer.step(batch.inputs, batch.targets);
  int tables = 0, weights = 0;
  for (const ParameterArray& array : model.arrays()) {
    const auto now = model.array(array.name), then = before.array(array.name);
    double largest = 0;
    for (size_t i = 0; i < now.size(); ++i) {
      const double kept = array.decays ? then[i] * (1 - 1e-3 * 0.5) : then[i];
      largest = std::max(largest, std::fabs(now[i] - kept));
    }
    // epsilon makes the step a little smaller; rounding may make it a little larger.
    const double rate = array.table ? 30e-3 : 1e-3;
    EXPECT_LE(largest, rate * 1.001 + 2e-7) << array.name;
    EXPECT_GE(largest, rate * 0.9) << array.name;
    tables += array.table;
    weights += array.decays;
  }
  EXPECT_GE(tables, 1);
  EXPECT_GE(weights, 9);
}

TEST(Trainer, ClipsTheWholeGradient) {
  // With epsilon far above the gradient Adam's step is in proportion to it, and so to the clipping.
  const auto moved = [](double clip, double* norm) {
    Model model(small("nope"));
    const std::vector<float> before(model.values(), model.values() + model.layout().size());
    TrainOptions options{.steps = 1, .batch = 4};
    options.warmup_steps = 0;
    options.weight_decay = 0;
    options.epsilon = 1e4;
    options.learning_rate = 1e5;
    options.clip = clip;
    SerialExecutor serial;
    Trainer trainer(model, options, serial);
    const Batch batch = batch_of(4, 16, 0);
    *norm = trainer.step(batch.inputs, batch.targets).gradient_norm;
    double squares = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      squares += std::pow(double(model.values()[i]) - before[i], 2);
    }
    return std::sqrt(squares);
  };
  double norm = 0, same = 0;
  const double free = moved(0, &norm);
  ASSERT_GT(norm, 0.1);
  EXPECT_NEAR(free, 10 * norm, 1e-3 * free);
  EXPECT_NEAR(moved(norm / 4, &same), free / 4, 1e-3 * free);
  EXPECT_EQ(norm, same) << "the norm told is the one before clipping";
  EXPECT_NEAR(moved(norm * 2, &same), free, 1e-3 * free);
}

TEST(Trainer, LeavesTheModelWhenSomethingIsNotFinite) {
  Model model(small("alibi"));
  model.array("layers.1.feed_forward.in.weight")[3] = std::numeric_limits<float>::infinity();
  const std::vector<float> before(model.values(), model.values() + model.layout().size());
  SerialExecutor serial;
  Trainer trainer(model, {.steps = 2, .batch = 4}, serial);
  const Batch batch = batch_of(4, 16, 0);
  const StepResult result = trainer.step(batch.inputs, batch.targets);
  EXPECT_FALSE(result.finite);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), model.values()));
  EXPECT_EQ(trainer.steps_done(), 1);
}

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

// What is not asked for changes nothing: neither the loss nor an update, whatever stands there.
TEST(Trainer, TargetsOfMinusOneAreNotAsked) {
  const Batch batch = batch_of(2, 16, 0);
  const auto first_step = [&](const std::vector<int32_t>& inputs, const std::vector<int32_t>& targets) {
    Model model(small("alibi"));
    SerialExecutor serial;
    Trainer trainer(model, {.steps = 1, .batch = 2, .warmup_steps = 0}, serial);
    const double loss = trainer.step(inputs, targets).loss;
    return std::pair(loss, std::vector<float>(model.values(), model.values() + model.layout().size()));
  };
  std::vector<int32_t> some = batch.targets, other_inputs = batch.inputs;
  for (size_t i = 0; i < some.size(); ++i) {
    if (i % 16 < 10) continue;  // the ends of both sequences: nothing before can see them
    some[i] = -1;
    other_inputs[i] = (other_inputs[i] + 5) % 13;
  }
  const auto asked = first_step(batch.inputs, some);
  EXPECT_EQ(asked.first, first_step(other_inputs, some).first);
  EXPECT_NE(asked.first, first_step(batch.inputs, batch.targets).first);
  // The mean is over what is asked: the first ten places' own losses.
  Model short_model(small("alibi", 10));
  SerialExecutor serial;
  Trainer trainer(short_model, {.steps = 1, .batch = 2}, serial);
  std::vector<int32_t> inputs, targets;
  for (size_t b = 0; b < 2; ++b) {
    inputs.insert(inputs.end(), batch.inputs.begin() + b * 16, batch.inputs.begin() + b * 16 + 10);
    targets.insert(targets.end(), batch.targets.begin() + b * 16, batch.targets.begin() + b * 16 + 10);
  }
  EXPECT_NEAR(asked.first, trainer.step(inputs, targets).loss, 1e-5);
}

// Padding of an encoder: the loss does not depend on how far a batch is padded.
TEST(Trainer, NobodySeesAnEncodersPadding) {
  const Batch batch = batch_of(2, 6, 0);
  const auto loss_at = [&](int64_t length) {
    ModelConfig config = small("alibi", length);
    config.encoder = true;
    Model model(config);
    SerialExecutor serial;
    Trainer trainer(model, {.steps = 1, .batch = 2}, serial);
    std::vector<int32_t> inputs(static_cast<size_t>(2 * length), -1), targets(inputs.size(), -1);
    for (int64_t b = 0; b < 2; ++b) {
      std::copy_n(batch.inputs.begin() + b * 6, 6, inputs.begin() + b * length);
      std::copy_n(batch.targets.begin() + b * 6, 6, targets.begin() + b * length);
    }
    return trainer.step(inputs, targets).loss;
  };
  EXPECT_NEAR(loss_at(6), loss_at(16), 1e-5);
  EXPECT_NEAR(loss_at(6), loss_at(11), 1e-5);
}

TEST(Trainer, RefusesBadOptionsAndBatches) {
  Model model(small("nope"));
  SerialExecutor serial;
  TrainOptions bad{.steps = 0, .batch = -3};
  bad.learning_rate = std::numeric_limits<double>::quiet_NaN();
  bad.beta2 = 1;
  const std::string all = refusal([&] { Trainer(model, bad, serial); });
  for (const char* word : {"steps", "got 0", "batch", "got -3", "learning rate", "nan", "beta2"}) {
    EXPECT_NE(all.find(word), std::string::npos) << word << " in " << all;
  }
  Trainer trainer(model, {.steps = 1, .batch = 2}, serial);
  Batch batch = batch_of(2, 16, 0);
  std::vector<int32_t> few(31);
  EXPECT_NE(refusal([&] { trainer.step(few, batch.targets); }).find("2 x 16"), std::string::npos);
  batch.targets[5] = 13;
  EXPECT_NE(refusal([&] { trainer.step(batch.inputs, batch.targets); }).find("got 13"),
            std::string::npos);
  batch.targets[5] = -2;
  EXPECT_NE(refusal([&] { trainer.step(batch.inputs, batch.targets); }).find("got -2"),
            std::string::npos);
  batch.targets[5] = 12;
  std::vector<int32_t> padded = batch.inputs;
  padded[5] = -1;  // of encoders only
  EXPECT_NE(refusal([&] { trainer.step(padded, batch.targets); }).find("got -1"), std::string::npos);
  const std::vector<int32_t> nothing(batch.targets.size(), -1);
  EXPECT_NE(refusal([&] { trainer.step(batch.inputs, nothing); }).find("nothing is asked"),
            std::string::npos);
  trainer.step(batch.inputs, batch.targets);
  EXPECT_NE(refusal([&] { trainer.step(batch.inputs, batch.targets); }).find("1 steps are done"),
            std::string::npos);
}

}  // namespace
}  // namespace locant
