#pragma once

// Golden values: ALiBi (Press 2021, arXiv 2108.12409): slopes by head count, biases, masks.
// Slopes have 8 significant digits, powers of two are exact.

namespace locant::golden {

inline constexpr double kAlibiSlopes1[1] = {.00390625};
inline constexpr double kAlibiSlopes2[2] = {.0625, .00390625};
inline constexpr double kAlibiSlopes3[3] = {.0625, .00390625, .25};
inline constexpr double kAlibiSlopes4[4] = {.25, .0625, .015625, .00390625};
inline constexpr double kAlibiSlopes5[5] = {.25, .0625, .015625, .00390625, .5};
inline constexpr double kAlibiSlopes6[6] = {.25, .0625, .015625, .00390625, .5, .125};
inline constexpr double kAlibiSlopes8[8] = {.5,     .25,     .125,     .0625,
                                            .03125, .015625, .0078125, .00390625};
inline constexpr double kAlibiSlopes10[10] = {.5,      .25,      .125,       .0625,     .03125,
                                              .015625, .0078125, .00390625, .70710678, .35355339};
inline constexpr double kAlibiSlopes12[12] = {.5,       .25,      .125,      .0625,
                                              .03125,   .015625,  .0078125,  .00390625,
                                              .70710678, .35355339, .1767767, .088388348};
inline constexpr double kAlibiSlopes16[16] = {
    .70710678,  .5,      .35355339,  .25,      .1767767,   .125,     .088388348,  .0625,
    .044194174, .03125,  .022097087, .015625,  .011048543, .0078125, .0055242717, .00390625};

struct AlibiSlope {
  int heads;
  int head;
  double slope;
};
inline constexpr AlibiSlope kAlibiSlopesPicked[] = {
    {40, 0, .84089642},  {40, 31, .00390625},  {40, 32, .91700404},
    {40, 33, .77110541}, {40, 39, .27262693},  {112, 0, .91700404},  // BLOOM-176B has 112 heads
    {112, 63, .00390625}, {112, 64, .95760328}, {112, 65, .87812608}, {112, 111, .016316778}};

// MPT's alibi_bias_max = 16.
inline constexpr double kAlibiSlopes8Max16[8] = {
    .25, .0625, .015625, .00390625, .0009765625, .000244140625, 6.103515625e-05, 1.52587890625e-05};
inline constexpr double kAlibiSlopes6Max16[6] = {.0625,         .00390625, .000244140625,
                                                 .0000152587890625, .25,       .015625};
// One geometric series for six heads: a public bug, must not come out.
inline constexpr double kAlibiSlopes6Wrong[6] = {.39685026,  .15749013,   .0625,
                                                 .024803141, .0098431332, .00390625};

// Slope .5, four tokens.
inline constexpr double kAlibiCausalRow3[4] = {-1.5, -1, -.5, 0};
inline constexpr double kAlibiSymmetricRow0[4] = {0, -.5, -1, -1.5};
inline constexpr double kAlibiDeepMind[4][4] = {  // past -m(|i-j| - 1/2), future -m|i-j|
    {0, -.5, -1, -1.5}, {-.25, 0, -.5, -1}, {-.75, -.25, 0, -.5}, {-1.25, -.75, -.25, 0}};
inline constexpr double kAlibiDecodeRow5[5] = {-2, -1.5, -1, -.5, 0};  // five keys, last query

// Falcon multiplies slope and position in bfloat16; slope .70710678.
inline constexpr int kAlibiBf16Positions[4] = {100, 257, 1000, 2047};
inline constexpr double kAlibiBf16Product[4] = {70.5, 181, 708, 1448};
inline constexpr double kAlibiFloat32Product[4] = {70.710678, 181.72644, 707.10678, 1447.4476};

// Toy (golden/toy.h), slope .5, causal.
inline constexpr double kAlibiToyWeights[3][3] = {
    {1, 0, 0}, {.551592, .448408, 0}, {.579146, .232140, .188714}};
inline constexpr double kAlibiToyOut[3][2] = {{1, 0}, {.551592, .448408}, {.956574, .609568}};
// Falcon: the bias is multiplied by 1/sqrt(d) too.
inline constexpr double kAlibiToyWeightsScaled[3][3] = {
    {1, 0, 0}, {.587479, .412521, 0}, {.629190, .217843, .152967}};

}  // namespace locant::golden
