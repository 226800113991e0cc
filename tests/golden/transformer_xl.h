#pragma once

// Golden values: Transformer-XL (arXiv 1901.02860), XLNet and the conformer.
// Marks: kGarbage = an entry that only the mask removes.

namespace locant::golden {

inline constexpr int kGarbage = -999;

// R, width 4, sinusoids of layout B; row r is distance r.
inline constexpr double kXlSinusoids4[5][4] = {{0, 0, 1, 1},
                                               {.841471, .010000, .540302, .999950},
                                               {.909297, .019999, -.416147, .999800},
                                               {.141120, .029996, -.989992, .999550},
                                               {-.756802, .039989, -.653644, .999200}};

// rel_shift of 1, 2, 3, ... written row by row.
inline constexpr double kRelShift2x4[2][4] = {{2, 3, 4, 0}, {5, 6, 7, 8}};
inline constexpr double kRelShift3x4[3][4] = {{3, 4, 0, 5}, {6, 7, 8, 0}, {9, 10, 11, 12}};
inline constexpr double kRelShift3x3[3][3] = {{3, 0, 4}, {5, 6, 0}, {7, 8, 9}};

// Distances i + past - j after the shift.
inline constexpr int kXlDistances2x4[2][4] = {{2, 1, 0, kGarbage}, {3, 2, 1, 0}};
inline constexpr int kXlDistances3x5Row0[5] = {2, 1, 0, kGarbage, kGarbage};
inline constexpr int kXlnetDistances2x4[2][4] = {{2, 1, 0, -1}, {3, 2, 1, 0}};
inline constexpr int kConformerDistances3[3][3] = {{0, -1, -2}, {1, 0, -1}, {2, 1, 0}};

// The four terms: width 4, two queries, one key of memory, W_R = identity, values e1 e2 e3.
inline constexpr double kXlQ[2][4] = {{1, 0, .5, -1}, {0, 1, -.5, 1}};
inline constexpr double kXlK[3][4] = {{1, 1, 0, 0}, {0, 1, 1, 0}, {0, 0, 1, 1}};
inline constexpr double kXlU[4] = {.1, -.2, .3, 0};
inline constexpr double kXlV[4] = {-.1, .2, 0, .4};
inline constexpr double kXlContent[2][3] = {{.9, .6, -.2}, {.9, .6, .8}};
// The last entry of row 0 is masked; 0 stands there.
inline constexpr double kXlPosition[2][3] = {{.429505, -.1, 0}, {1.540862, 1.057632, .9}};
inline constexpr double kXlPositionClamp1[2][3] = {{.429505, -.1, 0}, {1.057632, 1.057632, .9}};
inline constexpr double kXlScores[2][3] = {{.664753, .25, 0}, {1.220431, .828816, .85}};
inline constexpr double kXlWeights[2][3] = {{.602227, .397773, 0}, {.422583, .285651, .291767}};

}  // namespace locant::golden
