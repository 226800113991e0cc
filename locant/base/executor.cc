// The built-in pool. The caller is worker 0; threads - 1 others wait at a gate, spinning at first
// and then asleep. A worker that comes too late for a job finds the gate closed and does not hold
// it up.
#include "locant/base/executor.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "locant/base/check.h"

namespace locant {
namespace {

// The gate in one word: generation of the job (high half), open bit, workers inside (low bits).
constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;
constexpr int kGenerationShift = 32;

// Long enough to bridge the serial code between two calls of a layer, short enough to waste
// nothing.
constexpr std::chrono::microseconds kSpin{50};

// Spins until holds() or the time is over; returns what holds() said last.
template <class Holds>
bool spin_until(Holds holds) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int n = 0; n < 16; ++n) {
      if (holds()) return true;
      std::this_thread::yield();
    }
  } while (std::chrono::steady_clock::now() < end);
  return holds();
}

// The task that this thread is inside of, if any: which pool runs it, as which worker.
struct Inside {
  const void* pool = nullptr;
  int worker = 0;
};
thread_local Inside inside;

class Enter {
 public:
  Enter(const void* pool, int worker) : before_(inside) { inside = {pool, worker}; }
  ~Enter() { inside = before_; }

 private:
  Inside before_;
};

}  // namespace

struct ThreadPool::State {
  int threads = 1;
  std::mutex callers;  // one run at a time

  // The job. Written while the gate is closed and nobody is inside.
  const TaskRef* task = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
  std::mutex error_guard;

  std::atomic<uint64_t> gate{0};
  std::atomic<bool> stop{false};
  std::mutex guard;  // of the two conditions
  std::condition_variable opened, emptied;
  std::atomic<int> sleepers{0};
  std::atomic<bool> caller_sleeps{false};
  std::vector<std::thread> workers;

  // Takes indices until there are none. After an exception nobody takes a new one.
  void work(int worker) {
    const Enter enter(this, worker);
    for (;;) {
      const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      try {
        (*task)(index, worker);
      } catch (...) {
        const std::lock_guard lock(error_guard);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }

  bool open_after(uint32_t seen) const {
    const uint64_t now = gate.load();
    return stop.load() || ((now & kOpen) && static_cast<uint32_t>(now >> kGenerationShift) != seen);
  }

  void worker_loop(int worker) {
    uint32_t seen = 0;
    for (;;) {
      if (!spin_until([&] { return open_after(seen); })) {
        std::unique_lock lock(guard);
        // Counted before the gate is looked at: the opener looks at the count after opening.
        sleepers.fetch_add(1);
        opened.wait(lock, [&] { return open_after(seen); });
        sleepers.fetch_sub(1);
      }
      if (stop.load()) return;
      uint64_t now = gate.load();
      while ((now & kOpen) && !gate.compare_exchange_weak(now, now + 1)) {
      }
      if (!(now & kOpen)) continue;  // too late
      seen = static_cast<uint32_t>(now >> kGenerationShift);
      work(worker);
      const uint64_t before = gate.fetch_sub(1);
      if ((before & kInside) == 1 && !(before & kOpen) && caller_sleeps.load()) {
        const std::lock_guard lock(guard);
        emptied.notify_one();
      }
    }
  }

  void open() {
    const uint64_t generation = (gate.load() >> kGenerationShift) + 1;
    gate.store((generation & UINT32_MAX) << kGenerationShift | kOpen);
    const int64_t wanted = count - 1;
    if (const int asleep = sleepers.load(); asleep > 0) {
      const std::lock_guard lock(guard);
      if (wanted >= asleep) {
        opened.notify_all();
      } else {
        for (int64_t n = 0; n < wanted; ++n) opened.notify_one();
      }
    }
  }

  void close() {
    gate.fetch_and(~kOpen);
    const auto empty = [&] { return (gate.load() & kInside) == 0; };
    if (spin_until(empty)) return;
    std::unique_lock lock(guard);
    caller_sleeps.store(true);
    emptied.wait(lock, empty);
    caller_sleeps.store(false);
  }

  void end() {
    {
      const std::lock_guard lock(guard);
      stop.store(true);
    }
    opened.notify_all();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1 || threads > 1024) {
    fail("thread pool", "threads must be from 1 to 1024, got ", threads);
  }
  state_->threads = threads;
  try {
    for (int worker = 1; worker < threads; ++worker) {
      state_->workers.emplace_back([state = state_.get(), worker] { state->worker_loop(worker); });
    }
  } catch (...) {
    state_->end();
    throw;
  }
}

ThreadPool::~ThreadPool() { state_->end(); }

int ThreadPool::threads() const { return state_->threads; }

void ThreadPool::run(int64_t count, TaskRef task) {
  State& state = *state_;
  if (inside.pool == &state) {
    const int worker = inside.worker;
    for (int64_t index = 0; index < count; ++index) task(index, worker);
    return;
  }
  if (count <= 0) return;
  const std::lock_guard one_caller(state.callers);
  state.task = &task;
  state.count = count;
  state.error = nullptr;
  state.next.store(0, std::memory_order_relaxed);
  if (count == 1 || state.threads == 1) {
    state.work(0);
  } else {
    state.open();
    state.work(0);
    state.close();
  }
  if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
}

}  // namespace locant
