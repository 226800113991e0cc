#pragma once

// Golden values: rotary positions (RoFormer, arXiv 2104.09864), base 10000.

namespace locant::golden {

// Width 4, x = (1, 2, 3, 4), positions 1, 2, 10.
inline constexpr int kRopePositions4[3] = {1, 2, 10};
inline constexpr double kRopeX4[4] = {1, 2, 3, 4};
inline constexpr double kRopeInterleaved4[3][4] = {{-1.142640, 1.922076, 2.959851, 4.029800},
                                                   {-2.234742, .077004, 2.919405, 4.059196},
                                                   {.248971, -2.222164, 2.585679, 4.279517}};
inline constexpr double kRopeHalfSplit4[3][4] = {{-1.984111, 1.959901, 2.462378, 4.019800},
                                                 {-3.144039, 1.919605, -.339143, 4.039197},
                                                 {.792992, 1.590675, -3.061236, 4.179683}};
// Half-split of the permuted (1, 3, 2, 4) at position 1: interleaved numbers, permuted.
inline constexpr double kRopeX4Permuted[4] = {1, 3, 2, 4};
inline constexpr double kRopeHalfSplitPermuted[4] = {-1.142640, 2.959851, 1.922076, 4.029800};

// Dot products of turned q (position m) and k (position n).
inline constexpr double kRopeDotQ[4] = {1, 0, .5, -1};
inline constexpr double kRopeDotK[4] = {.3, .7, -.2, .4};
inline constexpr double kRopeDotInterleaved3And1 = .011764;  // also (7, 5)
inline constexpr double kRopeDotInterleaved1And3 = -1.261252;
inline constexpr double kRopeDotHalfSplit3And1 = -.787404;
inline constexpr double kRopeDotHalfSplit1And3 = -.178894;
inline constexpr double kRopeDotUnturned = -.2;

// Partial: 4 of 8 channels, x = 1 ... 8, position 1 (GPT-NeoX half-split, GPT-J interleaved).
inline constexpr double kRopePartialNeoX[8] = {-1.984111, 1.959901, 2.462378, 4.019800, 5, 6, 7, 8};
inline constexpr double kRopePartialGptJ[8] = {-1.142640, 1.922076, 2.959851, 4.029800, 5, 6, 7, 8};
// The wrong answer when the frequencies are taken from the whole width 8 (half-split).
inline constexpr double kRopePartialWrong[4] = {-1.984111, 1.590675, 2.462378, 4.179683};

// Public RoFormer test of transformers: width 64, x[p][c] = (64 p + c) / 100, interleaved.
inline constexpr int kRoformerPositions[3] = {1, 3, 5};
inline constexpr double kRoformerTurned[3][4] = {{-.2012, .8897, .0263, .9401},
                                                 {-2.1731, -1.6397, -2.7358, .2854},
                                                 {3.9859, -2.1580, -.7984, -4.4904}};

// Toy (golden/toy.h), causal.
inline constexpr double kRopeToyWeights[3][3] = {
    {1, 0, 0}, {.368650, .631350, 0}, {.177066, .597882, .225052}};
inline constexpr double kRopeToyOut[3][2] = {{1, 0}, {.368650, .631350}, {.627170, 1.047986}};

// Precision of the angle, base 10000, width 32: position 1857, pair 1.
inline constexpr int kRopeAnglePosition = 1857;
inline constexpr double kRopeAnglePair1 = 1044.2678;

}  // namespace locant::golden
