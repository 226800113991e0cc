#include "locant/position/sandwich.h"

#include <cmath>

#include "locant/base/check.h"
#include "locant/position/span.h"

namespace locant {

Description Sandwich::describe() const {
  return {.title = "Sandwich, biases of sinusoids",
          .paper = "Chi et al. 2022, arXiv 2212.10356",
          .acts = "scores, after the scale",
          .where = "every layer, the same",
          .learns = "nothing",
          .cost = "an addition to each score",
          .beyond = "defined; far keys fade, about as the logarithm of the distance",
          .users = "NeMo's experiments"};
}

void Sandwich::options(OptionVisitor& visit) {
  visit.real("base", base, 1.01, 1e12, "largest timescale");
  visit.integer("width", width, 0, 1 << 20, "number of sinusoids; 0 = the head size");
}

void Sandwich::check(const Call& call) const {
  check_heads(name(), call);
  const int64_t d = width_of(call);
  if (d < 2 || d % 2 != 0) fail(name(), "width must be even and 2 or more, got ", d);
}

// 1. nothing  2. nothing

// 3.
void Sandwich::score(const Call& call, const Parameters&, Terms<double>& terms) const {
  const int64_t pairs = width_of(call) / 2;
  std::vector<double> frequency;
  for (int64_t t = 1; t <= pairs; ++t) {
    frequency.push_back(std::pow(base, -static_cast<double>(t) / static_cast<double>(pairs)));
  }
  SpanTable span = span_table(name(), call);
  Table<double>& table = span.number.table;
  for (int64_t r = 0; r < table.rows; ++r) {
    const double n = static_cast<double>(span.first + r);
    double sum = -static_cast<double>(pairs);
    for (double f : frequency) sum += std::cos(n * f);
    for (int64_t h = 0; h < table.heads; ++h) {
      const double count = static_cast<double>(call.first_head + h + 1);
      *table.row(h, r) = sum * static_cast<double>(call.sizes.heads) / (8 * count);
    }
  }
  terms.number = std::move(span.number);
}

// 4. nothing  5. nothing is learned; no end

}  // namespace locant
