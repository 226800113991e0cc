// See kernel.h: picks the instruction set, cuts the work into parts and hands them to the executor.
#include "locant/attention/kernel.h"

#include <algorithm>
#include <thread>
#include <type_traits>

#include "locant/attention/gradients.h"
#include "locant/attention/kernel_set.h"
#include "locant/attention/prepare.h"
#include "locant/simd/dispatch.h"

namespace locant::attention {
namespace {

const KernelSet& kernel_set(bool bf16) {
  switch (simd::chosen()) {
#if defined(__x86_64__)
    case simd::Set::kAvx512Bf16:
      return bf16 ? avx512bf16::kKernelSet : avx512::kKernelSet;
    case simd::Set::kAvx512:
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

template <class T>
void kernel_forward(const KernelCall<T>& call, const Outputs<T>& outputs, Workspace& workspace,
                    Executor& executor) {
  const KernelSet& set = kernel_set(std::is_same_v<T, Bf16>);
  Arrays arrays(workspace);
  Plan plan = prepare(call, set.lanes, false, arrays);
  if (plan.B == 0 || plan.Q == 0) return;
  plan.out = array_of(outputs.out);
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
  const bool is_short = parts == 1 && tiles * plan.k_places.tiles <= 4;
  const size_t bytes = set.forward_bytes(plan);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  for (int worker = 0; worker < threads; ++worker) {
    set.open_forward(plan, scratch + static_cast<size_t>(worker) * bytes);
  }
  executor.run(count, [&](int64_t index, int worker) {
    Part part;
    part.b = index / (plan.H * parts);
    part.h = index / parts % plan.H;
    // The last queries first: under a causal mask they have most to do.
    const int64_t n = parts - 1 - index % parts;
    part.first_tile = n * plan.part_tiles;
    part.last_tile = std::min(tiles, part.first_tile + plan.part_tiles);
    if (is_short && index + threads < count) {
      part.next_b = (index + threads) / plan.H;
      part.next_h = (index + threads) % plan.H;
    }
    set.forward(plan, part, scratch + static_cast<size_t>(worker) * bytes);
  });
}

namespace {

// Memory of the key heads' gradients. Where rows are whole vectors the caller's own is used.
struct KeyGradients {
  float *dk = nullptr, *dv = nullptr;  // [units][K][width]
  float* dk_rows = nullptr;            // [slots][group][K padded][columns]
  uint8_t* touched = nullptr;          // [units][key tiles]
  int32_t* turn = nullptr;             // [units][key tiles + 1], where query tiles are shared out
};

KeyUnit unit_of(const Plan& plan, const KeyGradients& memory, int64_t index, int64_t slot) {
  KeyUnit unit;
  unit.b = index / plan.Hk;
  unit.hk = index % plan.Hk;
  if (plan.dk) {
    unit.dk = memory.dk ? memory.dk + slot * plan.K * plan.width : plan.dk.at(unit.b, unit.hk, 0);
    unit.dk_row = memory.dk ? plan.width : plan.dk.row;
  }
  if (plan.dv) {
    unit.dv = memory.dv ? memory.dv + slot * plan.K * plan.value_width : plan.dv.at(unit.b, unit.hk, 0);
    unit.dv_row = memory.dv ? plan.value_width : plan.dv.row;
  }
  const int64_t tiles = plan.k_places.tiles;
  unit.touched = memory.touched + index * tiles;
  if (memory.turn) unit.turn = memory.turn + index * (tiles + 1);
  if (memory.dk_rows) {
    const int64_t size = plan.group * plan.k_places.padded * plan.key_rows.columns;
    unit.dk_rows = memory.dk_rows + slot * size;
  }
  return unit;
}

// Query tiles that go over the keys together. Sums do not depend on it.
int64_t backward_part_tiles(const Plan& plan, bool whole) {
  constexpr int64_t kWide = 1024;  // numbers a row: with more of them, the windows of one tile fill the cache
  for (const RowsTerm* term : {&plan.query_rows, &plan.value_rows}) {
    if (term->on && term->panel && term->window > kWide) return 1;
  }
  if (plan.number.gradient && plan.number.map.n > 16 * kWide) return 1;
  return std::min<int64_t>(whole ? 8 : 2, plan.q_places.tiles);
}

// Whether pairs of some term add to its gradient one by one: then only one worker may serve a head.
bool pairs_add_alone(const Plan& plan) {
  for (const RowsTerm* term : {&plan.query_rows, &plan.key_rows, &plan.value_rows}) {
    if (term->on && !term->panel) return true;
  }
  return false;
}

}  // namespace

template <class T>
void kernel_backward(const KernelCall<T>& call, const Outputs<const T>& outputs,
                     View<const T, 4> out_gradient, const Gradients<T>& gradients,
                     Workspace& workspace, Executor& executor) {
  const KernelSet& set = kernel_set(std::is_same_v<T, Bf16>);
  Arrays arrays(workspace);
  Plan plan = prepare(call, set.lanes, true, arrays);
  plan.out_in = array_of(outputs.out);
  plan.dout = array_of(out_gradient);
  plan.lse_in = outputs.lse.data;
  plan.lse_batch = outputs.lse.stride[0];
  plan.lse_head = outputs.lse.stride[1];
  plan.lse_row = outputs.lse.stride[2];
  plan.dq = array_of(gradients.q);
  plan.dk = array_of(gradients.k);
  plan.dv = array_of(gradients.v);
  plan.wait = [] { std::this_thread::yield(); };
  const TableGradients tables{gradients.number_per_key, gradients.terms};
  open_gradients(plan, tables, arrays);
  transpose_panels(set, plan, true, executor);

  // Key heads are shared out whole while there are enough of them, otherwise query tile by query
  // tile, each adding to the keys in its turn. The sums are the same, in the same order.
  const int threads = executor.threads();
  const int64_t units = plan.B * plan.Hk, tiles = plan.k_places.tiles;
  const bool whole = threads == 1 || units >= int64_t{4} * threads || plan.q_places.tiles <= 1 ||
                     pairs_add_alone(plan);
  const int64_t slots = whole ? threads : units;
  KeyGradients memory;
  if (plan.dk && (plan.bf16 || plan.D % set.lanes != 0)) {
    memory.dk = arrays.take<float>(slots * plan.K * plan.width);
  }
  if (plan.dv && (plan.bf16 || plan.Dv % set.lanes != 0)) {
    memory.dv = arrays.take<float>(slots * plan.K * plan.value_width);
  }
  int64_t dk_rows_size = 0;
  if (plan.key_rows.on && plan.key_rows.panel) {
    dk_rows_size = plan.group * plan.k_places.padded * plan.key_rows.columns;
    memory.dk_rows = arrays.take<float>(slots * dk_rows_size);
  }
  memory.touched = arrays.take<uint8_t>(units * tiles);
  std::fill(memory.touched, memory.touched + units * tiles, uint8_t{0});
  if (!whole) {
    memory.turn = arrays.take<int32_t>(units * (tiles + 1));
    std::fill(memory.turn, memory.turn + units * (tiles + 1), 0);
  }
  plan.part_tiles = backward_part_tiles(plan, whole);
  const size_t bytes = set.backward_bytes(plan);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  const auto scratch_of = [&](int worker) { return scratch + static_cast<size_t>(worker) * bytes; };
  for (int worker = 0; worker < threads; ++worker) set.open_backward(plan, scratch_of(worker));

  const int64_t query_tiles = plan.q_places.tiles, per_unit = plan.group * query_tiles;
  const bool is_short = per_unit * tiles <= 4;
  if (whole) {
    executor.run(units, [&](int64_t index, int worker) {
      KeyUnit unit = unit_of(plan, memory, index, worker);
      if (is_short && index + threads < units) {
        unit.next_b = (index + threads) / plan.Hk;
        unit.next_hk = (index + threads) % plan.Hk;
      }
      if (unit.dk_rows) std::fill(unit.dk_rows, unit.dk_rows + dk_rows_size, 0.0f);
      set.backward(plan, unit, 0, per_unit, scratch_of(worker));
      set.finish_keys(plan, unit, scratch_of(worker));
    });
  } else {
    if (memory.dk_rows) std::fill(memory.dk_rows, memory.dk_rows + slots * dk_rows_size, 0.0f);
    const int64_t parts = (per_unit + plan.part_tiles - 1) / plan.part_tiles;
    executor.run(units * parts, [&](int64_t index, int worker) {
      const KeyUnit unit = unit_of(plan, memory, index / parts, index / parts);
      const int64_t first = index % parts * plan.part_tiles;
      set.backward(plan, unit, first, std::min(per_unit, first + plan.part_tiles), scratch_of(worker));
    });
    executor.run(units, [&](int64_t index, int worker) {
      set.finish_keys(plan, unit_of(plan, memory, index, index), scratch_of(worker));
    });
  }
  sum_gradients(plan, tables, executor);
}

template void kernel_forward(const KernelCall<float>&, const Outputs<float>&, Workspace&, Executor&);
template void kernel_forward(const KernelCall<Bf16>&, const Outputs<Bf16>&, Workspace&, Executor&);
template void kernel_backward(const KernelCall<float>&, const Outputs<const float>&, View<const float, 4>,
                              const Gradients<float>&, Workspace&, Executor&);
template void kernel_backward(const KernelCall<Bf16>&, const Outputs<const Bf16>&, View<const Bf16, 4>,
                              const Gradients<Bf16>&, Workspace&, Executor&);

}  // namespace locant::attention
