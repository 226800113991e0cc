// Training batches: which pieces of the text a step sees.
//
// Batch number and seed decide everything: the same batches for every scheme, for any number of
// threads, and after a stopped run begins again. Starts are drawn independently and evenly over all
// places where a piece fits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "locant/data/corpus.h"

namespace locant {

class BatchSampler {
 public:
  // B = batch_size pieces of L = length inputs from `tokens`, which must outlive the sampler.
  // Throws std::invalid_argument unless B >= 1, L >= 1 and there are at least L + 1 tokens.
  BatchSampler(std::span<const Token> tokens, int64_t batch_size, int64_t length, uint64_t seed);

  int64_t batch_size() const { return batch_size_; }
  int64_t length() const { return length_; }

  // The B offsets where the pieces of this batch start, each in [0, tokens - L).
  std::vector<int64_t> starts(uint64_t batch) const;

  // inputs and targets are (B, L), row-major; targets[b][t] is the token after inputs[b][t].
  // Throws std::invalid_argument if either has not B x L elements.
  void fill(uint64_t batch, std::span<int32_t> inputs, std::span<int32_t> targets) const;

 private:
  std::span<const Token> tokens_;
  int64_t batch_size_, length_;
  uint64_t seed_;
};

}  // namespace locant
