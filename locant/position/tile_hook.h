// The tile hook: what a scheme adds to scores when terms cannot say it, because it is no function of the
// distance alone (it depends on the query's own position, on segments, on a tree). One call for a tile of
// scores, and one for its adjoint; never one for a pair.
//
// A hook is immutable while calls use it, and is asked from several threads at once. What it adds may
// depend on the tile it is told and on its own numbers, not on q, k or v.
#pragma once

#include <cstdint>

namespace locant {

// Scores of some neighbouring queries and keys of one head.
struct ScoreTile {
  static constexpr int64_t kMost = 64;  // queries, and keys
  int64_t batch = 0, head = 0;          // of the call; packed sequences: the number of the sequence
  int64_t first_query = 0, first_key = 0;  // which tokens, counted in the sequence
  int64_t queries = 0, keys = 0;           // 1 .. kMost of each
  const int32_t* q_positions = nullptr;    // [queries]
  const int32_t* k_positions = nullptr;    // [keys]
  int64_t row = 0;  // score (i, j) is number i * row + j
};

class TileHook {
 public:
  virtual ~TileHook();

  // Adds finite numbers to the scores: natural units, outside the scale and the softcap, before the mask.
  // Masked pairs are asked for too, and what they get is not looked at.
  virtual void add(const ScoreTile& tile, double* scores) const = 0;
  // The same in float, which is what the fast path asks for; by default through the one above.
  virtual void add(const ScoreTile& tile, float* scores) const;

  // What it learns: gradient_size() numbers for each head, or for all of them together.
  virtual int64_t gradient_size() const;  // default 0
  virtual int64_t heads() const;          // 1 (default): heads are summed; or H

  // The adjoint: from the gradient of the scores, zero where they are masked, to sums[gradient_size()],
  // added. Every key tile of a head has sums of its own, filled in order and added up in order, so that
  // results do not depend on the number of threads.
  virtual void add_backward(const ScoreTile& tile, const double* gradient, double* sums) const;
  virtual void add_backward(const ScoreTile& tile, const float* gradient, double* sums) const;
};

}  // namespace locant
