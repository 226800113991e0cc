#pragma once

// Golden values: Music Transformer (Huang 2018, arXiv 1809.04281). Entries right of the diagonal
// of a skewed matrix are left-overs that the causal mask must remove.

namespace locant::golden {

inline constexpr double kSkew3In[3][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}};
inline constexpr double kSkew3Out[3][3] = {{3, 0, 4}, {5, 6, 0}, {7, 8, 9}};
inline constexpr double kSkew4Out[4][4] = {  // of 1 ... 16
    {4, 0, 5, 6}, {7, 8, 0, 9}, {10, 11, 12, 0}, {13, 14, 15, 16}};

// Table of 2 rows, 4 tokens: row for the distances i - j = 0, 1, 2, 3; -1 = zeros.
inline constexpr int kMusicRowP2[4] = {1, 0, -1, -1};

// Toy (golden/toy.h): rows for the distances 2, 1, 0. Causal; above the diagonal 0 here.
inline constexpr double kMusicToyRows[3][2] = {{1, 0}, {0, 1}, {1, 1}};
inline constexpr double kMusicToySrel[3][3] = {{1, 0, 0}, {1, 1, 0}, {1, 1, 2}};
inline constexpr double kMusicToyLogits[3][3] = {
    {1.414214, 0, 0}, {2.121320, 1.414214, 0}, {2.828427, 1.414214, 1.414214}};
inline constexpr double kMusicToyWeights[3][3] = {
    {1, 0, 0}, {.669762, .330238, 0}, {.672842, .163579, .163579}};
inline constexpr double kMusicToyOut[3][2] = {{1, 0}, {.669762, .330238}, {1, .490737}};

}  // namespace locant::golden
