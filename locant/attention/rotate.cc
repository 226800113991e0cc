// See rotate.h. Sines of consecutive positions come from the addition theorem, in double: position
// p = base + step, and a step is the sum of its halves: a sine a pair for every 16 positions, and
// products at most five deep, which round 2^29 times finer than the float that is kept.
#include "locant/attention/rotate.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace locant::attention {
namespace {

constexpr int64_t kStep = 16;

// Of all pairs: two arrays, so that the compiler takes several pairs at a time.
struct Angles {
  double *cosine, *sine;
};
struct Angle {
  double cosine, sine;
};
Angle angle_of(double position, double frequency) {
  const double angle = position * frequency;
  return {std::cos(angle), std::sin(angle)};
}
void angles_of(int64_t position, const Rotation& rotation, Angles out) {
  for (size_t t = 0; t < static_cast<size_t>(rotation.width / 2); ++t) {
    const Angle a = position == 0 ? Angle{1, 0} : angle_of(static_cast<double>(position), rotation.frequency[t]);
    out.cosine[t] = a.cosine;
    out.sine[t] = a.sine;
  }
}
void sum(Angles a, Angles b, int64_t pairs, Angles out) {
  for (int64_t t = 0; t < pairs; ++t) {
    out.cosine[t] = a.cosine[t] * b.cosine[t] - a.sine[t] * b.sine[t];
    out.sine[t] = a.sine[t] * b.cosine[t] + a.cosine[t] * b.sine[t];
  }
}

}  // namespace

void fill_turn(const Rotation& rotation, const int32_t* positions, int64_t n, int side, float* cosine,
               float* sine) {
  const int64_t pairs = rotation.width / 2;
  int64_t steps = 0;  // as many as are asked for: 0 ... steps
  for (int64_t i = 0; i < n; ++i) steps = std::max<int64_t>(steps, positions[i] % kStep);
  const auto memory = std::make_unique_for_overwrite<double[]>(static_cast<size_t>(2 * pairs * (steps + 3)));
  const auto angles = [&](int64_t at) {
    double* const first = memory.get() + 2 * pairs * at;
    return Angles{first, first + pairs};
  };
  const Angles base = angles(steps + 1), both = angles(steps + 2);
  for (int64_t s = 0; s <= steps; ++s) {
    if (s < 2) {
      angles_of(s, rotation, angles(s));
    } else {
      sum(angles(s / 2), angles(s - s / 2), pairs, angles(s));
    }
  }
  int64_t base_position = -1;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t position = positions[i];
    if (position / kStep * kStep != base_position) {
      base_position = position / kStep * kStep;
      angles_of(base_position, rotation, base);
    }
    sum(base, angles(position - base_position), pairs, both);
    const double size = rotation.magnitude;
    for (int64_t t = 0; t < pairs; ++t) {
      cosine[i * pairs + t] = static_cast<float>(size * both.cosine[t]);
      sine[i * pairs + t] = static_cast<float>(size * both.sine[t]);
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
