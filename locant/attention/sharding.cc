// See sharding.h.
#include "locant/attention/sharding.h"

#include <algorithm>
#include <string_view>

#include "locant/base/check.h"

namespace locant::attention {
namespace {

void append_stretch(std::vector<int64_t>& to, int64_t first, int64_t count) {
  for (int64_t t = first; t < first + count; ++t) to.push_back(t);
}

void require_rank(std::string_view operation, const ShardPlan& plan, int64_t rank) {
  if (rank < 0 || rank >= plan.ranks()) {
    fail(operation, "rank must be in [0, ", plan.ranks(), "), got ", rank);
  }
}

}  // namespace

ShardPlan plan_shards(int64_t length, int64_t ranks, ShardOrder order) {
  Check check("plan shards");
  check.require(length >= 0 && length <= (int64_t{1} << 31),
                "length must be in [0, 2^31], as positions are, got ", length);
  check.require(ranks >= 1, "ranks must be at least 1, got ", ranks);
  check.done();
  ShardPlan plan;
  plan.length = length;
  plan.order = order;
  plan.tokens.resize(static_cast<size_t>(ranks));
  // The first length mod R ranks have one token more.
  const auto size_of = [&](int64_t r) { return length / ranks + (r < length % ranks ? 1 : 0); };
  for (int64_t r = 0; r < ranks; ++r) plan.tokens[static_cast<size_t>(r)].reserve(size_of(r));
  if (order == ShardOrder::kStriped) {
    for (int64_t t = 0; t < length; ++t) plan.tokens[static_cast<size_t>(t % ranks)].push_back(t);
    return plan;
  }
  int64_t at = 0;
  // Zigzag: up with the first halves, down with the second ones. Odd sizes are halved by turns one
  // way and the other, or the early ranks would have all the long halves on one side.
  const auto first_half = [&](int64_t r) {
    return order == ShardOrder::kContiguous ? size_of(r) : (size_of(r) + r % 2) / 2;
  };
  for (int64_t r = 0; r < ranks; ++r) {
    append_stretch(plan.tokens[static_cast<size_t>(r)], at, first_half(r));
    at += first_half(r);
  }
  for (int64_t r = ranks - 1; r >= 0; --r) {
    const int64_t rest = size_of(r) - first_half(r);
    append_stretch(plan.tokens[static_cast<size_t>(r)], at, rest);
    at += rest;
  }
  return plan;
}

std::vector<int64_t> ShardPlan::permutation() const {
  std::vector<int64_t> all;
  all.reserve(static_cast<size_t>(length));
  for (const auto& mine : tokens) all.insert(all.end(), mine.begin(), mine.end());
  return all;
}

std::vector<int64_t> ShardPlan::inverse() const {
  std::vector<int64_t> places(static_cast<size_t>(length));
  int64_t n = 0;
  for (const auto& mine : tokens) {
    for (int64_t t : mine) places[static_cast<size_t>(t)] = n++;
  }
  return places;
}

int64_t causal_pairs(const ShardPlan& plan, int64_t query_rank, int64_t key_rank) {
  require_rank("causal pairs", plan, query_rank);
  require_rank("causal pairs", plan, key_rank);
  const auto& queries = plan.tokens[static_cast<size_t>(query_rank)];
  const auto& keys = plan.tokens[static_cast<size_t>(key_rank)];
  int64_t pairs = 0;
  size_t seen = 0;
  for (int64_t query : queries) {  // both lists ascend
    while (seen < keys.size() && keys[seen] <= query) ++seen;
    pairs += static_cast<int64_t>(seen);
  }
  return pairs;
}

double ring_imbalance(const ShardPlan& plan) {
  const int64_t R = plan.ranks();
  int64_t waited = 0, total = 0;
  for (int64_t step = 0; step < R; ++step) {
    int64_t slowest = 0;
    for (int64_t q = 0; q < R; ++q) {
      const int64_t pairs = causal_pairs(plan, q, (q - step + R) % R);
      slowest = std::max(slowest, pairs);
      total += pairs;
    }
    waited += slowest;
  }
  return total == 0 ? 1.0 : static_cast<double>(waited) * static_cast<double>(R) / static_cast<double>(total);
}

}  // namespace locant::attention
