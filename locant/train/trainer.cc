#include "locant/train/trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "locant/base/check.h"
#include "locant/checkpoint/safetensors.h"
#include "locant/train/batch_gradient.h"

namespace locant {

int64_t TrainOptions::warmup() const {
  return warmup_steps >= 0 ? warmup_steps : std::min<int64_t>(steps / 20, 100);
}

void TrainOptions::check() const {
  Check check("train");
  const auto number = [&](const char* what, double value, bool fits, const char* range) {
    check.require(std::isfinite(value) && fits, what, " must be ", range, ", got ", value);
  };
  check.require(steps >= 1 && steps <= 1'000'000'000, "steps must be 1 to 1000000000, got ", steps);
  check.require(batch >= 1 && batch <= 1'000'000, "batch must be 1 to 1000000, got ", batch);
  check.require(warmup_steps >= -1 && warmup_steps <= steps,
                "warm-up steps must be 0 to the number of steps (or -1), got ", warmup_steps);
  number("learning rate", learning_rate, learning_rate >= 0, "0 or more");
  number("final learning rate", final_learning_rate, final_learning_rate >= 0, "0 or more");
  number("weight decay", weight_decay, weight_decay >= 0, "0 or more");
  number("clip", clip, clip >= 0, "0 or more");
  number("beta1", beta1, beta1 >= 0 && beta1 < 1, "in [0, 1)");
  number("beta2", beta2, beta2 >= 0 && beta2 < 1, "in [0, 1)");
  number("epsilon", epsilon, epsilon > 0, "above 0");
  number("table learning rate multiplier", table_learning_rate_multiplier,
         table_learning_rate_multiplier >= 0, "0 or more");
  check.done();
}

void TrainOptions::check_step(int64_t length) const {
  constexpr int64_t kMost = int64_t{1} << 22;
  if (batch <= kMost / length) return;
  fail("train", "batch ", batch, " x length ", length, " is ", batch * length, " tokens a step; expected at most ", kMost,
       " (2^22), as a training can only be stopped between steps");
}

double learning_rate_at(const TrainOptions& options, int64_t step) {
  const int64_t warmup = options.warmup();
  if (step < warmup) {
    return options.learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const int64_t rest = options.steps - warmup;
  const double done = rest <= 1 ? 0 : static_cast<double>(step - warmup) / static_cast<double>(rest);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * std::min(done, 1.0)));
  return options.final_learning_rate +
         (options.learning_rate - options.final_learning_rate) * cosine;
}

struct Trainer::State {
  // A stretch of one array, updated by one task.
  struct Piece {
    int64_t first, size;
    bool decays, table;
  };
  static constexpr int64_t kPiece = 1 << 14;

  State(Model& model, const TrainOptions& options, Executor& executor)
      : model(model), options(options), executor(executor),
        batch(model.config(), model.scheme(), model.layout(), options.batch, executor),
        gradient(model.layout().size()), mean(model.layout().size()),
        square(model.layout().size()) {
    for (const ParameterArray& array : model.arrays()) {
      for (int64_t first = 0; first < array.size; first += kPiece) {
        pieces.push_back({array.offset + first, std::min(kPiece, array.size - first),
                          array.decays, array.table});
      }
    }
  }

  void update(double learning_rate, double gradient_scale) {
    const double steps_done = static_cast<double>(step + 1);
    executor.run(static_cast<int64_t>(pieces.size()), [&](int64_t index, int) {
      const Piece& piece = pieces[static_cast<size_t>(index)];
      const double rate =
          learning_rate * (piece.table ? options.table_learning_rate_multiplier : 1.0);
      train::elementwise<float>().adamw(
          {.n = piece.size,
           .value = model.values() + piece.first,
           .mean = mean.data() + piece.first,
           .square = square.data() + piece.first,
           .gradient = gradient.data() + piece.first,
           .gradient_scale = static_cast<float>(gradient_scale),
           .beta1 = static_cast<float>(options.beta1),
           .beta2 = static_cast<float>(options.beta2),
           .epsilon = static_cast<float>(options.epsilon),
           .mean_correction = static_cast<float>(1 / (1 - std::pow(options.beta1, steps_done))),
           .square_correction = static_cast<float>(1 / (1 - std::pow(options.beta2, steps_done))),
           .learning_rate = static_cast<float>(rate),
           .weight_decay = piece.decays ? static_cast<float>(options.weight_decay) : 0.0f});
    });
  }

  Model& model;
  TrainOptions options;
  Executor& executor;
  train::BatchGradient<float> batch;
  train::Buffer<float> gradient, mean, square;
  std::vector<Piece> pieces;
  std::vector<int32_t> tokens;        // an encoder's, without padding
  std::vector<float> number_per_key;  // and where it stood
  int64_t step = 0;
};

Trainer::Trainer(Model& model, const TrainOptions& options, Executor& executor) {
  options.check();
  options.check_step(model.config().length);
  state_ = std::make_unique<State>(model, options, executor);
}
Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&&) noexcept = default;

int64_t Trainer::steps_done() const { return state_->step; }
bool Trainer::finite() const {
  const float* values = state_->model.values();
  return std::all_of(values, values + state_->model.layout().size(), [](float x) { return std::isfinite(x); });
}
const TrainOptions& Trainer::options() const { return state_->options; }

