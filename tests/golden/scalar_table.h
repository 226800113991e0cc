#pragma once

// Golden values: a learned number per distance, clipped to [-K, K], added after the scale.
// Row 0 is the far left (order j - i). Toy problem: golden/toy.h.

namespace locant::golden {

inline constexpr int kScalarIndexK1[3][3] = {{1, 2, 2}, {0, 1, 2}, {0, 0, 1}};
inline constexpr double kScalarToyTable[3] = {-.5, 0, .25};
inline constexpr double kScalarToyBias[3][3] = {{0, .25, .25}, {-.5, 0, .25}, {-.5, -.5, 0}};
inline constexpr double kScalarToyWeights[3][3] = {
    {.514065, .325461, .160475}, {.350047, .284565, .365388}, {.694081, .168743, .137176}};
inline constexpr double kScalarToyOut[3][2] = {
    {.835014, .646410}, {1.080824, 1.015341}, {.968434, .443096}};

}  // namespace locant::golden
