// Numbers on 64-byte boundaries: vectors of full width never straddle two cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace locant::train {

// 64-byte aligned zeros, from the system in large pages where it has them; free_aligned gives them back.
void* allocate_aligned(size_t bytes);
void free_aligned(void* memory, size_t bytes);

// `size` zeros; moves, does not copy.
template <class T>
class Buffer {
  static_assert(std::is_arithmetic_v<T>);

 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : size_(size), data_(static_cast<T*>(allocate_aligned(static_cast<size_t>(size) * sizeof(T))),
                           Free{static_cast<size_t>(size) * sizeof(T)}) {}

  int64_t size() const { return size_; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  struct Free {
    size_t bytes = 0;
    void operator()(T* data) const { free_aligned(data, bytes); }
  };
  int64_t size_ = 0;
  std::unique_ptr<T, Free> data_;
};

}  // namespace locant::train
