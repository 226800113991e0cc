// The part of a plan that scores and rows are added by: tables clipped to the distances a call can
// ask for, with the factors of the scale and of base 2 multiplied in.
#pragma once

#include "locant/attention/plan.h"
#include "locant/attention/prepare.h"
#include "locant/position/terms.h"

namespace locant::attention {

constexpr double kLog2e = 1.4426950408889634;

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Extremes {
  int64_t low = 0, high = 0;
};

// inside, outside: factors of what the scale multiplies and of what is added after it. reach: the
// distances that lanes may ask for.
NumberTerm number_term(const NumberPerDistance<float>& term, double inside, double outside,
                       const Extremes& reach, Arrays& arrays);

// windowed: columns of a tile's pairs are read side by side, as for queries and values.
RowsTerm rows_term(const IndexMap& index, const Table<float>& table, int64_t lanes, const Plan& plan,
                   const Extremes& reach, bool windowed, double factor, double row_factor,
                   Arrays& arrays);

// numbers: [B or 1, H or 1, K], packed [1, H or 1, total].
void key_numbers(const View<const float, 3>& numbers, Plan& plan, Arrays& arrays);

}  // namespace locant::attention
