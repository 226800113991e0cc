// Locant's Executor on PyTorch's own intra-op pool: torch.set_num_threads is obeyed and no second
// pool exists in the process.
#pragma once

#include "locant/base/executor.h"

namespace locant::python {

// One for each call; cheap to make. In a forked child it runs everything in the calling thread:
// the pool's threads did not come along, and OpenMP would wait for them forever.
class TorchExecutor final : public Executor {
 public:
  TorchExecutor();
  int threads() const override { return threads_; }
  void run(int64_t count, TaskRef task) override;

 private:
  int threads_;
};

}  // namespace locant::python
