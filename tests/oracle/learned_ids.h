#pragma once

// The oracle: position ids of models with learned absolute tables, as released.

#include "tests/oracle/matrix.h"

namespace locant::oracle {

// BERT, GPT-2: past, past + 1, ...
inline Positions plain_ids(int length, std::int64_t past = 0) { return consecutive(length, past); }

// GPT-2 inside generate: number of real tokens before this one; pads get 1.
inline Positions generate_ids(const std::vector<int>& mask) {
  Positions ids;
  std::int64_t seen = 0;
  for (int real : mask) {
    seen += real;
    ids.push_back(real ? seen - 1 : 1);
  }
  return ids;
}

// BLOOM: (cumsum - 1) * mask.
inline Positions bloom_ids(const std::vector<int>& mask) {
  Positions ids;
  std::int64_t seen = 0;
  for (int real : mask) {
    seen += real;
    ids.push_back(real ? seen - 1 : 0);
  }
  return ids;
}

// OPT: cumsum * mask - 1 + 2, so pads get 1 and the first real token 2.
inline Positions opt_ids(const std::vector<int>& mask) {
  Positions ids;
  std::int64_t seen = 0;
  for (int real : mask) {
    seen += real;
    ids.push_back((real ? seen : 0) + 1);
  }
  return ids;
}

// RoBERTa: pad + number of real tokens up to and with this one; pads keep the pad id.
inline Positions roberta_ids(const std::vector<int>& tokens, int pad, std::int64_t past = 0) {
  Positions ids;
  std::int64_t seen = 0;
  for (int token : tokens) {
    if (token != pad) ++seen;
    ids.push_back(token != pad ? pad + seen + past : pad);
  }
  return ids;
}

// RoBERTa with embeddings given instead of tokens: pads are not seen.
inline Positions roberta_ids_without_tokens(int length, int pad) {
  return consecutive(length, pad + 1);
}

// Tokens that fit a RoBERTa table.
inline int roberta_usable(int rows, int pad) { return rows - pad - 1; }

// SmolLM3's default: every `interval`-th layer has no rotation. 1 = rotation is used.
inline std::vector<int> rope_layers(int layers, int interval) {
  std::vector<int> uses;
  for (int layer = 0; layer < layers; ++layer) uses.push_back((layer + 1) % interval != 0 ? 1 : 0);
  return uses;
}

}  // namespace locant::oracle
