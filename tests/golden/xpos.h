#pragma once

// Golden values: xPos (arXiv 2212.10554) as in torchscale, width 8, scale base 512.

namespace locant::golden {

inline constexpr double kXposZeta[4] = {.285714, .464286, .642857, .821429};
inline constexpr int kXposScalePositions[4] = {1, 10, 512, -3};
inline constexpr double kXposScales[4][4] = {{.997556, .998503, .999137, .999616},
                                             {.975829, .985126, .991408, .996165},
                                             {.285714, .464286, .642857, .821429},
                                             {1.007367, 1.004506, 1.002592, 1.001153}};
inline constexpr double kXposFactorAt64[4] = {.855050, .908549, .946268, .975711};
// x = 1 ... 8 as a query at position 10.
inline constexpr double kXposQuery10[8] = {.242953,  -2.168452, -1.719023, 4.615930,
                                           4.338420, 6.413606,  6.893117,  8.038655};
// Dot product of x at query position m and x at key position n.
inline constexpr double kXposDot10And3 = 195.804910;  // also (107, 100)
inline constexpr double kXposDot3And10 = 197.678155;

}  // namespace locant::golden
