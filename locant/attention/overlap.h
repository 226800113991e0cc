// Whether two strided views share memory.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/base/view.h"

namespace locant::attention {

// Memory one view spans, for overlap(): where it starts, and per dimension extent and stride in
// bytes.
struct Extent {
  uintptr_t start = 0;
  struct Dimension {
    int64_t extent, stride;
  };
  std::vector<Dimension> dimensions;  // the last one is the element itself: {sizeof(T), 1}
};

template <class T, int N>
Extent extent_of(const View<T, N>& view) {
  Extent extent{reinterpret_cast<uintptr_t>(view.data), {}};
  for (int n = 0; n < N; ++n) {
    extent.dimensions.push_back({view.shape[n], view.stride[n] * static_cast<int64_t>(sizeof(T))});
  }
  extent.dimensions.push_back({static_cast<int64_t>(sizeof(T)), 1});
  return extent;
}

// Whether two views share a byte. Interleaved views (q, k and v packed in one array) are told apart
// exactly; only after very many branches, which no layout in use needs, the answer is a cautious
// yes.
bool overlap(const Extent& a, const Extent& b);

}  // namespace locant::attention
