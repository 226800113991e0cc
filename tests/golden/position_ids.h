#pragma once

// Golden values: position ids of models with a learned absolute table, and the NoPE layer lists.
// Sources: BERT, GPT-2, RoBERTa, OPT and SmolLM3 as released in transformers.

namespace locant::golden {

// Padding mask (1 = a real token), left-padded by two.
inline constexpr int kIdsMask[5] = {0, 0, 1, 1, 1};
inline constexpr int kIdsGpt2Generate[5] = {1, 1, 0, 1, 2};  // cumsum - 1, pads get 1
inline constexpr int kIdsOpt[5] = {1, 1, 2, 3, 4};           // cumsum * mask - 1 + 2
inline constexpr int kIdsBloom[5] = {0, 0, 0, 1, 2};         // (cumsum - 1) * mask

// RoBERTa: counted from the tokens, padding token 1.
inline constexpr int kRobertaPad = 1;
inline constexpr int kRobertaTokensRightPadded[6] = {0, 31414, 232, 2, 1, 1};
inline constexpr int kIdsRobertaRightPadded[6] = {2, 3, 4, 5, 1, 1};
inline constexpr int kRobertaTokensLeftPadded[5] = {1, 1, 0, 31414, 2};
inline constexpr int kIdsRobertaLeftPadded[5] = {1, 1, 2, 3, 4};
inline constexpr int kIdsRobertaOneTokenAfter3 = 5;  // three tokens in the cache, one new

// RoBERTa's table has 514 rows: this many tokens fit, by padding id.
inline constexpr int kRobertaRows = 514;
inline constexpr int kRobertaUsablePad1 = 512;
inline constexpr int kRobertaUsablePad3 = 510;

// SmolLM3 `no_rope_layers`, where 1 means that the layer does use RoPE.
inline constexpr int kSmolLm3RopeLayers[8] = {1, 1, 1, 0, 1, 1, 1, 0};

}  // namespace locant::golden
