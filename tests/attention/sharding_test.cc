// The planner's shards are a partition, their work is balanced, and a ring of ranks that hold them
// computes what one machine does.
#include "locant/attention/sharding.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/attention/blocks.h"

namespace locant::test {
namespace {

using attention::plan_shards;
using attention::ShardOrder;
using attention::ShardPlan;

constexpr ShardOrder kOrders[] = {ShardOrder::kContiguous, ShardOrder::kStriped, ShardOrder::kZigzag};
const char* name_of(ShardOrder order) {
  return order == ShardOrder::kContiguous ? "contiguous" : order == ShardOrder::kStriped ? "striped" : "zigzag";
}

TEST(ShardPlanTest, EveryTokenOnceAndSizesEven) {
  for (ShardOrder order : kOrders) {
    for (int64_t length : {0, 1, 2, 3, 7, 8, 15, 16, 17, 64, 100, 1001}) {
      for (int64_t ranks : {1, 2, 3, 4, 7, 16}) {
        SCOPED_TRACE(std::string(name_of(order)) + " " + std::to_string(length) + " on " + std::to_string(ranks));
        const ShardPlan plan = plan_shards(length, ranks, order);
        ASSERT_EQ(plan.ranks(), ranks);
        EXPECT_EQ(plan.length, length);
        std::vector<int64_t> all;
        for (const auto& mine : plan.tokens) {
          EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
          EXPECT_GE(int64_t(mine.size()), length / ranks);
          EXPECT_LE(int64_t(mine.size()), (length + ranks - 1) / ranks);
          all.insert(all.end(), mine.begin(), mine.end());
        }
        EXPECT_EQ(plan.permutation(), all);
        const std::vector<int64_t> inverse = plan.inverse();
        ASSERT_EQ(int64_t(inverse.size()), length);
        for (int64_t t = 0; t < length; ++t) EXPECT_EQ(all[size_t(inverse[size_t(t)])], t);
        std::sort(all.begin(), all.end());
        EXPECT_EQ(all, all_tokens(int(length)));
      }
    }
  }
}

TEST(ShardPlanTest, OrdersAreWhatTheirNamesSay) {
  using List = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(plan_shards(8, 2, ShardOrder::kContiguous).tokens, (List{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(plan_shards(8, 2, ShardOrder::kStriped).tokens, (List{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(plan_shards(8, 2, ShardOrder::kZigzag).tokens, (List{{0, 1, 6, 7}, {2, 3, 4, 5}}));
  EXPECT_EQ(plan_shards(7, 3, ShardOrder::kContiguous).tokens, (List{{0, 1, 2}, {3, 4}, {5, 6}}));
  EXPECT_EQ(plan_shards(7, 3, ShardOrder::kStriped).tokens, (List{{0, 3, 6}, {1, 4}, {2, 5}}));
  EXPECT_EQ(plan_shards(2, 3, ShardOrder::kZigzag).tokens, (List{{1}, {0}, {}}));
}

TEST(ShardPlanTest, WorkUnderACausalMask) {
  for (ShardOrder order : kOrders) {
    const ShardPlan plan = plan_shards(103, 4, order);
    int64_t total = 0;
    for (int64_t q = 0; q < 4; ++q) {
      for (int64_t k = 0; k < 4; ++k) {
        int64_t counted = 0;
        for (int64_t i : plan.tokens[size_t(q)]) {
          for (int64_t j : plan.tokens[size_t(k)]) counted += j <= i;
        }
        EXPECT_EQ(causal_pairs(plan, q, k), counted) << name_of(order);
        total += counted;
      }
    }
    EXPECT_EQ(total, 103 * 104 / 2);
  }
  // One rank waits for no other; four ranks in stretches wait 2 - 1/4 times as long as needed.
  for (ShardOrder order : kOrders) EXPECT_DOUBLE_EQ(ring_imbalance(plan_shards(100, 1, order)), 1);
  EXPECT_NEAR(ring_imbalance(plan_shards(4096, 4, ShardOrder::kContiguous)), 1.75, 1e-3);
  EXPECT_NEAR(ring_imbalance(plan_shards(4096, 4, ShardOrder::kStriped)), 1, 1e-3);
  EXPECT_DOUBLE_EQ(ring_imbalance(plan_shards(4096, 4, ShardOrder::kZigzag)), 1);
  // Lengths that do not divide.
  EXPECT_LT(ring_imbalance(plan_shards(4099, 7, ShardOrder::kStriped)), 1.005);
  EXPECT_LT(ring_imbalance(plan_shards(4099, 7, ShardOrder::kZigzag)), 1.005);
}

TEST(ShardPlanTest, ErrorsNameWhatCame) {
  const auto message = [](int64_t length, int64_t ranks) {
    return probe::message_of([&] { plan_shards(length, ranks, ShardOrder::kZigzag); });
  };
  EXPECT_SAYS(message(-1, 0), "length must be in [0, 2^31]");
  EXPECT_SAYS(message(-1, 0), "ranks must be at least 1, got 0");
  EXPECT_SAYS(message((int64_t{1} << 31) + 1, 1), "got 2147483649");
  const ShardPlan plan = plan_shards(5, 2, ShardOrder::kStriped);
  EXPECT_SAYS(probe::message_of([&] { causal_pairs(plan, 2, 0); }), "rank must be in [0, 2), got 2");
  EXPECT_SAYS(probe::message_of([&] { causal_pairs(plan, 0, -1); }), "got -1");
}

// --- a ring -------------------------------------------------------------------------------------

LOCANT_EACH_ENGINE(Sharding);

// Every rank has the queries of its tokens; the keys of all ranks come by, its own first. Backward
// goes round once more; the gradients of keys travel with them, here into one array.
template <class T>
Results<T> run_ring(const Call<T>& whole, const ShardPlan& plan, Executor& executor) {
  Results<T> total(whole);
  attention::Workspace workspace;
  const int64_t R = plan.ranks();
  const oracle::Shape& s = whole.shape;
  for (int64_t rank = 0; rank < R; ++rank) {
    const Tokens& mine = plan.tokens[size_t(rank)];
    const Call<T> rows = selection(whole, mine, {});
    Results<T> here(rows);
    nothing_seen(here);
    for (const bool backward : {false, true}) {
      for (int64_t step = 0; step < R; ++step) {
        const Tokens& keys = plan.tokens[size_t((rank - step + R) % R)];
        const Call<T> block = selection(whole, mine, keys);
        Results<T> one(block);
        if (!backward) {
          attention::forward(block.inputs(), block.terms, block.run_options(), one.outputs(block), workspace, executor);
          attention::merge(here.outputs(rows), read_only(one.outputs(block)), executor);
        } else {
          attention::backward(block.inputs(), block.terms, block.run_options(), read_only(here.outputs(rows)),
                              block.out_gradient_view(), one.gradients(block), workspace, executor);
          add_gradients(block, one, whole, mine, keys, total);
        }
      }
    }
    each_row_number(rows, whole, s.h, rows.shape.q, s.q, s.dv, mine,
                    [&](size_t a, size_t b) { total.out[b] = here.out[a]; });
    for (int bh = 0; bh < s.b * s.h; ++bh) {
      for (size_t i = 0; i < mine.size(); ++i) {
        total.lse[size_t(bh * s.q + mine[i])] = here.lse[size_t(bh) * mine.size() + i];
      }
    }
  }
  return total;
}

Results<double> run_ring(const Engine& engine, const Call<double>& call, const ShardPlan& plan) {
  ThreadPool pool(2);
  if (!engine.single) return run_ring(call, plan, pool);
  const Using set(engine.set);
  return widened(call, run_ring(cast_call<float>(call), plan, pool));
}

TEST_P(Sharding, D06_ARingOfRanksIsOneMachine) {
  // One length that no number of ranks divides. Terms that know distances in every way there is.
  const char* schemes[] = {"alibi", "t5", "rope", "shaw", "transformer_xl", "deberta", "xpos"};
  int number = 0;
  for (const char* scheme : schemes) {
    Call<double> call;
    call.shape.h = 2, call.shape.hk = 1, call.shape.d = call.shape.dv = 8;
    call.shape.q = call.shape.k = GetParam().single ? 149 : 37;
    call.options.causal = true;
    if (number == 1) call.options.window = {50, 0};
    call = rounded(with_positions(scheme_call(scheme, call)));
    const Expected expected(call);
    for (int64_t ranks : {1, 2, 3, 4, 7}) {
      const ShardOrder order = kOrders[++number % 3];
      SCOPED_TRACE(std::string(scheme) + " " + name_of(order) + " on " + std::to_string(ranks));
      expect_like_twin(call, expected, run_ring(GetParam(), call, plan_shards(call.shape.q, ranks, order)),
                       GetParam().eps());
      if (HasFailure()) return;
    }
  }
}

TEST_P(Sharding, MoreRanksThanTokens) {
  Call<double> call;
  call.shape.q = call.shape.k = 3, call.shape.d = call.shape.dv = 4;
  call.term_bits = kAllTerms;
  call = rounded(with_positions(random_like(call)));
  for (ShardOrder order : kOrders) {
    expect_like_twin(call, run_ring(GetParam(), call, plan_shards(3, 7, order)), GetParam().eps());
  }
}

}  // namespace
}  // namespace locant::test
