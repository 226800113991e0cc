// See overlap.h: solves a.start + sum i s = b.start + sum j t for whole numbers i, j in range.
#include "locant/attention/overlap.h"

#include <algorithm>
#include <cstdlib>

namespace locant::attention {

bool overlap(const Extent& a, const Extent& b) {
  // a.start + sum i s == b.start + sum j t for indices i, j in range? One unknown a stride.
  struct Unknown {
    int64_t stride, low, high;    // the coefficient of stride lies in [low, high]
    int64_t rest_low, rest_high;  // what the unknowns after this one can add up to
  };
  std::vector<Unknown> unknowns;
  for (const Extent* side : {&a, &b}) {
    for (const auto& [extent, stride] : side->dimensions) {
      if (extent == 0) return false;
      if (extent == 1 || stride == 0) continue;
      const bool rising = (stride > 0) == (side == &a);
      const int64_t low = rising ? 0 : 1 - extent, high = rising ? extent - 1 : 0;
      const auto same = std::find_if(unknowns.begin(), unknowns.end(),
                                     [s = std::abs(stride)](auto& u) { return u.stride == s; });
      if (same == unknowns.end()) {
        unknowns.push_back({std::abs(stride), low, high, 0, 0});
      } else {
        same->low += low;
        same->high += high;
      }
    }
  }
  std::sort(unknowns.begin(), unknowns.end(),
            [](const Unknown& x, const Unknown& y) { return x.stride > y.stride; });
  int64_t low = 0, high = 0;
  for (size_t n = unknowns.size(); n-- > 0;) {
    unknowns[n].rest_low = low;
    unknowns[n].rest_high = high;
    low += unknowns[n].stride * unknowns[n].low;
    high += unknowns[n].stride * unknowns[n].high;
  }
  const auto floor_divide = [](int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); };
  int64_t branches = 100000;
  const auto solve = [&](const auto& self, size_t n, int64_t difference) -> bool {
    if (n == unknowns.size()) return difference == 0;
    if (--branches < 0) return true;
    const Unknown& u = unknowns[n];
    const int64_t first = std::max(u.low, -floor_divide(u.rest_high - difference, u.stride));
    const int64_t last = std::min(u.high, floor_divide(difference - u.rest_low, u.stride));
    for (int64_t i = first; i <= last; ++i) {
      if (self(self, n + 1, difference - i * u.stride)) return true;
    }
    return false;
  };
  const auto difference = static_cast<int64_t>(b.start - a.start);
  return difference >= low && difference <= high && solve(solve, 0, difference);
}

}  // namespace locant::attention
