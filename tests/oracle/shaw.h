#pragma once

// The oracle: which row of a relative table belongs to (i, j). Shaw 2018 and its relatives differ
// in the sign, in the window and in what happens outside it.
//   Shaw           kKeyMinusQuery, left = right = k, clip
//   SpeechT5       kQueryMinusKey, low = m (rows for -m ... m - 1), clip
//   wav2vec2-BERT  kKeyMinusQuery, left 64, right 8, clip
//   VITS           kKeyMinusQuery, left = right = w, zero outside
// Terms: query_row_term, key_row_term (matrix.h), value rows in attention.h.

#include "tests/oracle/matrix.h"

namespace locant::oracle {

enum class Order { kKeyMinusQuery, kQueryMinusKey };
enum class Outside { kClip, kZero };

// Rows for x = -low ... high, x by `order`: low + high + 1 of them.
inline IndexMatrix relative_index(const Positions& queries, const Positions& keys, int low,
                                  int high, Order order, Outside outside) {
  IndexMatrix index(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int a = 0; a < index.rows; ++a) {
    for (int b = 0; b < index.cols; ++b) {
      const std::int64_t i = queries[static_cast<std::size_t>(a)];
      const std::int64_t j = keys[static_cast<std::size_t>(b)];
      std::int64_t x = order == Order::kKeyMinusQuery ? j - i : i - j;
      const bool inside = x >= -low && x <= high;
      if (!inside && outside == Outside::kZero) continue;  // stays -1
      if (x < -low) x = -low;
      if (x > high) x = high;
      index(a, b) = static_cast<int>(x + low);
    }
  }
  return index;
}

}  // namespace locant::oracle