namespace {

constexpr const char* kTrainingFormat = "locant training 1";

// Everything that decides how a training goes on, steps done and threads apart.
std::string training_identity(const Model& model, const TrainOptions& o) {
  const ModelConfig& c = model.config();
  return text_of(specification(model.scheme(), true), " vocabulary ", c.vocabulary, " layers ",
                 c.layers, " width ", c.width, " heads ", c.heads, " feed-forward ", c.hidden(),
                 " length ", c.length, " seed ", c.seed, " deviation ", c.initial_deviation,
                 " steps ", o.steps, " batch ", o.batch, " learning rate ", o.learning_rate, " to ",
                 o.final_learning_rate, " warm-up ", o.warmup(), " decay ", o.weight_decay,
                 " clip ", o.clip, " betas ", o.beta1, " ", o.beta2, " epsilon ", o.epsilon,
                 " tables ", o.table_learning_rate_multiplier, c.encoder ? " encoder" : "");
}

}  // namespace

void Trainer::save(const std::string& path, const std::string& note) const {
  const State& s = *state_;
  const int64_t n = s.model.layout().size();
  const auto size = static_cast<size_t>(n);
  const std::vector<TensorToWrite> tensors{
      float_tensor("values", {n}, {s.model.values(), size}),
      float_tensor("mean", {n}, {s.mean.data(), size}),
      float_tensor("square", {n}, {s.square.data(), size})};
  write_safetensors(path,
                    {{"format", kTrainingFormat},
                     {"training", training_identity(s.model, s.options)},
                     {"steps_done", std::to_string(s.step)},
                     {"note", note}},
                    tensors);
}

std::string Trainer::load(const std::string& path) {
  State& s = *state_;
  const SafetensorsReader file(path);
  const auto entry = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string("nothing") : found->second;
  };
  const auto expect = [&](const char* key, const std::string& expected) {
    if (entry(key) != expected) {
      fail("load training", path, ": expected ", key, " \"", expected, "\", got \"", entry(key), "\"");
    }
  };
  expect("format", kTrainingFormat);
  expect("training", training_identity(s.model, s.options));
  int64_t done = -1;
  const std::string steps = entry("steps_done");
  std::from_chars(steps.data(), steps.data() + steps.size(), done);
  if (done < 0 || done > s.options.steps) {
    fail("load training", path, ": steps_done must be 0 to ", s.options.steps, ", got \"", steps, "\"");
  }
  // Read everything before anything is replaced.
  const int64_t n = s.model.layout().size();
  const std::vector<int64_t> shape{n};
  std::vector<float> numbers[3];
  const char* names[] = {"values", "mean", "square"};
  for (int k = 0; k < 3; ++k) {
    numbers[k].resize(static_cast<size_t>(n));
    file.read_floats(names[k], shape, numbers[k]);
    if (!std::all_of(numbers[k].begin(), numbers[k].end(), [](float x) { return std::isfinite(x); })) {
      fail("load training", path, " is damaged: ", names[k], " holds numbers that are not finite");
    }
  }
  std::copy(numbers[0].begin(), numbers[0].end(), s.model.values());
  std::copy(numbers[1].begin(), numbers[1].end(), s.mean.data());
  std::copy(numbers[2].begin(), numbers[2].end(), s.square.data());
  s.step = done;
  return entry("note");
}

StepResult Trainer::step(std::span<const int32_t> inputs, std::span<const int32_t> targets) {
  State& s = *state_;
  const ModelConfig& config = s.model.config();
  const size_t expected = static_cast<size_t>(s.options.batch * config.length);
  Check check("train");
  check.require(s.step < s.options.steps, "all ", s.options.steps, " steps are done");
  check.require(inputs.size() == expected && targets.size() == expected, "inputs and targets must be ",
                s.options.batch, " x ", config.length, " tokens each, got ", inputs.size(), " and ",
                targets.size());
  const auto within = [&](std::span<const int32_t> tokens, int32_t least) {
    const auto outside = std::find_if(tokens.begin(), tokens.end(), [&](int32_t token) {
      return token < least || token >= config.vocabulary;
    });
    if (outside != tokens.end()) {
      check.require(false, "tokens must be 0 to ", config.vocabulary - 1, ", got ", *outside);
    }
  };
  within(inputs, config.encoder ? -1 : 0);
  within(targets, -1);
  check.require(std::any_of(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; }),
                "nothing is asked: every target is -1");
  check.done();

  const int32_t* tokens = inputs.data();
  const float* number_per_key = nullptr;
  if (config.encoder) {
    s.tokens.assign(inputs.begin(), inputs.end());
    s.number_per_key.assign(inputs.size(), 0.0f);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] >= 0) continue;
      s.tokens[i] = 0;
      s.number_per_key[i] = -std::numeric_limits<float>::infinity();
    }
    tokens = s.tokens.data();
    number_per_key = s.number_per_key.data();
  }
  const auto batch = s.batch.run(s.model.values(), tokens, targets.data(), s.gradient.data(),
                                 number_per_key);
  StepResult result;
  result.step = s.step;
  result.loss = batch.loss;
  result.gradient_norm = std::sqrt(batch.squares);
  result.learning_rate = learning_rate_at(s.options, s.step);
  result.finite = std::isfinite(batch.loss) && std::isfinite(result.gradient_norm);
  if (result.finite) {
    const bool clips = s.options.clip > 0 && result.gradient_norm > s.options.clip;
    s.update(result.learning_rate, clips ? s.options.clip / result.gradient_norm : 1.0);
  }
  ++s.step;
  return result;
}

}  // namespace locant
