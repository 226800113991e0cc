#include "locant/position/position_ids.h"

#include "locant/base/check.h"

namespace locant {
namespace {

// Real tokens are counted from `first`, padding takes `on_padding`.
PositionIds count(const std::vector<int>& mask, int64_t first, int64_t on_padding) {
  PositionIds ids;
  int64_t next = first;
  for (int real : mask) {
    if (real != 0 && real != 1) fail("position_ids", "a mask holds 0 and 1, got ", real);
    ids.push_back(real ? next++ : on_padding);
  }
  return ids;
}

}  // namespace

PositionIds plain_ids(int64_t length, int64_t past) {
  PositionIds ids;
  for (int64_t t = 0; t < length; ++t) ids.push_back(past + t);
  return ids;
}

PositionIds ids_from_mask(const std::vector<int>& mask) { return count(mask, 0, 1); }

PositionIds bloom_ids(const std::vector<int>& mask) { return count(mask, 0, 0); }

PositionIds opt_ids(const std::vector<int>& mask) { return count(mask, 2, 1); }

PositionIds roberta_ids(const std::vector<int64_t>& tokens, int64_t padding, int64_t past) {
  std::vector<int> mask;
  for (int64_t token : tokens) mask.push_back(token != padding);
  return count(mask, padding + 1 + past, padding);
}

PositionIds roberta_ids_without_tokens(int64_t length, int64_t padding) {
  return plain_ids(length, padding + 1);
}

int64_t usable_length(int64_t rows, int64_t padding) { return rows - padding - 1; }

}  // namespace locant
