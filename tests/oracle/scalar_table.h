#pragma once

// The oracle: a learned number per distance, b_ij = t[clip(x, -K, K) + K] with x = j - i or i - j.

#include "tests/oracle/shaw.h"

namespace locant::oracle {

inline Matrix scalar_table_bias(const std::vector<double>& table, int max_distance, Order order,
                                const Positions& queries, const Positions& keys) {
  return number_term(table, relative_index(queries, keys, max_distance, max_distance, order,
                                           Outside::kClip));
}

}  // namespace locant::oracle
