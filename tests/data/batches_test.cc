// Batches are a function of seed and number, spread evenly, and targets are inputs moved by one.
#include "locant/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "locant/base/random.h"

namespace locant {
namespace {

std::vector<Token> counting(size_t n) {
  std::vector<Token> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<Token>(i % 251);
  return tokens;
}

TEST(Batches, TargetsAreTheNextTokens) {
  const std::vector<Token> tokens = counting(1000);
  const BatchSampler sampler(tokens, 4, 17, 7);
  std::vector<int32_t> inputs(4 * 17), targets(4 * 17);
  sampler.fill(3, inputs, targets);
  const std::vector<int64_t> starts = sampler.starts(3);
  ASSERT_EQ(starts.size(), 4u);
  for (int64_t b = 0; b < 4; ++b) {
    for (int64_t t = 0; t < 17; ++t) {
      EXPECT_EQ(inputs[b * 17 + t], tokens[starts[b] + t]);
      EXPECT_EQ(targets[b * 17 + t], tokens[starts[b] + t + 1]);
    }
  }
}

// Frozen: a change here changes every training run and must be a decision.
TEST(Batches, StartsAreThoseOfPhilox) {
  const std::vector<Token> tokens = counting(1000);
  const BatchSampler sampler(tokens, 3, 100, 42);
  for (uint32_t batch = 0; batch < 5; ++batch) {
    const std::vector<int64_t> starts = sampler.starts(batch);
    // Key: the seed. Counter: block of two draws, then the batch with the top bit set.
    for (uint32_t b = 0; b < 3; ++b) {
      const PhiloxCounter words = philox4x32({b / 2, 0, batch, 0x80000000u}, {42, 0});
      const uint64_t bits = words[b % 2 * 2] | uint64_t{words[b % 2 * 2 + 1]} << 32;
      EXPECT_EQ(starts[b], static_cast<int64_t>(bits % 900)) << "batch " << batch << " row " << b;
    }
  }
}

TEST(Batches, SameForEveryOrderAndThread) {
  const std::vector<Token> tokens = counting(5000);
  const BatchSampler sampler(tokens, 8, 32, 1), again(tokens, 8, 32, 1), other(tokens, 8, 32, 2);
  std::vector<std::vector<int64_t>> forward(40), threaded(40);
  for (uint64_t batch = 0; batch < 40; ++batch) forward[batch] = sampler.starts(batch);
  std::vector<std::thread> threads;
  for (uint64_t worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&, worker] {
      for (uint64_t batch = worker; batch < 40; batch += 4) threaded[batch] = sampler.starts(batch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint64_t batch = 40; batch-- > 0;) {
    EXPECT_EQ(again.starts(batch), forward[batch]);
    EXPECT_EQ(threaded[batch], forward[batch]);
    EXPECT_NE(other.starts(batch), forward[batch]);
    if (batch > 0) {
      EXPECT_NE(forward[batch], forward[batch - 1]);
    }
  }
}

// Every place is drawn, the last one included, none past it, and no place much more than others.
TEST(Batches, StartsCoverAllPlacesEvenly) {
  const std::vector<Token> tokens = counting(50);
  const int64_t length = 40, places = 10;
  const BatchSampler sampler(tokens, 20, length, 5);
  std::vector<int> counts(places);
  constexpr int kBatches = 1000;
  for (uint64_t batch = 0; batch < kBatches; ++batch) {
    for (const int64_t start : sampler.starts(batch)) {
      ASSERT_GE(start, 0);
      ASSERT_LT(start, places);
      ++counts[start];
    }
  }
  const double expected = 20.0 * kBatches / places;
  for (const int count : counts) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected));
}

TEST(Batches, ShortestText) {
  const std::vector<Token> tokens = {1, 2, 3};
  const BatchSampler sampler(tokens, 1, 2, 0);
  std::vector<int32_t> inputs(2), targets(2);
  sampler.fill(9, inputs, targets);
  EXPECT_EQ(inputs, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(targets, (std::vector<int32_t>{2, 3}));
}

TEST(Batches, Errors) {
  const std::vector<Token> tokens = counting(10);
  EXPECT_THROW(BatchSampler(tokens, 0, 2, 0), std::invalid_argument);
  EXPECT_THROW(BatchSampler(tokens, 2, 0, 0), std::invalid_argument);
  EXPECT_THROW(BatchSampler(tokens, 2, 10, 0), std::invalid_argument);
  EXPECT_NO_THROW(BatchSampler(tokens, 2, 9, 0));
  const BatchSampler sampler(tokens, 2, 3, 0);
  std::vector<int32_t> right(6), wrong(5);
  EXPECT_THROW(sampler.fill(0, wrong, right), std::invalid_argument);
  EXPECT_THROW(sampler.fill(0, right, wrong), std::invalid_argument);
}

}  // namespace
}  // namespace locant
