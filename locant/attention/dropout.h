// Dropout on the probabilities of attention: a probability is set to zero with chance `rate`, and the
// others are divided by 1 - rate. Sums of the softmax are taken before that.
//
// Which pairs are dropped is a function of (seed, batch, head, token i, token j) and of nothing else:
// the same for any tile, instruction set, number of threads, memory order or shard, forward and
// backward. It needs no memory: a row draws two keys (Philox), a pair hashes its key's number with
// them (base/keyed_hash.h).
#pragma once

#include <cstdint>

#include "locant/base/view.h"

namespace locant::attention {

struct Dropout {
  double rate = 0;  // in [0, 1); 0: none
  uint64_t seed = 0;
  // Of a shard: where its batch and its heads begin in the whole.
  int64_t first_batch = 0, first_head = 0;
  // [Q] and [K]: numbers of the tokens in the whole sequence, each in [0, 2^31). Default: 0, 1, 2 ...
  // Packed sequences: [total], and by default tokens count from 0 in each sequence.
  View<const int64_t, 1> q_tokens, k_tokens;
};

// Whether query token i keeps key token j in element b of the batch and head h of a call; i and j are
// numbers as in q_tokens and k_tokens, first_batch and first_head are added here.
bool dropout_keeps(const Dropout& dropout, int64_t b, int64_t h, int64_t i, int64_t j);

// The two halves of that question: once a row, once a pair.
struct DropoutKeys {
  uint32_t first, second;
};
DropoutKeys dropout_keys(const Dropout& dropout, int64_t b, int64_t h, int64_t i);
// A pair is kept when keyed_hash(j, first, second) is at least this: rate in units of 2^-32.
uint32_t dropout_threshold(double rate);

}  // namespace locant::attention
