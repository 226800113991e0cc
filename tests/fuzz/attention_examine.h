// Any bytes as one attention call, run on every instruction set and compared with the twin in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace locant::test {

// Empty, or what is wrong: the call in words, the set, the result and its worst element.
std::string examine_attention(const uint8_t* data, size_t size);

}  // namespace locant::test
