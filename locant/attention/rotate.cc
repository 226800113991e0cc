// See rotate.h. Sines of consecutive positions come from the addition theorem, in double: position
// p = base + step, and a step is the sum of its halves: a sine a pair for every 16 positions, and
// products at most five deep, which round 2^29 times finer than the float that is kept.
#include "locant/attention/rotate.h"

#include <cmath>
#include <vector>

namespace locant::attention {
namespace {

constexpr int64_t kStep = 16;

struct Angle {
  double cosine, sine;
};
Angle angle_of(double position, double frequency) {
  const double angle = position * frequency;
  return {std::cos(angle), std::sin(angle)};
}
Angle sum(Angle a, Angle b) {
  return {a.cosine * b.cosine - a.sine * b.sine, a.sine * b.cosine + a.cosine * b.sine};
}

}  // namespace

void fill_turn(const Rotation& rotation, const int32_t* positions, int64_t n, int side, float* cosine,
               float* sine) {
  const int64_t pairs = rotation.width / 2;
  std::vector<Angle> step(static_cast<size_t>(pairs * kStep)), base(static_cast<size_t>(pairs));
  for (int64_t t = 0; t < pairs; ++t) {
    Angle* const of_pair = step.data() + t;
    of_pair[0] = {1, 0};
    of_pair[pairs] = angle_of(1, rotation.frequency[static_cast<size_t>(t)]);
    for (int64_t s = 2; s < kStep; ++s) {
      of_pair[s * pairs] = sum(of_pair[s / 2 * pairs], of_pair[(s - s / 2) * pairs]);
    }
  }
  int64_t base_position = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t position = positions[i];
    if (position / kStep * kStep != base_position) {
      base_position = position / kStep * kStep;
      for (int64_t t = 0; t < pairs; ++t) {
        base[static_cast<size_t>(t)] = angle_of(static_cast<double>(base_position),
                                                rotation.frequency[static_cast<size_t>(t)]);
      }
    }
    const Angle* small = step.data() + (position - base_position) * pairs;
    const Angle* large = base.data();
    const double size = rotation.magnitude;
    for (int64_t t = 0; t < pairs; ++t) {
      const Angle a = sum(large[t], small[t]);
      cosine[i * pairs + t] = static_cast<float>(size * a.cosine);
      sine[i * pairs + t] = static_cast<float>(size * a.sine);
    }
    if (rotation.log_growth.empty()) continue;
    for (int64_t t = 0; t < pairs; ++t) {
      const double growth = std::exp(side * static_cast<double>(position - rotation.center) *
                                     rotation.log_growth[static_cast<size_t>(t)]);
      const Angle a = angle_of(static_cast<double>(position), rotation.frequency[static_cast<size_t>(t)]);
      cosine[i * pairs + t] = static_cast<float>(size * growth * a.cosine);
      sine[i * pairs + t] = static_cast<float>(size * growth * a.sine);
    }
  }
}

}  // namespace locant::attention
