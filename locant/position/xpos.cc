#include "locant/position/xpos.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"
#include "locant/position/rope_scaling.h"

namespace locant {
namespace {

// ln zeta_t / scale_base, for each pair.
std::vector<double> log_growth(int64_t head_size, double gamma, double scale_base) {
  std::vector<double> growth;
  for (int64_t t = 0; t < head_size / 2; ++t) {
    const double share = 2 * static_cast<double>(t) / static_cast<double>(head_size);
    growth.push_back(std::log((share + gamma) / (1 + gamma)) / scale_base);
  }
  return growth;
}

// exp(85) is below the largest float (exp(88.7)), its inverse above the smallest normal one.
constexpr double kLargestLog = 85;

}  // namespace

Description Xpos::describe() const {
  return {.title = "xPos, rotary positions that fade",
          .paper = "Sun et al. 2022, arXiv 2212.10554",
          .acts = "queries and keys, turned and scaled before their product",
          .where = "every layer",
          .learns = "nothing",
          .cost = "one pass over q and k per call",
          .beyond = "defined; far keys fade, angles never seen; ends where scales overflow",
          .users = "Kosmos-1, decoders of torchscale"};
}

void Xpos::options(OptionVisitor& visit) {
  visit.real("base", base, 1.01, 1e12, "longest wavelength / 2 pi");
  visit.real("scale_base", scale_base, 1, 1e9, "distance at which a pair has faded to its zeta");
  visit.real("gamma", gamma, 1e-3, 1e6, "larger fades less");
  visit.word("layout", layout, {"interleaved", "half-split"}, "which channels make a pair");
  visit.integer("center", center, -1, int64_t{1} << 31,
                "position of scale 1; -1 = the middle of the sequence");
}

void Xpos::check(const Call& call) const {
  Check check(name());
  const int64_t head_size = call.sizes.head_size;
  check.require(head_size > 0 && head_size % 2 == 0, "head size must be even and 2 or more, got ",
                head_size);
  // Pair 0 fades fastest.
  const double steepest = std::log((1 + gamma) / gamma) / scale_base;
  const int64_t middle = center_of(call);
  const double farthest = static_cast<double>(std::max(middle, call.length - 1 - middle));
  check.require(farthest * steepest <= kLargestLog, "scales of positions 0 to ", call.length - 1,
                " around ", middle, " leave single precision; within ",
                static_cast<int64_t>(kLargestLog / steepest),
                " of the center they hold: raise scale_base");
  check.done();
}

// 1. nothing

// 2.
std::optional<Rotation> Xpos::turn(const Call& call) const {
  const int64_t head_size = call.sizes.head_size;
  Rotation rotation;
  rotation.layout = layout;
  rotation.width = head_size;
  rotation.frequency = rope_frequencies(head_size, base, head_size / 2);
  rotation.log_growth = log_growth(head_size, gamma, scale_base);
  rotation.center = center_of(call);
  return rotation;
}

// 3. nothing more  4. nothing  5. nothing is learned

}  // namespace locant
