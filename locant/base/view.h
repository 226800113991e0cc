// Views: a pointer, a shape and strides. They own nothing and cost nothing to copy.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

namespace locant {

// An N-dimensional array somebody else owns. Strides count elements, not bytes; the last one is 1
// wherever a kernel reads rows. An empty view (data == nullptr) means "not given".
template <class T, int N>
struct View {
  T* data = nullptr;
  std::array<int64_t, N> shape{};
  std::array<int64_t, N> stride{};

  View() = default;
  View(T* data, std::array<int64_t, N> shape, std::array<int64_t, N> stride)
      : data(data), shape(shape), stride(stride) {}

  // Contiguous, last index fastest.
  View(T* data, std::array<int64_t, N> shape) : data(data), shape(shape) {
    int64_t step = 1;
    for (int n = N - 1; n >= 0; --n) {
      stride[n] = step;
      step *= shape[n];
    }
  }

  // View<const T> from View<T>.
  template <class U>
    requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
  View(const View<U, N>& other)  // NOLINT: implicit, like T* to const T*
      : data(other.data), shape(other.shape), stride(other.stride) {}

  explicit operator bool() const { return data != nullptr; }

  int64_t size() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }

  template <class... Index>
    requires(sizeof...(Index) == N)
  T& operator()(Index... index) const {
    const std::array<int64_t, N> at{static_cast<int64_t>(index)...};
    int64_t offset = 0;
    for (int n = 0; n < N; ++n) offset += at[n] * stride[n];
    return data[offset];
  }
};

// "[2, 8, 64, 32]", for messages.
template <class T, int N>
std::string shape_text(const View<T, N>& view) {
  std::string text = "[";
  for (int n = 0; n < N; ++n) text += (n ? ", " : "") + std::to_string(view.shape[n]);
  return text + "]";
}

}  // namespace locant
