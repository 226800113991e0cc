#pragma once

// Golden values: T5 buckets (arXiv 1910.10683). r = j - i, n = |r|. Sources: mesh-tensorflow,
// transformers and flaxformer as released; "exact" by high precision. MPNet is the 32/128 case.

namespace locant::golden {

// First distance n of every bucket from max_exact on; bucket = first bucket + index in the list.
inline constexpr int kT5FirstLogBucketBi32 = 8;  // 16 buckets a side, max distance 128
inline constexpr int kT5StartsBi32[8] = {8, 12, 16, 23, 32, 46, 64, 91};
inline constexpr int kT5FirstLogBucketUni32 = 16;  // 32 buckets, max distance 128
inline constexpr int kT5StartsUni32[16] = {16, 19, 21, 24, 27, 31, 35, 40,
                                           46, 52, 59, 67, 77, 87, 99, 113};
inline constexpr int kT5FirstLogBucketUni16 = 8;  // 16 buckets, max distance 128, unidirectional
inline constexpr int kT5StartsUni16[8] = {8, 12, 16, 23, 32, 46, 64, 91};

struct T5Case {
  int distance;  // j - i
  int bucket;
};
inline constexpr T5Case kT5Bi32[] = {{0, 0},    {1, 17},   {7, 23},    {8, 24},   {12, 25},
                                     {16, 26},  {64, 30},  {127, 31},  {1000, 31}, {-1, 1},
                                     {-8, 8},   {-12, 9},  {-16, 10},  {-64, 14}, {-128, 15}};
inline constexpr T5Case kT5Uni32[] = {{5, 0},    {-15, 15}, {-16, 16},  {-19, 17},
                                      {-32, 21}, {-64, 26}, {-127, 31}, {-500, 31}};

// One query at position 19, keys 0 ... 19, unidirectional 32/128.
inline constexpr int kT5Uni32Query19[20] = {17, 16, 16, 16, 15, 14, 13, 12, 11, 10,
                                            9,  8,  7,  6,  5,  4,  3,  2,  1,  0};

// 12 buckets, max distance 10, 5 queries, 7 keys, bidirectional.
inline constexpr int kT5Bi12Max10[5][7] = {{0, 7, 8, 9, 9, 10, 10},
                                           {1, 0, 7, 8, 9, 9, 10},
                                           {2, 1, 0, 7, 8, 9, 9},
                                           {3, 2, 1, 0, 7, 8, 9},
                                           {3, 3, 2, 1, 0, 7, 8}};
inline constexpr int kT5Uni12Max10Column0[5] = {0, 1, 2, 3, 4};

// Where the rounding rules differ. The float32 columns take a correctly rounded logarithm. At 48/81
// and 96/81, n = 54, the epsilon is lost in rounding (2.25 + 2^-23 = 2.25), and a float32 logarithm
// that is one unit off, as NumPy's vector code is there, gives 40 where 39 stands.
struct T5Rounding {
  int buckets;
  bool bidirectional;
  int max_distance;
  int n;
  int torch_float32;  // transformers, mesh
  int eps_float32;    // flaxformer: float32 epsilon inside the logarithm
  int float64;
  int exact;
};
inline constexpr T5Rounding kT5Rounding[] = {
    {10, false, 160, 10, 6, 6, 5, 6},      {10, false, 160, 20, 7, 7, 6, 7},
    {10, false, 160, 80, 9, 9, 8, 9},      {20, true, 160, 10, 6, 6, 5, 6},
    {20, true, 160, 20, 7, 7, 6, 7},       {20, true, 160, 80, 9, 9, 8, 9},
    {40, false, 640, 40, 24, 24, 23, 24},  {40, false, 640, 80, 28, 28, 27, 28},
    {40, false, 640, 320, 36, 36, 35, 36}, {48, false, 81, 36, 31, 32, 32, 32},
    {48, false, 81, 54, 39, 39, 40, 40},   {96, true, 81, 36, 31, 32, 32, 32},
    {96, true, 81, 54, 39, 39, 40, 40}};

// (buckets, max distance) where every rule agrees for n up to four times the maximum distance.
inline constexpr int kT5AllAgree[][2] = {{32, 128}, {64, 128}, {32, 256},   {32, 512},
                                         {12, 10},  {16, 64},  {64, 256},   {32, 1000},
                                         {32, 20},  {128, 1024}, {320, 800}, {8, 16}};

// Toy (golden/toy.h), 8 buckets, max distance 16, table t[b] = .1 b - .3, score scale 1.
inline constexpr int kT5ToyBuckets[3][3] = {{0, 5, 6}, {1, 0, 5}, {2, 1, 0}};
inline constexpr double kT5ToyWeights[3][3] = {
    {.539628, .327301, .133071}, {.531439, .176901, .291660}, {.859684, .105274, .035043}};
inline constexpr double kT5ToyOut[3][2] = {
    {.805770, .593442}, {1.114759, .760221}, {.929769, .175359}};
inline constexpr double kT5ToyDecoderWeights[3][3] = {
    {1, 0, 0}, {.750260, .249740, 0}, {.859684, .105274, .035043}};

}  // namespace locant::golden
