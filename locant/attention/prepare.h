// From a checked call to the plan that the kernels read. Everything that depends on positions, maps
// and tables alone is computed here, once a call and in memory of the workspace.
#pragma once

#include "locant/attention/kernel.h"
#include "locant/attention/plan.h"

namespace locant::attention {

// Workspace slots from here on belong to the kernel.
constexpr int kFirstSlot = 16;

// Hands out the slots in order: the same call asks for the same arrays.
class Arrays {
 public:
  explicit Arrays(Workspace& workspace) : workspace_(workspace) {}
  template <class T>
  T* take(int64_t n) {
    return static_cast<T*>(
        workspace_.reserve(slot_++, static_cast<size_t>(n < 1 ? 1 : n) * sizeof(T)));
  }

 private:
  Workspace& workspace_;
  int slot_ = kFirstSlot;
};

// Steps that one side of a window reaches; negative: no end, which is beyond all distances.
inline constexpr int64_t kUnlimited = int64_t{1} << 32;
inline int64_t steps_of(int64_t side) { return side < 0 || side > kUnlimited ? kUnlimited : side; }

// The caller's array in a plan; an empty view gives none. start: first tokens of packed sequences.
inline ReadArray array_of(const View<const float, 4>& view, const int64_t* start) {
  return {{view.data, view.stride[0], view.stride[1], view.stride[2], start}, {}};
}
inline WrittenArray array_of(const View<float, 4>& view, const int64_t* start) {
  return {{view.data, view.stride[0], view.stride[1], view.stride[2], start}, {}};
}
inline ReadArray array_of(const View<const Bf16, 4>& view, const int64_t* start) {
  const auto* bits = reinterpret_cast<const uint16_t*>(view.data);
  return {{}, {bits, view.stride[0], view.stride[1], view.stride[2], start}};
}
inline WrittenArray array_of(const View<Bf16, 4>& view, const int64_t* start) {
  auto* bits = reinterpret_cast<uint16_t*>(view.data);
  return {{}, {bits, view.stride[0], view.stride[1], view.stride[2], start}};
}

// lanes: floats in a vector of the set in use. Panels of row terms (RowsTerm::panel) are allocated
// and still empty: the kernel transposes them.
template <class T>
Plan prepare(const KernelCall<T>& call, int lanes, bool backward, Arrays& arrays);

}  // namespace locant::attention
