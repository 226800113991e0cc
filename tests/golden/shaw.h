#pragma once

// Golden values: relative rows on keys and values (Shaw 2018, arXiv 1803.02155) and its relatives
// SpeechT5, wav2vec2-BERT, BERT relative_key and VITS. The toy problem is in golden/toy.h.

namespace locant::golden {

// Row of the table for [query][key].
inline constexpr int kShawIndexK1[3][3] = {{1, 2, 2}, {0, 1, 2}, {0, 0, 1}};  // j - i, k = 1
inline constexpr int kSpeechT5IndexM2[5][5] = {  // i - j clipped to [-2, 1], 4 rows
    {2, 1, 0, 0, 0}, {3, 2, 1, 0, 0}, {3, 3, 2, 1, 0}, {3, 3, 3, 2, 1}, {3, 3, 3, 3, 2}};
inline constexpr int kWav2Vec2BertIndexL2R1[5][5] = {  // j - i clipped to [-2, 1]
    {2, 3, 3, 3, 3}, {1, 2, 3, 3, 3}, {0, 1, 2, 3, 3}, {0, 0, 1, 2, 3}, {0, 0, 0, 1, 2}};
inline constexpr int kBertRelativeKeyIndexP5[3][3] = {{4, 3, 2}, {5, 4, 3}, {6, 5, 4}};  // i - j
inline constexpr int kVitsIndexW1[4][4] = {  // j - i, -1 = a zero row outside the window
    {1, 2, -1, -1}, {0, 1, 2, -1}, {-1, 0, 1, 2}, {-1, -1, 0, 1}};
// Decoding, k = 2, fourth token (three cached).
inline constexpr int kShawIndexDecodeK2[4] = {0, 0, 1, 2};

// Toy, k = 1.
inline constexpr double kShawToyKeyRows[3][2] = {{.5, 0}, {0, 0}, {0, -.5}};
inline constexpr double kShawToyValueRows[3][2] = {{.1, 0}, {0, 0}, {0, .2}};
inline constexpr double kShawToyLogits[3][3] = {
    {.707107, 0, -.707107}, {1.414214, .707107, .353553}, {2.474874, 1.060660, 0}};
inline constexpr double kShawToyWeights[3][3] = {
    {.575975, .283995, .140029}, {.543686, .268075, .188239}, {.753415, .183168, .063418}};
inline constexpr double kShawToyOutKeysValues[3][2] = {
    {.856034, .648859}, {.974533, .682200}, {.973908, .310003}};
inline constexpr double kShawToyOutKeys[3][2] = {
    {.856034, .564054}, {.920164, .644553}, {.880250, .310003}};
inline constexpr double kShawToyOutCausalKeysValues[3][2] = {
    {1, 0}, {.736738, .330238}, {.973908, .310003}};
// The same table read in the order i - j.
inline constexpr double kShawToyLogitsQueryMinusKey[3][3] = {
    {.707107, .353553, -.353553}, {1.060660, .707107, .707107}, {1.767767, .353553, 0}};

}  // namespace locant::golden
