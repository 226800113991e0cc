// Training: AdamW on the mean next-token loss, cosine schedule with warm-up, gradients clipped.
//
// A batch is cut into shards whose number never depends on the number of threads; each shard runs on
// one thread from embedding to gradient; gradients are summed in a fixed order. So the losses are the
// same to the last bit for any executor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "locant/base/executor.h"
#include "locant/train/model.h"

namespace locant {

struct TrainOptions {
  int64_t steps = 700;  // of the schedule
  int64_t batch = 32;   // sequences a step
  double learning_rate = 1e-3;
  double final_learning_rate = 0;  // at the last step, by a cosine
  int64_t warmup_steps = -1;       // linear from 0; -1 means steps / 20, at most 100
  double weight_decay = 0.01;      // decoupled; arrays that decay only
  double clip = 1.0;               // largest norm of the whole gradient; 0 means none
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double table_learning_rate_multiplier = 30;  // position tables

  int64_t warmup() const;
  // Throws std::invalid_argument with all that is wrong.
  void check() const;
  // A step is not stopped in its middle, so its tokens have a limit. Throws std::invalid_argument.
  void check_step(int64_t length) const;
};

// Learning rate of step 0, 1, ... of the schedule (without the multiplier).
double learning_rate_at(const TrainOptions& options, int64_t step);

struct StepResult {
  int64_t step = 0;          // 0 for the first
  double loss = 0;           // mean over the batch's targets, nats, before the update
  double gradient_norm = 0;  // before clipping
  double learning_rate = 0;
  bool finite = true;  // false: loss or gradient is not finite, and the model was left as it was
};

class Trainer {
 public:
  // The model and the executor must outlive the trainer. Throws std::invalid_argument.
  Trainer(Model& model, const TrainOptions& options, Executor& executor);
  ~Trainer();
  Trainer(Trainer&&) noexcept;

  // One update from inputs and targets, [batch][length] each; targets[b][t] follows inputs[b][t] (an
  // encoder: is what is asked there). Nothing is asked where a target is -1; an encoder's input of -1
  // is padding, which nobody sees.
  // Throws std::invalid_argument for wrong sizes or a token outside the vocabulary, or after the last step.
  StepResult step(std::span<const int32_t> inputs, std::span<const int32_t> targets);

  int64_t steps_done() const;
  bool finite() const;  // every weight of the model
  const TrainOptions& options() const;

  // A training stopped between two steps goes on to the same last bit from this file: the model's
  // numbers, AdamW's moments, the steps done; `note` is the caller's own text. Saving is atomic.
  // Loading replaces the model's numbers and returns the note; throws std::invalid_argument, and
  // changes nothing, unless the file comes from a training of the same model and options.
  void save(const std::string& path, const std::string& note) const;
  std::string load(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locant
