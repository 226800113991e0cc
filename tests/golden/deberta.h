#pragma once

// Golden values: DeBERTa's disentangled attention (arXiv 2006.03654; v3: 2111.09543). The sign is
// i - j. Sources: microsoft/DeBERTa and transformers as released; the toy is in golden/toy.h.

namespace locant::golden {

struct DebertaCase {
  int x;  // i - j
  int value;
};

// Log buckets of v2/v3, 256 buckets, 512 positions: bucket of x, and row (bucket + 256, clamped).
inline constexpr DebertaCase kDebertaBuckets256[] = {
    {0, 0},     {127, 127}, {128, 128}, {129, 129},   {130, 130},   {140, 137},
    {150, 143}, {200, 169}, {255, 192}, {256, 192},   {300, 207},   {400, 233},
    {500, 254}, {510, 255}, {511, 255}, {-129, -129}, {-256, -192}, {-511, -255}};
inline constexpr DebertaCase kDebertaRows256[] = {{0, 256},   {1, 257},   {128, 384},
                                                  {129, 385}, {511, 511}, {-511, 1}};
inline constexpr DebertaCase kDebertaLength300[] = {{299, 206}};  // the length plays no part

// 8 buckets, 16 positions, x = 0 ... 15.
inline constexpr int kDebertaBuckets8[16] = {0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7};

// x <= -512: Microsoft clamps x to +-511 first and gives row 1, transformers gives row 0.
inline constexpr int kDebertaFarLeftRowMicrosoft = 1;
inline constexpr int kDebertaFarLeftRowTransformers = 0;
inline constexpr int kDebertaFarRightRow = 511;

// v1, S = 4: row of x.
inline constexpr DebertaCase kDebertaV1Rows4[] = {{-6, 0}, {-4, 0}, {-3, 1}, {0, 4},
                                                  {1, 5},  {3, 7},  {4, 7},  {6, 7}};

// Where rounding differs: bucket of x by transformers (float32 logs) and Microsoft.
struct DebertaRounding {
  int buckets;
  int max_position;
  int x;
  int transformers;
  int microsoft;
};
inline constexpr DebertaRounding kDebertaRounding[] = {{24, 17, 16, 23, 24},
                                                       {24, 33, 32, 23, 24},
                                                       {48, 65, 64, 47, 48},
                                                       {96, 129, 128, 95, 96},
                                                       {320, 730, 729, 319, 320}};
// Where double precision differs from the exact value: {buckets, max_position, x}.
struct DebertaFloat64 {
  int buckets;
  int max_position;
  int x;
  int float64;
  int exact;
};
inline constexpr DebertaFloat64 kDebertaFloat64[] = {{32, 129, 32, 22, 21},
                                                     {128, 513, 128, 86, 85}};

// Toy, v1 with S = 2; rows of Kr and Qr by delta(i, j).
inline constexpr double kDebertaToyKr[4][2] = {{.1, .2}, {.3, -.1}, {0, .5}, {-.4, .2}};
inline constexpr double kDebertaToyQr[4][2] = {{.2, 0}, {0, .3}, {-.1, .1}, {.5, -.2}};
inline constexpr int kDebertaToyDelta[3][3] = {{2, 1, 0}, {3, 2, 1}, {3, 3, 2}};
inline constexpr double kDebertaToyC2p[3][3] = {{0, .3, .1}, {.2, .5, -.1}, {-.2, -.2, .5}};
// p2c as released (delta(i, j)) and as the paper prints it (delta(j, i)).
inline constexpr double kDebertaToyP2c[3][3] = {{.1, .3, -.2}, {.1, .1, .3}, {.1, -.2, .2}};
inline constexpr double kDebertaToyP2cPaper[3][3] = {
    {.1, -.2, -.7}, {.6, .1, -.7}, {.2, .3, .2}};
inline constexpr double kDebertaToyScores[3][3] = {  // with p2c as released, over sqrt(3 d)
    {.449073, .244949, -.449073}, {.938971, .653197, .489898}, {1.183920, .244949, .285774}};

}  // namespace locant::golden
