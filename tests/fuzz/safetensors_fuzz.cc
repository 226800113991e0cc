// libFuzzer target: any bytes as a safetensors file. A crash, another exception than
// std::invalid_argument, or an accepted header that is not sound is a finding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/checkpoint/safetensors_invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string wrong = locant::parse_and_examine(bytes);
  if (!wrong.empty()) {
    std::fprintf(stderr, "accepted, but: %s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
