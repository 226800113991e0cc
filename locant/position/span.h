// A table with one number for each distance that a call can reach, for schemes whose bias is a
// smooth function of |j - i| (KERPLE, Sandwich). It grows with the span of the positions.
#pragma once

#include <string_view>

#include "locant/position/scheme.h"

namespace locant {

// More distances than this are refused, naming the span.
inline constexpr int64_t kLargestSpan = int64_t{1} << 24;

struct SpanTable {
  NumberPerDistance<double>
      number;  // all zero; [heads here][rows][1], row r is |j - i| = first + r
  int64_t first = 0;
};

// Throws std::invalid_argument when the span is too large.
SpanTable span_table(std::string_view scheme, const Call& call);

// Throws std::invalid_argument unless the heads computed here are heads of the model.
void check_heads(std::string_view scheme, const Call& call);

}  // namespace locant
