#pragma once

// Golden values: KERPLE (arXiv 2205.09921). log: -p ln(1 + a n); power: -a n^p; n = i - j.

namespace locant::golden {

inline constexpr int kKerpleDistances[6] = {0, 1, 2, 5, 10, 100};
inline constexpr double kKerpleLogP1A1[6] = {0,         -.693147,  -1.098612,
                                             -1.791759, -2.397895, -4.615121};
inline constexpr double kKerpleLogP2Ahalf[6] = {0,         -.810930,  -1.386294,
                                                -2.505526, -3.583519, -7.863651};
inline constexpr double kKerplePowerAhalfPhalf[6] = {0, -.5, -.707107, -1.118034, -1.581139, -5};
// Toy (golden/toy.h), log, p = a = 1, causal.
inline constexpr double kKerpleToyWeights[3][3] = {
    {1, 0, 0}, {.503490, .496510, 0}, {.579947, .211492, .208560}};

}  // namespace locant::golden
