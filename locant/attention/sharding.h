// Who holds which tokens when one sequence is spread over several ranks (processes, machines).
//
// Each rank keeps q, k and v of its tokens, in ascending order; their numbers in the sequence are
// its q_positions and k_positions. Keys travel round the ring, every rank takes the blocks that come
// by with forward() and joins them with merge() (locant/attention/merge.h): any length, any number
// of ranks, also more ranks than tokens. Pure integer planning; nothing here communicates.
#pragma once

#include <cstdint>
#include <vector>

namespace locant::attention {

// How tokens are dealt out. Sizes of ranks differ by at most one token.
//   kContiguous  each rank a stretch. Under a causal mask the last rank has almost twice the average
//                work and the first almost none.
//   kStriped     token t to rank t mod R (Brandon et al. 2023): every pair of ranks has about half
//                of its pairs of tokens, so the ring is even at every step.
//   kZigzag      2R stretches, to rank r the stretches r and 2R-1-r: as even, and tokens stand side by
//                side, which tiles of scores like.
enum class ShardOrder { kContiguous, kStriped, kZigzag };

struct ShardPlan {
  int64_t length = 0;
  ShardOrder order = ShardOrder::kContiguous;
  // [rank]: its tokens, ascending. Together every number 0 .. length-1 exactly once.
  std::vector<std::vector<int64_t>> tokens;

  int64_t ranks() const { return static_cast<int64_t>(tokens.size()); }
  // All tokens, rank after rank: element n of the sharded sequence is token permutation()[n].
  std::vector<int64_t> permutation() const;
  // Its inverse: token t is element inverse()[t] of the sharded sequence.
  std::vector<int64_t> inverse() const;
};

// Throws std::invalid_argument unless 0 <= length <= 2^31 and ranks >= 1.
ShardPlan plan_shards(int64_t length, int64_t ranks, ShardOrder order);

// Pairs (query of one rank, key of another) that a causal mask keeps: the work of one step of a ring.
int64_t causal_pairs(const ShardPlan& plan, int64_t query_rank, int64_t key_rank);

// Work of a whole causal ring of R steps, where in step s rank q has the keys of rank (q - s) mod R
// and waits for the slowest: sum over the steps of the largest causal_pairs, over the work of one
// step when all pairs are spread evenly, times R. 1 is perfect.
double ring_imbalance(const ShardPlan& plan);

}  // namespace locant::attention
