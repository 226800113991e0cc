// The median of a few numbers: what one disturbed run does not move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace locant {

inline double median(std::vector<double> values) {  // of at least one
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace locant
