// 32 bits for number n under two keys that are random themselves: cheap enough for every pair of
// tokens, and plain enough for vectors to compute the same (attention/dropout-inl.h). The multipliers
// come from a search for integer hashes of low bias (Wellons, "Prospecting for hash functions", 2018).
// The high bits are the good ones: compare the whole word with a threshold.
#pragma once

#include <cstdint>

namespace locant {

struct KeyedHash {
  static constexpr uint32_t kMultiplier0 = 0xED5AD4BBu, kMultiplier1 = 0xAC4C1B51u,
                            kMultiplier2 = 0x31848BABu;
  static constexpr int kShift0 = 11, kShift1 = 15;
};

constexpr uint32_t keyed_hash(uint32_t n, uint32_t key0, uint32_t key1) {
  uint32_t x = (n ^ key0) * KeyedHash::kMultiplier0;
  x = (x ^ (x >> KeyedHash::kShift0) ^ key1) * KeyedHash::kMultiplier1;
  return (x ^ (x >> KeyedHash::kShift1)) * KeyedHash::kMultiplier2;
}

}  // namespace locant
