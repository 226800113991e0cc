// Block form: attention over one block of keys at a time, joined afterwards. It is what sharded
// sequences and very long contexts are made of (locant/attention/sharding.h plans the shards).
//
// A block is forward() with the keys of the block, the positions of all tokens given and a wanted
// lse. merge() joins two of them; blocks may be joined in any order and grouping, and give what one
// call over all keys gives, up to rounding. A query that sees nothing of a block has zeros and an lse
// of -inf there, and the block takes no part, whatever its `out` holds.
//
// Backward needs no form of its own: backward() with the keys of a block and the *merged* out and
// lse gives that block's gradients of k, v and number_per_key, and its share of those of q, the
// tables and the content bias; shares add up over the blocks. All blocks must have the same Terms, and
// with dropout the tokens' numbers in the whole sequence (Dropout::q_tokens, k_tokens). bf16: widen the
// blocks' outputs first, so that only the last merge rounds.
#pragma once

#include "locant/attention/attention.h"

namespace locant::attention {

// outputs = a and b joined, row by row. out: [B, H, Q, Dv], last stride 1; lse: [B, H, Q], needed in
// all three. T: float, double. `outputs` may be a or b themselves (the same views), else it must not
// overlap them. merge(a, b) and merge(b, a) are the same bits, for any number of threads.
// Throws std::invalid_argument.
template <class T>
void merge(const Outputs<const T>& a, const Outputs<const T>& b, const Outputs<T>& outputs,
           Executor& executor);

// The same in place: a becomes a and b joined.
template <class T>
void merge(const Outputs<T>& a, const Outputs<const T>& b, Executor& executor) {
  merge<T>(Outputs<const T>{a.out, a.lse}, b, a, executor);
}

}  // namespace locant::attention
