// Attention of one or a few new queries over a cache of keys and values (kv_cache.h), with every term
// of position/terms.h: forward only, in the order of operations of attention.h.
//
// Each key is read once for all queries and all heads that share it, so that one query runs at the speed
// of memory. Keys are split in parts of a fixed size that are merged in order: results are the same to
// the last bit for any number of threads, and for a cache in one piece or in pages. It pays for up
// to about 16 queries; a long prompt is faster through attention::forward before it is appended.
#pragma once

#include <cstdint>

#include "locant/attention/attention.h"
#include "locant/attention/kv_cache.h"

namespace locant::attention {

// T: float, Bf16 (scores, sums and terms in float) or double (the scalar twin).
template <class T>
struct DecodeInputs {
  View<const T, 4> q;  // [B, H, Q, D], not turned, last stride 1. Hk divides H as in attention.h
  KvCache<const T> cache;  // holds the keys of the queries' own tokens too, if they see themselves
  // [B or 1, H or 1, capacity]: as Inputs::number_per_key, by token of a sequence.
  View<const Real<T>, 3> number_per_key;
  // [B or 1, Q], each in [0, 2^31). Without them query i of sequence b stands at lengths[b] - Q + i.
  View<const int64_t, 2> q_positions;
  // [B or 1, capacity] by token of a sequence; beyond the lengths anything. Without them token n stands
  // at n. Give them where padding or a window that wraps around has moved tokens.
  View<const int64_t, 2> k_positions;
  // [B]: one rotation a sequence in place of the terms', where frequencies follow its length: the caller lowers
  // them, for the largest position of its queries and keys + 1.
  View<const Rotation, 1> rotations;
};

// Throws std::invalid_argument naming all that is wrong: shapes, strides, lengths beyond the capacity, pages
// outside the pool, positions, options (dropout), a rotation that does not fit the cache.
// Thread-safe as attention::forward is; the cache may be read by several calls.
template <class T>
void decode(const DecodeInputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
            const Outputs<T>& outputs, Workspace& workspace, Executor& executor);

}  // namespace locant::attention
