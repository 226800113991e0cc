// Rotation (RoPE, xPos) as tables: cos and sin of every token and pair, times magnitude and growth.
#pragma once

#include "locant/attention/plan.h"
#include "locant/position/terms.h"

namespace locant::attention {

// Fills cosine and sine, [n][pairs], for n tokens. side: +1 queries, -1 keys (xPos grows one and
// shrinks the other). Angles are computed in double.
void fill_turn(const Rotation& rotation, const int32_t* positions, int64_t n, int side, float* cosine,
               float* sine);

}  // namespace locant::attention
