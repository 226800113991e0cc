#include "locant/data/batches.h"

#include <algorithm>

#include "locant/base/check.h"
#include "locant/base/random.h"

namespace locant {
namespace {

// Streams with the top bit set belong to batches; initial weights and dropout of the same seed use
// streams without it and so never meet these numbers.
constexpr uint64_t kBatchStream = uint64_t{1} << 63;

}  // namespace

BatchSampler::BatchSampler(std::span<const Token> tokens, int64_t batch_size, int64_t length,
                           uint64_t seed)
    : tokens_(tokens), batch_size_(batch_size), length_(length), seed_(seed) {
  Check check("batches");
  check.require(batch_size >= 1, "batch size must be at least 1, got ", batch_size);
  check.require(length >= 1, "length must be at least 1, got ", length);
  check.require(static_cast<int64_t>(tokens.size()) > length, "length ", length,
                " needs a text of more tokens than that, got ", tokens.size());
  check.done();
}

std::vector<int64_t> BatchSampler::starts(uint64_t batch) const {
  Random random(seed_, kBatchStream | batch);
  const uint64_t places = tokens_.size() - static_cast<uint64_t>(length_);
  std::vector<int64_t> starts(static_cast<size_t>(batch_size_));
  for (int64_t& start : starts) start = static_cast<int64_t>(random.below(places));
  return starts;
}

void BatchSampler::fill(uint64_t batch, std::span<int32_t> inputs,
                        std::span<int32_t> targets) const {
  const size_t expected = static_cast<size_t>(batch_size_) * static_cast<size_t>(length_);
  Check check("batches");
  check.require(inputs.size() == expected, "inputs must have ", expected, " elements, got ",
                inputs.size());
  check.require(targets.size() == expected, "targets must have ", expected, " elements, got ",
                targets.size());
  check.done();
  size_t row = 0;
  for (const int64_t start : starts(batch)) {
    const auto piece =
        tokens_.subspan(static_cast<size_t>(start), static_cast<size_t>(length_) + 1);
    std::copy(piece.begin(), piece.end() - 1, inputs.begin() + static_cast<std::ptrdiff_t>(row));
    std::copy(piece.begin() + 1, piece.end(), targets.begin() + static_cast<std::ptrdiff_t>(row));
    row += static_cast<size_t>(length_);
  }
}

}  // namespace locant
