#pragma once

// Golden values: Sandwich (arXiv 2212.10356) as in NeMo: the exponent starts at 1.

namespace locant::golden {

inline constexpr int kSandwichDistances8[6] = {0, 1, 2, 5, 10, 100};
// Width 8, 8 heads, first head; head 2 is half, head 8 one eighth of it.
inline constexpr double kSandwich8Head1[6] = {0,        -.005046, -.020135,
                                              -.123680, -.464744, -2.303815};
inline constexpr double kSandwich8WrongExponentAt1 = -.464744;  // exponent from 0: a wrong answer
// Width 128, 12 heads, first head.
inline constexpr int kSandwichDistances128[5] = {1, 2, 10, 100, 512};
inline constexpr double kSandwich128Head1[5] = {-2.169928, -7.802989, -29.011359, -49.978371,
                                                -71.941976};

}  // namespace locant::golden
