#pragma once

// Golden values: sinusoidal positions (Vaswani 2017, arXiv 1706.03762) in the three layouts found
// in published models: A sin/cos alternating (paper), B all sines then all cosines
// (Transformer-XL, XLNet, RoFormer), C as B with tensor2tensor's own frequencies.

namespace locant::golden {

// Width 8, layout A.
inline constexpr int kSinusoidalPositionsA8[4] = {0, 1, 3, 100};
inline constexpr double kSinusoidalA8[4][8] = {
    {0, 1, 0, 1, 0, 1, 0, 1},
    {.841471, .540302, .099833, .995004, .010000, .999950, .001000, 1.000000},
    {.141120, -.989992, .295520, .955336, .029996, .999550, .003000, .999996},
    {-.506366, .862319, -.544021, -.839072, .841471, .540302, .099833, .995004}};

// Width 8, layouts B and C.
inline constexpr double kSinusoidalB8Position1[8] = {.841471, .099833, .010000, .001000,
                                                     .540302, .995004, .999950, 1.000000};
inline constexpr double kSinusoidalC8Position1[8] = {.841471, .046399, .002154, .000100,
                                                     .540302, .998923, .999998, 1.000000};
inline constexpr double kSinusoidalC8Position3[8] = {.141120,  .138798, .006463, .000300,
                                                     -.989992, .990321, .999979, 1.000000};
inline constexpr double kSinusoidalFrequencies8[4] = {1, .1, .01, .001};  // A and B
inline constexpr double kSinusoidalFrequenciesC8[4] = {1, .0464159, .00215443, .0001};

// Printed by the public RoFormer test of transformers (4 digits), layout B.
inline constexpr double kFourDigits = 0.5e-4;
inline constexpr double kSinusoidalB6Position1[6] = {.8415, .0464, .0022, .5403, .9989, 1.0000};
inline constexpr double kSinusoidalB512Position1[5] = {.8415, .8219, .8020, .7819, .7617};
inline constexpr double kSinusoidalB512Position2[5] = {.9093, .9364, .9581, .9749, .9870};

// Odd width, layout B as in RoFormer: three sines, then two cosines.
inline constexpr double kSinusoidalB5Position1[5] = {.841471, .025116, .000631, .540302, .999685};

}  // namespace locant::golden
