// The public edge of caches and decoding: what append and decode ask of their arguments.
#pragma once

#include "locant/attention/decode.h"

namespace locant::attention {

// Throw std::invalid_argument with every reason at once.
template <class T>
void check_append(const KvCache<T>& cache, const NewTokens<T>& tokens, const Terms<Real<T>>& terms);
template <class T>
void check_decode(const DecodeInputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
                  const Outputs<T>& outputs);

// Where token j of sequence b is, in the first dimension and the third of the cache's arrays.
struct Slot {
  int64_t page, row;
};
template <class T>
Slot slot_of(const KvCache<T>& cache, int64_t b, int64_t j) {
  if (!cache.paged()) return {b, j};
  return {cache.block_table(b, j / cache.page_size()), j % cache.page_size()};
}

// The rotation of one sequence of a checked call; null: none.
template <class T>
const Rotation* rotation_of(const DecodeInputs<T>& inputs, const Terms<Real<T>>& terms, int64_t b) {
  const Rotation* rotation = inputs.rotations ? &inputs.rotations(b)
                             : terms.rotation ? &*terms.rotation
                                              : nullptr;
  return rotation && rotation->width > 0 ? rotation : nullptr;
}

// Position of query i of a checked call.
template <class T>
int64_t query_position(const DecodeInputs<T>& inputs, int64_t b, int64_t i) {
  if (inputs.q_positions) return inputs.q_positions(inputs.q_positions.shape[0] == 1 ? 0 : b, i);
  const int64_t first = inputs.cache.lengths(b) - inputs.q.shape[2];
  return (first < 0 ? 0 : first) + i;
}

// Where key j of sequence b stands.
template <class T>
int64_t key_position(const DecodeInputs<T>& inputs, int64_t b, int64_t j) {
  const auto& given = inputs.k_positions;
  return given ? given(given.shape[0] == 1 ? 0 : b, j) : j;
}

}  // namespace locant::attention
