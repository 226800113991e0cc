// Numbers on 64-byte boundaries: vectors of full width never straddle two cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace locant::train {

// `size` zeros; moves, does not copy.
template <class T>
class Buffer {
  static_assert(std::is_arithmetic_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : size_(size),
        data_(static_cast<T*>(::operator new(static_cast<size_t>(size) * sizeof(T), kAlignment))) {
    std::uninitialized_fill_n(data_.get(), size, T(0));
  }

  int64_t size() const { return size_; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };
  int64_t size_ = 0;
  std::unique_ptr<T, Free> data_;
};

}  // namespace locant::train
