// Which row of a learned table a token takes: the rules of published models. Half of what goes
// wrong with learned positions is here. A mask holds 1 for a real token and 0 for padding.
#pragma once

#include <cstdint>
#include <vector>

namespace locant {

using PositionIds = std::vector<int64_t>;

// BERT, MiniLM, GPT-2 in a plain forward: past, past + 1, ..., also on padding.
PositionIds plain_ids(int64_t length, int64_t past = 0);

// GPT-2 and others inside generate: real tokens are counted from 0, padding takes row 1. After a
// cached prefix give the mask of the whole row and take the last ids.
PositionIds ids_from_mask(const std::vector<int>& mask);

// BLOOM, Falcon with ALiBi: real tokens are counted from 0; leading padding takes 0.
PositionIds bloom_ids(const std::vector<int>& mask);

// OPT: real tokens are counted from 2, padding takes row 1.
PositionIds opt_ids(const std::vector<int>& mask);

// RoBERTa, XLM-R, CamemBERT, MPNet: tokens that are not `padding` are counted from padding + 1 +
// past, padding itself takes row `padding`.
PositionIds roberta_ids(const std::vector<int64_t>& tokens, int64_t padding, int64_t past = 0);

// RoBERTa given embeddings instead of tokens, which hides the padding: padding + 1, padding + 2,
// ...
PositionIds roberta_ids_without_tokens(int64_t length, int64_t padding);

// Tokens that fit into a table whose first token takes row `padding` + 1 (RoBERTa: 514 rows,
// padding 1, 512 tokens). Plain tables: padding = -1.
int64_t usable_length(int64_t rows, int64_t padding);

}  // namespace locant
