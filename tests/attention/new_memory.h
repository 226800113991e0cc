// What fresh aligned memory holds in the attention tests, as earlier calls may have left it: scratch
// that is read before it is written shows.
#pragma once

namespace locant::test {

inline constexpr int kNanBytes = 0xff;
inline int new_memory = kNanBytes;  // a byte

}  // namespace locant::test
