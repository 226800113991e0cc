#pragma once

// Golden values: FIRE (arXiv 2310.04418). psi(x) = ln(|c x| + 1), epsilon 1e-6.

namespace locant::golden {

struct FireCase {
  int i;
  int j;
  double value;
};
// The normalised input of the small network, c = 1, L = 4.
inline constexpr FireCase kFireInputL4[] = {{0, 0, 0},        {1, 0, .430676},  {3, 0, .861353},
                                            {4, 0, .999999},  {8, 0, 1.0},      {8, 4, .732486},
                                            {8, 7, .315465},  {100, 50, .851944}};
// c = .1, L = 512.
inline constexpr FireCase kFireInputL512[] = {
    {1, 0, .024098}, {8, 0, .148615}, {100, 50, .453027}};
// c = 1, L = 4, hidden weights (1, -1), biases (0, .5), output weights (2, -1), output bias .1.
inline constexpr double kFireHiddenWeight[2] = {1, -1};
inline constexpr double kFireHiddenBias[2] = {0, .5};
inline constexpr double kFireOutWeight[2] = {2, -1};
inline constexpr double kFireOutBias = .1;
inline constexpr FireCase kFireBias[] = {{8, 4, 1.564973}, {8, 0, 2.099999}, {8, 8, -.4}};

}  // namespace locant::golden
