// Scratch memory that calls reuse: numbered slots that only grow.
#include <new>
#include <vector>

#include "locant/attention/attention.h"

namespace locant::attention {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Free {
  void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
};

struct Slot {
  std::unique_ptr<void, Free> memory;
  size_t bytes = 0;
};

}  // namespace

struct Workspace::State {
  std::vector<Slot> slots;
};

Workspace::Workspace() : state_(std::make_unique<State>()) {}
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

void* Workspace::reserve(int slot, size_t bytes) {
  if (!state_) state_ = std::make_unique<State>();  // was moved from
  const auto n = static_cast<size_t>(slot);
  if (n >= state_->slots.size()) state_->slots.resize(n + 1);
  Slot& found = state_->slots[n];
  if (bytes > found.bytes || !found.memory) {
    // The old block goes first: both together would double the peak.
    found.memory.reset();
    found.bytes = 0;
    const size_t rounded = bytes < 64 ? 64 : (bytes + 63) / 64 * 64;
    found.memory.reset(::operator new(rounded, kAlignment));
    found.bytes = rounded;
  }
  return found.memory.get();
}

size_t Workspace::bytes() const {
  size_t total = 0;
  if (state_) {
    for (const Slot& slot : state_->slots) total += slot.bytes;
  }
  return total;
}

}  // namespace locant::attention
