#include "python/ops/executor.h"

#include <pthread.h>
#include <torch/csrc/stable/ops.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

namespace locant::python {
namespace {

std::atomic<bool> forked{false};
const int at_fork = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

// The worker that this thread is, while it is inside of a task.
thread_local int inside = -1;

class Enter {
 public:
  explicit Enter(int worker) : before_(inside) { inside = worker; }
  ~Enter() { inside = before_; }

 private:
  int before_;
};

struct Job {
  Job(const TaskRef& task, int64_t count) : task(task), count(count) {}

  const TaskRef& task;
  const int64_t count;
  std::atomic<int64_t> next{0};
  std::mutex guard;
  std::exception_ptr error;

  // parallel_for says nothing about the order of its ranges, and our tasks may wait for smaller
  // ones: so its iterations are workers, and the tasks come from one counter.
  void work(int worker) {
    const Enter enter(worker);
    for (;;) {
      const int64_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      try {
        task(index, worker);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!error) error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
    }
  }
};

}  // namespace

TorchExecutor::TorchExecutor() : threads_(1) {
  (void)at_fork;
  if (!forked.load()) threads_ = std::max(1, static_cast<int>(torch::stable::get_num_threads()));
}

void TorchExecutor::run(int64_t count, TaskRef task) {
  if (inside >= 0) {
    for (int64_t index = 0; index < count; ++index) task(index, inside);
    return;
  }
  Job job(task, count);
  const int64_t workers = std::min<int64_t>(threads_, count);
  if (workers <= 1) {
    job.work(0);
  } else {
    torch::stable::parallel_for(0, workers, 1, [&job](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) job.work(static_cast<int>(worker));
    });
  }
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace locant::python
