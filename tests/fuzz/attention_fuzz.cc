// libFuzzer target: any bytes as an attention call (attention_examine.h), kernel against twin.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "locant/base/random.h"
#include "tests/fuzz/attention_examine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong = locant::test::examine_attention(data, size);
  if (wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n", wrong.c_str());
  std::abort();
}

#ifdef __clang__
// libFuzzer's own mutations, on inputs that stay long: left alone it prefers short ones, and what is
// not in the input counts as zeros. One in four is new from its first byte.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  constexpr size_t kLong = 400;  // nearly all calls read fewer bytes
  locant::Random random(seed);
  size = random.below(4) == 0 ? 0 : LLVMFuzzerMutate(data, size, most);
  for (; size < std::min(kLong, most); ++size) data[size] = static_cast<uint8_t>(random.next());
  return size;
}
#endif
