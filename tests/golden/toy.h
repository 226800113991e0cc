#pragma once

// Golden values: the toy attention problem that the other files share, and attention without
// positions. One head, width 2, three queries and three keys, scale 1/sqrt(2).
// Every number is rounded to the digits printed: compare with half a unit of the last digit (5e-7).

namespace locant::golden {

inline constexpr double kSixDigits = 0.5e-6;  // half a unit of the sixth decimal

inline constexpr double kToyQ[3][2] = {{1, 0}, {0, 1}, {1, 1}};
inline constexpr double kToyK[3][2] = {{1, 2}, {0, 1}, {-1, 1}};
inline constexpr double kToyV[3][2] = {{1, 0}, {0, 1}, {2, 2}};

// No positions, full attention.
inline constexpr double kToyFullWeights[3][3] = {
    {.575975, .283995, .140029}, {.503490, .248255, .248255}, {.733681, .178370, .087949}};
inline constexpr double kToyFullOut[3][2] = {
    {.856034, .564054}, {1.0, .744765}, {.909579, .354268}};

// No positions, causal: this is NoPE (arXiv 2305.19466).
inline constexpr double kToyCausalWeights[3][3] = {
    {1, 0, 0}, {.669762, .330238, 0}, {.733681, .178370, .087949}};
inline constexpr double kToyCausalOut[3][2] = {{1, 0}, {.669762, .330238}, {.909579, .354268}};

}  // namespace locant::golden
