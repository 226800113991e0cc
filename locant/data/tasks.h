// Synthetic tasks: strings with one right answer, at lengths a model was trained at and longer ones.
//
// Everything follows from a seed: training strings from the seed of the run and the step, test strings
// from the task's name and the length alone, so that every scheme and every seed is asked the same.
//
// A decoder reads "prompt answer" as text and is trained on the answer; it is tested by what it writes
// behind the prompt. An encoder (Task::encoder) reads a string at once and answers at every place.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "locant/base/random.h"

namespace locant {

// Of training targets: nothing is asked here. Of an encoder's inputs: padding.
inline constexpr int32_t kNothing = -1;

// Tokens of a task, prompt and the answer expected behind it (decoder) or in its place (encoder).
struct Question {
  std::vector<int32_t> prompt, answer;
};

// One training string: what is read, and what must follow each token (kNothing: anything).
struct TrainingString {
  std::vector<int32_t> inputs, targets;
};

struct Task {
  std::string name;     // "copy"
  std::string title;    // "copy a string of random symbols"
  std::string example;  // "abca>abca."
  std::string bytes;    // the byte of each token, ascending
  bool encoder = false;
  int64_t shortest = 1, longest = 20;  // trained lengths, drawn evenly
  int64_t sequence = 0;                // most tokens a training string has
  std::vector<int64_t> test_lengths;   // ascending; `longest` is among them
  int64_t steps = 9000;  // of 64 strings, for a small model, and
  double learning_rate = 1e-3;
  double gate = 0.99;                  // exact matches at `longest` that count as learned
  std::function<Question(Random&, int64_t length)> question;
  std::function<TrainingString(Random&)> training;

  std::string text(std::span<const int32_t> tokens) const;
  std::vector<int32_t> tokens(const std::string& text) const;  // of bytes of this task
};

// All of them.
const std::vector<Task>& tasks();
std::vector<std::string> task_names();
// Throws std::invalid_argument naming those there are.
const Task& task_named(const std::string& name);

// inputs and targets, [batch][task.sequence] each; strings shorter than that are padded at their end
// (decoders: with token 0, which nothing before it can see; encoders: with kNothing).
void fill_training(const Task& task, uint64_t seed, uint64_t step, int64_t batch,
                   std::span<int32_t> inputs, std::span<int32_t> targets);

// `count` questions of one length; their prompts have the same number of tokens.
std::vector<Question> test_questions(const Task& task, int64_t length, int64_t count);

}  // namespace locant
