// See dropout.h.
#include "locant/attention/dropout.h"

#include "locant/base/keyed_hash.h"
#include "locant/base/random.h"

namespace locant::attention {

DropoutKeys dropout_keys(const Dropout& dropout, int64_t b, int64_t h, int64_t i) {
  // The last word keeps these draws apart from those of Random(seed, stream), whose streams are small.
  constexpr uint32_t kDraw = 0x64726F70u;
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(dropout.first_head + h),
                  static_cast<uint32_t>(dropout.first_batch + b), kDraw},
                 {static_cast<uint32_t>(dropout.seed), static_cast<uint32_t>(dropout.seed >> 32)});
  return {words[0], words[1]};
}

uint32_t dropout_threshold(double rate) {
  const double scaled = rate * 0x1p32 + 0.5;
  return scaled >= 0x1p32 ? UINT32_MAX : static_cast<uint32_t>(scaled);
}

bool dropout_keeps(const Dropout& dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
  const DropoutKeys keys = dropout_keys(dropout, b, h, i);
  return keyed_hash(static_cast<uint32_t>(j), keys.first, keys.second) >=
         dropout_threshold(dropout.rate);
}

}  // namespace locant::attention
