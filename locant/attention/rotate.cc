// See rotate.h. Sines of consecutive positions come from the addition theorem, in double: position
// p = base + step, so n positions cost about 2 sqrt(n) sines a pair and n complex products.
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

}  // namespace

void fill_turn(const Rotation& rotation, const int32_t* positions, int64_t n, int side, float* cosine,
               float* sine) {
  const int64_t pairs = rotation.width / 2;
  std::vector<Angle> step(static_cast<size_t>(pairs * kStep)), base(static_cast<size_t>(pairs));
  for (int64_t s = 0; s < kStep; ++s) {
    for (int64_t t = 0; t < pairs; ++t) {
      step[static_cast<size_t>(s * pairs + t)] =
          angle_of(static_cast<double>(s), rotation.frequency[static_cast<size_t>(t)]);
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
      const double c = large[t].cosine * small[t].cosine - large[t].sine * small[t].sine;
      const double s = large[t].sine * small[t].cosine + large[t].cosine * small[t].sine;
      cosine[i * pairs + t] = static_cast<float>(size * c);
      sine[i * pairs + t] = static_cast<float>(size * s);
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
