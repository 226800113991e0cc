#pragma once

// Golden values: frequencies of rotary positions under the published scalings.
// r = rotary width, f = factor, O = original length. Numbers are printed with 6 significant digits
// unless said; those of the public test of transformers with 5.

namespace locant::golden {

inline constexpr double kSixSignificant = 5e-6;  // relative, half a unit of 1.00000
inline constexpr double kFiveSignificant = 5e-5;

struct Frequency {
  int pair;
  double theta;
};

inline constexpr double kRopeDefault8[4] = {1, .1, .01, .001};
inline constexpr Frequency kRopeDefault128Base500k[] = {  // Llama 3
    {1, .814617}, {31, .00173605}, {63, 2.45514e-06}};

inline constexpr double kRopeLinear8Factor4[4] = {.25, .025, .0025, .00025};

// NTK: base f^(r / (r - 2)).
inline constexpr double kRopeNtkBase8Factor4 = 63496.0421;
inline constexpr double kRopeNtk8Factor4[4] = {1, .0629961, .0039685, .00025};
inline constexpr double kRopeNtkBase128Factor8 = 82684.6226;

// Dynamic NTK, r = 128, O = 2048, f = 2.
struct DynamicNtk {
  int length;
  double base;
  double theta63;
};
inline constexpr DynamicNtk kRopeDynamic128[] = {{2049, 10009.9207, 1.15366e-04},
                                                 {4096, 30527.7367, 3.84927e-05},
                                                 {8192, 72195.8601, 0},  // 0 = not given
                                                 {16384, 156588.3235, 0}};
inline constexpr double kRopeDynamicBase8 = 43267.4871;  // r = 8, O = 8, f = 2, length 16
inline constexpr double kRopeDynamic8[4] = {1, .0693361, .0048075, .000333333};
inline constexpr double kRopeDynamicBase128Factor10 = 759702.231;  // O = 2048, length 16384

// YaRN (arXiv 2309.00071).
struct YarnScale {
  double factor;
  double scale;  // multiplies cos and sin
};
inline constexpr YarnScale kYarnScale[] = {{2, 1.0693147},  {4, 1.1386294},  {8, 1.2079442},
                                           {16, 1.2772589}, {32, 1.3465736}, {40, 1.3688879},
                                           {64, 1.4158883}, {128, 1.4852030}};
// DeepSeek, f = 40: softmax factor for mscale = mscale_all_dim = .707 and 1.
inline constexpr double kYarnDeepSeekSoftmax707 = 1.589626;
inline constexpr double kYarnDeepSeekSoftmax1 = 1.873854;
// r = 64, f = 16, O = 4096.
inline constexpr double kYarn64RawLow = 10.4722;
inline constexpr double kYarn64RawHigh = 22.5134;
inline constexpr int kYarn64Low = 10;
inline constexpr int kYarn64High = 23;
inline constexpr Frequency kYarn64[] = {{0, 1},          {5, .237137},       {10, .0562341},
                                        {15, .00852684}, {20, .000881789},   {25, 4.68684e-05},
                                        {31, 8.33451e-06}};
inline constexpr Frequency kYarn64Untruncated[] = {{15, .00863427}, {20, .000816471}};
inline constexpr int kYarn8Low = 0;  // r = 8, f = 4, O = 64
inline constexpr int kYarn8High = 2;
inline constexpr double kYarn8[4] = {1, .0625, .0025, .00025};
inline constexpr int kYarn128Low = 16;  // r = 128, f = 10, O = 2048
inline constexpr int kYarn128High = 41;

// Llama-3.1-8B: r = 128, base 500000, f = 8, O = 8192; theta' / theta.
inline constexpr Frequency kLlama3Ratio[] = {{28, 1},       {29, .828168}, {30, .643743},
                                             {31, .493507}, {32, .371122}, {33, .271425},
                                             {34, .190211}, {35, .125},    {63, .125}};
inline constexpr double kLlama3Theta28 = .003211446;
inline constexpr double kLlama3Theta63 = 3.068926e-07;

// LongRoPE (arXiv 2402.13753), Phi-3 form.
struct LongRopeScale {
  double max_position;
  double original;
  double scale;
};
inline constexpr LongRopeScale kLongRopeScale[] = {
    {131072, 4096, 1.190238}, {131072, 8192, 1.143544}, {8192, 4096, 1.040833}};
inline constexpr double kLongRopeShort8[4] = {1, 1.5, 2, 3};
inline constexpr double kLongRopeLong8[4] = {1, 4, 16, 32};
inline constexpr double kLongRopeThetaShort8[4] = {1, .0666667, .005, .000333333};
inline constexpr double kLongRopeThetaLong8[4] = {1, .025, .000625, .00003125};

// Llama-4, layers without rotation: factor on the query at a position.
inline constexpr Frequency kLlama4QueryFactor[] = {
    {0, 1}, {8190, 1}, {8191, 1.069315}, {16383, 1.109861}, {100000, 1.256495}};

// Public test of transformers, r = 128, base 10000, O = 2048, f = 10 (dynamic: length 16384).
inline constexpr Frequency kPublicDefault128[] = {
    {1, 8.6596e-01},  {7, 3.6517e-01},  {16, 1.0000e-01}, {31, 1.1548e-02},
    {32, 1.0000e-02}, {40, 3.1623e-03}, {47, 1.1548e-03}, {63, 1.1548e-04}};
inline constexpr Frequency kPublicDynamic128[] = {
    {1, 8.0931e-01},  {7, 2.2741e-01},  {16, 3.3872e-02}, {31, 1.4176e-03},
    {32, 1.1473e-03}, {40, 2.1115e-04}, {47, 4.8018e-05}, {63, 1.6265e-06}};
inline constexpr Frequency kPublicYarn128[] = {
    {1, 8.6596e-01},  {16, 1.0000e-01}, {17, 8.3479e-02}, {24, 2.2515e-02}, {31, 5.3120e-03},
    {32, 4.2400e-03}, {36, 1.5746e-03}, {40, 4.3007e-04}, {41, 2.7384e-04}, {63, 1.1548e-05}};
inline constexpr Frequency kPublicLlama3128[] = {
    {1, 8.6596e-01},  {30, 1.3335e-02}, {31, 1.0730e-02}, {32, 7.7785e-03}, {33, 5.6009e-03},
    {36, 1.9675e-03}, {39, 5.7363e-04}, {40, 3.4539e-04}, {41, 2.7384e-04}, {63, 1.1548e-05}};

}  // namespace locant::golden
