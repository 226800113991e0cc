// libFuzzer target: any bytes as a safetensors file, and any bytes as its header. A crash, another
// exception than std::invalid_argument, or an accepted header that is not sound is a finding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/checkpoint/safetensors_invariants.h"

namespace {

void examine(std::string_view bytes) {
  const std::string wrong = locant::parse_and_examine(bytes);
  if (wrong.empty()) return;
  std::fprintf(stderr, "accepted, but: %s\n", wrong.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  examine(bytes);
  if (size == 0) return 0;
  // The first byte says how much data follows, the rest is the header, whose length is set right:
  // so the fuzzer need not guess it and spends its time in the parser.
  const std::string_view header = bytes.substr(1);
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file += header;
  file.append(data[0], '\0');
  examine(file);
  return 0;
}
