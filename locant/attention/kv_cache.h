// A cache of keys and values that grows token by token: views over memory of the caller, in one piece
// a sequence or in pages, and append(), which turns new keys by their positions and stores them.
//
// Keys are stored turned by the rotation of their terms (RoPE, xPos), so that a step of decoding turns
// nothing but its queries. Every append and every decode of one cache must therefore use the same
// rotation: lower the scheme once, for the longest length. Where frequencies follow the length of the
// sequence (Rotation::follows_length: dynamic NTK, LongRoPE) turned keys would go stale: set
// keys_turned = false, then keys are stored as they come and turned when they are read, which costs
// a copy of every key in every step; with keys_turned such a rotation is refused.
#pragma once

#include <cstdint>
#include <type_traits>

#include "locant/base/bf16.h"
#include "locant/base/view.h"
#include "locant/position/terms.h"

namespace locant::attention {

// T: float, double or Bf16; const T where it is only read.
template <class T>
struct KvCache {
  // In one piece: [B, Hk, capacity, D] and [B, Hk, capacity, Dv]. In pages: [pages, Hk, page size, D]
  // and [.., Dv]. Any strides but the last, which must be 1: tokens first or heads first. Heads
  // first is read about twice as fast, and rows that begin on a cache line (64 bytes) faster than others.
  View<T, 4> k, v;
  // In pages: [B, blocks], the page that holds tokens n page_size ... of a sequence. Sequences may share
  // pages that are only read. Blocks beyond a sequence's length may hold anything. Empty: in one piece.
  View<const int32_t, 2> block_table;
  // [B] tokens held. append() moves them on. What lies beyond them is never read, NaN included.
  View<std::conditional_t<std::is_const_v<T>, const int64_t, int64_t>, 1> lengths;
  bool keys_turned = true;

  bool paged() const { return block_table.data != nullptr; }
  int64_t batch() const { return lengths.shape[0]; }
  int64_t page_size() const { return k.shape[2]; }  // paged
  int64_t capacity() const { return paged() ? block_table.shape[1] * k.shape[2] : k.shape[2]; }

  operator KvCache<const T>() const  // NOLINT: implicit, like T* to const T*
    requires(!std::is_const_v<T>)
  {
    return {k, v, block_table, lengths, keys_turned};
  }
};

// Tokens to store behind those that a cache holds.
template <class T>
struct NewTokens {
  View<const T, 4> k;  // [B, Hk, N, D], not turned; last stride 1
  View<const T, 4> v;  // [B, Hk, N, Dv], last stride 1
  // [B or 1, N], each in [0, 2^31). Without them token n of sequence b stands at lengths[b] + n.
  View<const int64_t, 2> positions;
  View<const int64_t, 1> counts;  // [B]: so many of the N belong to a sequence; without it all
};

// Stores the tokens and adds their counts to the lengths. Of the terms only the rotation matters; it
// is that of every sequence. Throws std::invalid_argument, and then nothing was stored, where shapes
// disagree, a length would pass the capacity, a page lies outside the pool or two sequences would
// write to the same page. Thread-safe for caches that share no written page.
template <class T>
void append(const KvCache<T>& cache, const NewTokens<T>& tokens, const Terms<Real<T>>& terms);

}  // namespace locant::attention
