// Who runs the work. The library never owns the process's threads: it hands numbered tasks to an
// Executor. How work is cut into tasks never depends on the number of threads, so results do not.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace locant {

// A callable somebody else owns, called as task(index, worker). No allocation.
class TaskRef {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TaskRef>)
  TaskRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, int64_t index, int worker) {
          (*static_cast<std::remove_reference_t<F>*>(object))(index, worker);
        }) {}
  void operator()(int64_t index, int worker) const { call_(object_, index, worker); }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int);
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Workers that may run at the same time; worker numbers are 0 .. threads()-1.
  virtual int threads() const = 0;
  // Calls task(index, worker) for index = 0 .. count-1, each once, and returns when all are done.
  // Indices are handed out in ascending order, so a task may wait for a smaller one that has
  // been handed out before it. The first exception a task throws is rethrown here, after all
  // tasks that had started have ended; tasks not yet started are then skipped. Nested run() calls
  // from inside a task run in the calling worker.
  virtual void run(int64_t count, TaskRef task) = 0;
};

// Everything in the calling thread.
class SerialExecutor final : public Executor {
 public:
  int threads() const override { return 1; }
  void run(int64_t count, TaskRef task) override {
    for (int64_t index = 0; index < count; ++index) task(index, 0);
  }
};

// A pool of threads - 1 workers beside the caller, which spin briefly after a task and then block.
// run() may be called from one thread at a time; other callers wait.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads);  // throws std::invalid_argument unless 1 <= threads <= 1024
  ~ThreadPool() override;
  int threads() const override;
  void run(int64_t count, TaskRef task) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace locant
