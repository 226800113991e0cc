// Numbers in words and sentences.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>

namespace locant::study {

// "1 step", "12 steps".
inline std::string counted(int64_t count, const std::string& one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

// "1.234"; what would fill a line with digits as "1.23e+300". `sign`: "+1.234".
inline std::string decimals(double x, bool sign = false) {
  const bool wide = std::isfinite(x) && std::fabs(x) >= 1e6;
  if (sign) return wide ? fmt::format("{:+.2e}", x) : fmt::format("{:+.3f}", x);
  return wide ? fmt::format("{:.2e}", x) : fmt::format("{:.3f}", x);
}

// How many times the training length, to two places: "16", "1.5", "1.33".
inline std::string ratio_number(int64_t length, int64_t train_length) {
  std::string text = fmt::format("{:.2f}", double(length) / double(train_length));
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace locant::study
