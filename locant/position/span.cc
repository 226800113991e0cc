#include "locant/position/span.h"

#include <algorithm>
#include <cstdlib>

#include "locant/base/check.h"

namespace locant {

SpanTable span_table(std::string_view scheme, const Call& call) {
  const int64_t low = call.first_distance;
  int64_t high = call.causal ? std::min<int64_t>(call.last_distance, 0) : call.last_distance;
  high = std::max(low, high);  // a call without a single pair still gets one row
  const bool both_sides = low <= 0 && high >= 0;
  const int64_t nearest = both_sides ? 0 : std::min(std::abs(low), std::abs(high));
  const int64_t farthest = std::max(std::abs(low), std::abs(high));
  if (high - low >= kLargestSpan) {
    fail(scheme, "the positions of a call may span ", kLargestSpan, " distances, got ",
         high - low + 1, " (", low, " to ", high, ")");
  }
  SpanTable table;
  table.first = nearest;
  table.number.index.first = low;
  for (int64_t distance = low; distance <= high; ++distance) {
    table.number.index.rows.push_back(static_cast<int32_t>(std::abs(distance) - nearest));
  }
  table.number.table = Table<double>(call.heads_here(), farthest - nearest + 1, 1);
  return table;
}

void check_heads(std::string_view scheme, const Call& call) {
  const int64_t end = call.first_head + call.heads_here();
  if (call.first_head < 0 || call.heads_here() < 1 || end > call.sizes.heads) {
    fail(scheme, "heads ", call.first_head, " to ", end - 1, " must be among the model's ",
         call.sizes.heads);
  }
}

}  // namespace locant
