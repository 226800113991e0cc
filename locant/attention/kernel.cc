// See kernel.h: picks the instruction set, cuts the work into parts and hands them to the executor.
#include "locant/attention/kernel.h"

#include <algorithm>

#include "locant/attention/kernel_set.h"
#include "locant/attention/prepare.h"
#include "locant/simd/dispatch.h"

namespace locant::attention {
namespace {

const KernelSet& kernel_set() {
  switch (simd::chosen()) {
#if defined(__x86_64__)
    case simd::Set::kAvx512:
    case simd::Set::kAvx512Bf16:
      return avx512::kKernelSet;
    case simd::Set::kAvx2:
      return avx2::kKernelSet;
#endif
    default:
      return scalar::kKernelSet;
  }
}

void transpose_panels(const KernelSet& set, Plan& plan, bool backward, Executor& executor) {
  struct Job {
    RowsTerm* term;
    int64_t h;
  };
  RowsTerm* terms[] = {&plan.query_rows, &plan.key_rows, &plan.value_rows};
  int64_t counts[3] = {0, 0, 0};
  for (int n = 0; n < 3; ++n) {
    const bool needed = terms[n]->on && terms[n]->panel && (backward || n < 2);
    counts[n] = needed ? terms[n]->heads : 0;
  }
  const int64_t total = counts[0] + counts[1] + counts[2];
  if (total == 0) return;
  executor.run(total, [&](int64_t index, int) {
    int n = 0;
    while (index >= counts[n]) index -= counts[n++];
    set.transpose_panels(plan, *terms[n], index);
  });
}

// Query tiles a task takes. Results do not depend on it: every query tile meets its key tiles in
// order, whoever computes it.
int64_t part_tiles(const Plan& plan, int threads) {
  const int64_t tiles = plan.q_places.tiles, heads = plan.B * plan.H;
  int64_t part = tiles;
  if (!plan.one_chunk()) part = std::min<int64_t>(part, 16);
  const int64_t wanted = threads > 1 ? int64_t{8} * threads : 1;
  while (part > 2 && heads * ((tiles + part - 1) / part) < wanted) part = (part + 1) / 2;
  return std::max<int64_t>(part, 1);
}

}  // namespace

void kernel_forward(const KernelCall& call, const Outputs<float>& outputs, Workspace& workspace,
                    Executor& executor) {
  const KernelSet& set = kernel_set();
  Arrays arrays(workspace);
  Plan plan = prepare(call, set.lanes, false, arrays);
  if (plan.B == 0 || plan.Q == 0) return;
  plan.out = {outputs.out.data, outputs.out.stride[0], outputs.out.stride[1], outputs.out.stride[2]};
  plan.lse = outputs.lse.data;
  plan.lse_batch = outputs.lse.stride[0];
  plan.lse_head = outputs.lse.stride[1];
  plan.lse_row = outputs.lse.stride[2];
  transpose_panels(set, plan, false, executor);

  const int threads = executor.threads();
  plan.part_tiles = part_tiles(plan, threads);
  const int64_t tiles = plan.q_places.tiles;
  const int64_t parts = (tiles + plan.part_tiles - 1) / plan.part_tiles;
  const int64_t count = plan.B * plan.H * parts;
  const auto workers = std::min<int64_t>(threads, count);
  const size_t bytes = set.forward_bytes(plan);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  for (int worker = 0; worker < threads; ++worker) {
    set.open_forward(plan, scratch + static_cast<size_t>(worker) * bytes);
  }
  (void)workers;
  executor.run(count, [&](int64_t index, int worker) {
    Part part;
    part.b = index / (plan.H * parts);
    part.h = index / parts % plan.H;
    // The last queries first: under a causal mask they have most to do.
    const int64_t n = parts - 1 - index % parts;
    part.first_tile = n * plan.part_tiles;
    part.last_tile = std::min(tiles, part.first_tile + plan.part_tiles);
    set.forward(plan, part, scratch + static_cast<size_t>(worker) * bytes);
  });
}

}  // namespace locant::attention
