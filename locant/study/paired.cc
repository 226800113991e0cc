#include "locant/study/paired.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "locant/study/words.h"

namespace locant::study {
namespace {

// Probability that |t| stays below x. For whole degrees of freedom it is a finite sum in the angle
// whose tangent is x / sqrt(n) (Abramowitz and Stegun 26.7.3, 26.7.4).
double within(double x, int degrees) {
  const double angle = std::atan(x / std::sqrt(double(degrees)));
  const double c = std::cos(angle) * std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1, sum = 0;
  for (int k = odd ? 3 : 2; k <= degrees; k += 2) {
    sum += term;
    term *= c * double(k - 1) / double(k);
  }
  if (odd) return 2 / std::numbers::pi * (angle + std::sin(angle) * sum);
  return std::sin(angle) * sum;
}

}  // namespace

double student95(int degrees) {
  double low = 0, high = 16;  // 12.706 for one degree is the largest
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (within(middle, degrees) < .95 ? low : high) = middle;
  }
  return low;
}

Interval interval(const std::vector<double>& differences) {
  const Statistic s = statistic(differences);
  if (s.count == 0) return {NAN, NAN, 0};
  if (s.count == 1) return {s.mean, INFINITY, 1};
  return {s.mean, student95(s.count - 1) * s.deviation / std::sqrt(double(s.count)), s.count};
}

Interval change(const SchemeSummary& scheme, const std::string& protocol, int64_t from, int64_t to) {
  std::vector<double> differences;
  for (const auto& [seed, losses] : scheme.by_seed) {
    differences.push_back(loss_in(losses, protocol, to) - loss_in(losses, protocol, from));
  }
  return interval(differences);
}

Interval difference(const SchemeSummary& a, const SchemeSummary& b, const std::string& protocol,
                    int64_t length) {
  std::vector<double> differences;
  for (const auto& [seed, losses] : a.by_seed) {
    const auto other = b.by_seed.find(seed);
    if (other == b.by_seed.end()) continue;
    differences.push_back(loss_in(losses, protocol, length) - loss_in(other->second, protocol, length));
  }
  return interval(differences);
}

Interval exact_difference(const SchemeSummary& a, const SchemeSummary& b, int64_t length) {
  std::vector<double> differences;
  for (const auto& [seed, shares] : a.exact_by_seed) {
    const auto other = b.exact_by_seed.find(seed);
    if (other == b.exact_by_seed.end()) continue;
    const auto mine = shares.find(length), theirs = other->second.find(length);
    if (mine != shares.end() && theirs != other->second.end()) differences.push_back(mine->second - theirs->second);
  }
  return interval(differences);
}

std::string interval_text(const Interval& i) {
  if (i.count == 0) return "-";
  if (i.count == 1) return decimals(i.mean, true);
  return fmt::format("{} ({} to {})", decimals(i.mean, true), decimals(i.mean - i.half, true), decimals(i.mean + i.half, true));
}

}  // namespace locant::study
