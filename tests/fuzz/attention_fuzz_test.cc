// The body of the fuzz target on seeded random bytes: it runs and finds nothing, also where there is
// no clang.
#include <gtest/gtest.h>

#include <vector>

#include "locant/base/random.h"
#include "tests/fuzz/attention_examine.h"

namespace locant::test {
namespace {

TEST(AttentionFuzz, RandomBytes) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed, 17);
    std::vector<uint8_t> bytes(random.below(300));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
    const std::string wrong = examine_attention(bytes.data(), bytes.size());
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace locant::test
