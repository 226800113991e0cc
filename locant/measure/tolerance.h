// How far a result may be from the double twin. For an element behind which sums of n numbers stand:
//   |got - want| <= kSafety (1 + n) eps magnitude
// magnitude is the sum of the absolute values of what was added (sized.h), so it is the relative
// tolerance where nothing cancels and the absolute floor where something does.
#pragma once

#include <cmath>
#include <cstdint>

namespace locant::measure {

inline constexpr double kSafety = 4;
inline constexpr double kEpsFloat = 0x1p-23;
inline constexpr double kEpsDouble = 0x1p-52;
inline constexpr double kEpsBf16 = 0x1p-7;

// n of an attention call: sums over keys, over queries, over channels. Roundings have either sign, so
// that those of a sum of n numbers grow as its root (Higham and Mary 2019), and the worst case would
// hide small mistakes.
inline int64_t sum_length(int64_t queries, int64_t keys, int64_t channels) {
  return static_cast<int64_t>(std::ceil(std::sqrt(double(queries + keys + channels))));
}

}  // namespace locant::measure
