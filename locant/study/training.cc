#include "locant/study/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "locant/data/batches.h"

namespace locant::study {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kKeepSeconds = 30;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

double Course::steps_per_second(int64_t steps) const {
  if (rated_steps > 0) return double(rated_steps) / rated_seconds;
  return double(std::max<int64_t>(1, steps)) / seconds;
}

bool follow(const Lesson& lesson, Trainer& trainer, const ModelConfig& config, Course& course) {
  const int64_t steps = trainer.options().steps, tokens = trainer.options().batch * config.length;
  std::vector<int32_t> inputs(static_cast<size_t>(tokens)), targets(inputs.size());
  const int64_t every = std::max<int64_t>(1, steps / 100);        // a hundred points a curve,
  const int64_t check_every = std::max<int64_t>(1, steps / 10);  // ten of validation
  const int64_t first = trainer.steps_done();
  auto kept = Clock::now();
  for (int64_t step = first; step < steps; ++step) {
    const bool stop = lesson.stop && lesson.stop();
    if (lesson.keep && (stop || seconds_since(kept) > kKeepSeconds)) {
      lesson.keep(course);
      kept = Clock::now();
    }
    if (stop) return false;
    const auto begin = Clock::now();
    lesson.fill(static_cast<uint64_t>(step), inputs, targets);
    const StepResult result = trainer.step(inputs, targets);
    const double took = seconds_since(begin);
    course.seconds += took;
    if (step > first) {
      course.rated_seconds += took;
      ++course.rated_steps;
    }
    if (!result.finite) {
      const bool loss = std::isfinite(result.loss);
      course.error = fmt::format("{} not finite at step {}", loss ? "gradient" : "loss", step + 1);
      course.spoiled = !loss || !trainer.finite();
      return true;
    }
    course.sum += result.loss;
    ++course.summed;
    const bool last = step + 1 == steps;
    if ((step + 1) % every == 0 || last) {
      course.curve.emplace_back(step + 1, course.sum / double(course.summed));
      course.sum = 0;
      course.summed = 0;
    }
    if (lesson.validate && ((step + 1) % check_every == 0 || last)) {
      course.validation.emplace_back(step + 1, lesson.validate());
    }
    if (lesson.step_done) {
      lesson.step_done(step + 1, steps, result.loss, double(tokens) * course.steps_per_second(step + 1));
    }
  }
  // The last update is followed by no loss that would show it.
  if (!trainer.finite()) {
    course.error = fmt::format("weights not finite after step {}", steps);
    course.spoiled = true;
  }
  return true;
}

Lesson lesson_of_text(const Corpus& corpus, int64_t batch, int64_t length, uint64_t seed) {
  const auto sampler = std::make_shared<BatchSampler>(corpus.train(), batch, length, seed);
  Lesson lesson;
  lesson.fill = [sampler](uint64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) {
    sampler->fill(step, inputs, targets);
  };
  return lesson;
}

}  // namespace locant::study
