#include "locant/train/buffer.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <cstring>
#include <new>

namespace locant::train {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// Activations and gradients are walked through from end to end, megabytes at a time: with small pages
// a good part of that is looking up addresses.
std::align_val_t alignment_of(size_t bytes) {
  return std::align_val_t{bytes >= kLargePage ? kLargePage : 64};
}

}  // namespace

void* allocate_aligned(size_t bytes) {
  void* memory = ::operator new(bytes, alignment_of(bytes));
#ifdef __linux__
  if (bytes >= kLargePage) madvise(memory, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);  // a wish
#endif
  return std::memset(memory, 0, bytes);
}

void free_aligned(void* memory, size_t bytes) { ::operator delete(memory, alignment_of(bytes)); }

}  // namespace locant::train
