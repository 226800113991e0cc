// The loop of one training, whatever it learns: what `locant train` and `locant compare` share.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "locant/data/corpus.h"
#include "locant/train/trainer.h"

namespace locant::study {

// What a training leaves behind, besides the model, and what it carries from step to step.
struct Course {
  std::vector<std::pair<int64_t, double>> curve;       // step, mean loss since the last point
  std::vector<std::pair<int64_t, double>> validation;  // step, what Lesson::validate gave
  double sum = 0;  // of losses since the last point of the curve
  int64_t summed = 0;
  double seconds = 0;  // of all steps
  // Of the steps a rate is taken from: all but the first that a process makes, which pays for its start (memory,
  // threads, generated code).
  double rated_seconds = 0;
  int64_t rated_steps = 0;
  std::string error;     // not empty: what was not finite, and at which step
  bool spoiled = false;  // the model's own loss or a weight was not: it is good for nothing
  // After `steps` in all. Where no step but first ones was made, these count.
  double steps_per_second(int64_t steps) const;
};

struct Lesson {
  // Inputs and targets of a step, [batch][length] each.
  std::function<void(uint64_t step, std::span<int32_t> inputs, std::span<int32_t> targets)> fill;
  // The rest may be left out.
  std::function<double()> validate;                // ten times
  std::function<bool()> stop;                      // asked before each step
  std::function<void(const Course& course)> keep;  // twice a minute, and when it is stopped
  std::function<void(int64_t step, int64_t steps, double loss, double tokens_per_second)> step_done;
};

// From trainer.steps_done() to the last step. False when it was stopped.
bool follow(const Lesson& lesson, Trainer& trainer, const ModelConfig& config, Course& course);

// Batches of a text; the corpus must outlive it.
Lesson lesson_of_text(const Corpus& corpus, int64_t batch, int64_t length, uint64_t seed);

}  // namespace locant::study
