#include "locant/position/sinusoidal.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"

namespace locant {

std::vector<double> sinusoidal_frequencies(int64_t width, double base, Sinusoidal::Layout layout) {
  const bool t2t = layout == Sinusoidal::Layout::kTensor2Tensor;
  const int64_t count = t2t ? width / 2 : (width + 1) / 2;
  // tensor2tensor divides by the number of steps between timescales, at least one.
  const double steps = static_cast<double>(std::max<int64_t>(count - 1, 1));
  std::vector<double> frequencies;
  for (int64_t t = 0; t < count; ++t) {
    const double step = static_cast<double>(t);
    const double exponent = t2t ? step / steps : 2 * step / static_cast<double>(width);
    frequencies.push_back(std::pow(base, -exponent));
  }
  return frequencies;
}

Description Sinusoidal::describe() const {
  return {.title = "Sinusoidal absolute positions",
          .paper = "Vaswani et al. 2017, arXiv 1706.03762",
          .acts = "embeddings",
          .where = "once, before the first layer",
          .learns = "nothing",
          .cost = "none in attention",
          .beyond = "defined, but the sums were never seen: loss rises at once",
          .users = "the first Transformer, fairseq and tensor2tensor models, OpenNMT"};
}

void Sinusoidal::options(OptionVisitor& visit) {
  visit.word("layout", layout, {"interleaved", "concatenated", "tensor2tensor"},
             "order of sines and cosines; tensor2tensor has its own frequencies");
  visit.real("base", base, 1, 1e12, "largest timescale");
  visit.real("amplitude", amplitude, 0, 1e6, "multiplies the rows");
}

// sin^2 + cos^2 = 1 in each pair, so a row's root mean square is amplitude / sqrt(2). Left at 1,
// rows would drown embeddings drawn with deviation .02. The paper's way to the same end is to
// multiply the embeddings by sqrt(D); ours leaves them as other schemes have them.
void Sinusoidal::fit(const Fitting& to) {
  if (to.free("amplitude")) amplitude = to.embedding_deviation * std::sqrt(2.0);
}

// 1.
void Sinusoidal::embed(const int64_t* positions, int64_t n, const Sizes& sizes, const Parameters&,
                       double* rows) const {
  const std::vector<double> frequencies = sinusoidal_frequencies(sizes.width, base, layout);
  const int64_t sines = static_cast<int64_t>(frequencies.size());
  const bool interleaved = layout == Layout::kInterleaved;
  for (int64_t r = 0; r < n; ++r) {
    if (positions[r] < 0) fail(name(), "positions must be 0 or more, got ", positions[r]);
    double* row = rows + r * sizes.width;
    for (int64_t t = 0; t < sines; ++t) {
      const double angle = static_cast<double>(positions[r]) * frequencies[static_cast<size_t>(t)];
      row[interleaved ? 2 * t : t] += amplitude * std::sin(angle);
      if (t < sizes.width / 2)
        row[interleaved ? 2 * t + 1 : sines + t] += amplitude * std::cos(angle);
    }
  }
}

// 2. nothing  3. nothing  4. nothing  5. nothing is learned; no end

}  // namespace locant
