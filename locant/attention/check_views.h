// What is asked of views: a shape, strides a loop can walk, and, where they are written, memory of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "locant/attention/overlap.h"
#include "locant/base/check.h"
#include "locant/base/view.h"

namespace locant::attention {

// Positions are from 0 to below it.
inline constexpr int64_t kPositionEnd = int64_t{1} << 31;

inline bool check_position(Check& check, const char* name, int64_t b, int64_t n, int64_t position) {
  return check.require(position >= 0 && position < kPositionEnd, name, "[", b, ", ", n,
                       "] must be from 0 to 2^31 - 1, got ", position);
}

// False when the view cannot be read.
template <class T, int N>
bool check_view(Check& check, const char* name, const View<T, N>& view, bool last_stride_one = true) {
  for (int64_t extent : view.shape) {
    if (!check.require(extent >= 0, name, " has a negative extent: ", shape_text(view))) return false;
  }
  if (view.size() == 0) return true;
  bool good = check.require(view.data != nullptr, name, " ", shape_text(view), " has no data");
  if (last_stride_one) {
    good &= check.require(view.stride[N - 1] == 1 || view.shape[N - 1] == 1, "the last stride of ", name,
                          " must be 1, got ", view.stride[N - 1]);
  }
  for (int n = 0; n < N; ++n) {
    good &= check.require(view.stride[n] >= 0, "strides of ", name, " must not be negative, got ",
                          view.stride[n], " in dimension ", n);
  }
  return good;
}

// A view that is written: in addition no two of its elements may share an address.
template <class T, int N>
void check_written(Check& check, const char* name, const View<T, N>& view) {
  check_view(check, name, view);
  if (view.size() == 0) return;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, extent
  for (int n = 0; n < N; ++n) {
    if (view.shape[n] > 1) dimensions.push_back({view.stride[n], view.shape[n]});
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t span = 0;
  for (const auto& [stride, extent] : dimensions) {
    if (!check.require(stride > span, "elements of ", name, " overlap: stride ", stride,
                       " within a span of ", span + 1)) {
      return;
    }
    span += (extent - 1) * stride;
  }
}

template <class T, int N>
bool check_shape(Check& check, const char* name, const View<T, N>& view,
                 const std::array<int64_t, static_cast<size_t>(N)>& expected) {
  return check.require(view.shape == expected, name, " must be ",
                       shape_text(View<const char, N>(nullptr, expected)), ", got ", shape_text(view));
}

// Memory of views that have some, with the names they go by in messages.
struct NamedExtent {
  const char* name;
  Extent extent;
};

template <class T, int N>
void add_extent(std::vector<NamedExtent>& list, const char* name, const View<T, N>& view) {
  if (view.data && view.size() > 0) list.push_back({name, extent_of(view)});
}

// Nothing written may share memory with anything else.
inline void check_apart(Check& check, const std::vector<NamedExtent>& written,
                        const std::vector<NamedExtent>& read) {
  for (size_t n = 0; n < written.size(); ++n) {
    for (const NamedExtent& other : read) {
      check.require(!overlap(written[n].extent, other.extent), written[n].name, " overlaps ",
                    other.name);
    }
    for (size_t m = 0; m < n; ++m) {
      check.require(!overlap(written[n].extent, written[m].extent), written[n].name, " overlaps ",
                    written[m].name);
    }
  }
}

}  // namespace locant::attention
