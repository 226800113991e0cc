#pragma once

// The one place where tolerances come from. For an element that sums over n keys (or n terms):
//
//   |got - want| <= c (1 + n) eps magnitude,        c = kSafety
//
// magnitude is the sum of the absolute values of what was added: sum_j p_j |v_j| for an output,
// with the share of the scores' own rounding (AttentionResult::magnitude and, for gradients,
// GradientAndMagnitude::magnitude). It is the relative tolerance where nothing cancels and the
// absolute floor where something does. An element whose magnitude is zero (a masked row) must be
// exactly right.
// bf16: at most twice the error of a plain bf16 computation, both against a double reference.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace locant::oracle {

inline constexpr double kSafety = 4;
inline constexpr double kEpsFloat = 0x1p-23;
inline constexpr double kEpsDouble = 0x1p-52;
inline constexpr double kEpsBf16 = 0x1p-7;

struct Worst {
  double ratio = 0;  // error over what is allowed; above 1 is wrong
  std::size_t at = 0;
  std::size_t wrong = 0;  // elements above 1
};

// [2, 0, 5] of a flat index in a shape; the flat index alone where no shape is given.
inline std::string index_text(std::size_t flat, const std::vector<std::int64_t>& shape) {
  std::ostringstream text;
  if (shape.empty()) {
    text << '[' << flat << ']';
    return text.str();
  }
  std::vector<std::size_t> at(shape.size());
  for (std::size_t n = shape.size(); n-- > 0;) {
    at[n] = flat % static_cast<std::size_t>(shape[n]);
    flat /= static_cast<std::size_t>(shape[n]);
  }
  for (std::size_t n = 0; n < at.size(); ++n) text << (n ? ", " : "[") << at[n];
  text << ']';
  return text.str();
}

// allowed: one number an element, or a single one for all.
template <class Got>
Worst worst_element(const Got& got, std::span<const double> want,
                    std::span<const double> allowed) {
  Worst worst;
  for (std::size_t n = 0; n < want.size(); ++n) {
    const double x = static_cast<double>(got[n]);
    double ratio = 0;
    if (std::isnan(x) || std::isnan(want[n])) {
      ratio = std::numeric_limits<double>::infinity();  // nothing is close to NaN
    } else if (x != want[n]) {
      const double error = std::fabs(x - want[n]);
      ratio = error / allowed[allowed.size() == 1 ? 0 : n];
    }
    if (!(ratio <= 1)) ++worst.wrong;
    if (!(ratio <= worst.ratio)) {
      worst.ratio = ratio;
      worst.at = n;
    }
  }
  return worst;
}

// got: anything with size() and [] (vector, span). magnitude: one an element, or a single one.
// shape: of both, for the message.
template <class Got>
void expect_close(const std::string& name, const Got& got, std::span<const double> want,
                  std::span<const double> magnitude, std::int64_t n_keys, double eps,
                  const std::vector<std::int64_t>& shape = {}) {
  ASSERT_EQ(got.size(), want.size()) << name << ": sizes differ";
  ASSERT_TRUE(magnitude.size() == want.size() || magnitude.size() == 1)
      << name << ": " << magnitude.size() << " magnitudes for " << want.size() << " elements";
  std::vector<double> allowed(magnitude.begin(), magnitude.end());
  for (double& a : allowed) a *= kSafety * (1 + static_cast<double>(n_keys)) * eps;
  const Worst worst = worst_element(got, want, allowed);
  if (worst.wrong == 0) return;
  std::ostringstream text;
  text.precision(12);
  text << name << ": " << worst.wrong << " of " << want.size() << " elements differ; worst at "
       << index_text(worst.at, shape) << ": got " << static_cast<double>(got[worst.at]) << ", want "
       << want[worst.at] << ", allowed " << allowed[allowed.size() == 1 ? 0 : worst.at] << " ("
       << worst.ratio << " times)";
  ADD_FAILURE() << text.str();
}

// The largest absolute value, as a single magnitude for a tensor whose elements are alike.
inline std::vector<double> largest(std::span<const double> values) {
  double top = 0;
  for (double x : values) top = std::max(top, std::fabs(x));
  return {top};
}

// want within half a unit of the last printed digit (golden values); plus a rounding of its own.
template <class Got>
void expect_printed(const std::string& name, const Got& got, std::span<const double> want,
                    double half_unit, const std::vector<std::int64_t>& shape = {}) {
  ASSERT_EQ(got.size(), want.size()) << name << ": sizes differ";
  const double allowed[] = {half_unit * (1 + 1e-6)};
  const Worst worst = worst_element(got, want, allowed);
  if (worst.wrong == 0) return;
  std::ostringstream text;
  text.precision(12);
  text << name << ": " << worst.wrong << " of " << want.size() << " differ; worst at "
       << index_text(worst.at, shape) << ": got " << static_cast<double>(got[worst.at])
       << ", printed " << want[worst.at];
  ADD_FAILURE() << text.str();
}

// plain: the same computed plainly in bf16 (inputs and every stored result rounded to bf16).
template <class Got, class Plain>
void expect_bf16_close(const std::string& name, const Got& got, const Plain& plain,
                       std::span<const double> want, std::span<const double> magnitude,
                       const std::vector<std::int64_t>& shape = {}) {
  ASSERT_EQ(got.size(), want.size()) << name << ": sizes differ";
  ASSERT_EQ(plain.size(), want.size()) << name << ": sizes differ";
  // Never below the rounding of the result itself to bf16.
  const Worst by_plain = worst_element(plain, want, magnitude);
  const double share = 2 * std::max(by_plain.ratio, kEpsBf16 / 2);
  std::vector<double> allowed(magnitude.begin(), magnitude.end());
  for (double& a : allowed) a *= share;
  const Worst worst = worst_element(got, want, allowed);
  if (worst.wrong == 0) return;
  std::ostringstream text;
  text.precision(8);
  text << name << ": error above twice that of plain bf16 (" << by_plain.ratio
       << " of the magnitude); " << worst.wrong << " elements, worst at "
       << index_text(worst.at, shape) << ": got " << static_cast<double>(got[worst.at]) << ", want "
       << want[worst.at];
  ADD_FAILURE() << text.str();
}

}  // namespace locant::oracle
