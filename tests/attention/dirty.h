// Scratch memory as earlier calls may leave it.
#pragma once

#include <cstring>

#include "locant/attention/attention.h"

namespace locant::test {

// Fills what a small call of one thread will use with a byte: 0xff makes every float a NaN.
inline void dirty(attention::Workspace& workspace, int byte) {
  constexpr size_t kBytes = size_t{4} << 20;
  constexpr int kSlots = 64;
  for (int slot = 16; slot < kSlots; ++slot) std::memset(workspace.reserve(slot, kBytes), byte, kBytes);
}

}  // namespace locant::test
