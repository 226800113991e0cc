// See kernel.h: picks the instruction set, cuts the work into parts and hands them to the executor.
#include "locant/attention/kernel.h"

#include <algorithm>
#include <array>
#include <thread>
#include <type_traits>

#include "locant/attention/gradients.h"
#include "locant/attention/kernel_set.h"
#include "locant/attention/prepare.h"
#include "locant/simd/dispatch.h"

namespace locant::attention {
namespace {

const KernelSet& kernel_set([[maybe_unused]] bool bf16) {
  switch (simd::chosen()) {
#if defined(__x86_64__)
    case simd::Set::kAvx512Bf16:
      return bf16 ? avx512bf16::kKernelSet : avx512::kKernelSet;
    case simd::Set::kAvx512:
      return avx512::kKernelSet;
    case simd::Set::kAvx2:
      return avx2::kKernelSet;
#elif defined(__aarch64__)
    case simd::Set::kNeon:
      return neon::kKernelSet;
#endif
    default:
      return scalar::kKernelSet;
  }
}

void transpose_panels(const KernelSet& set, Plan& plan, bool backward, Executor& executor) {
  RowsTerm* terms[] = {&plan.query_rows, &plan.value_rows};
  int64_t counts[2] = {0, 0};
  for (int n = 0; n < 2; ++n) {
    const bool needed = terms[n]->on && terms[n]->panel && (backward || n == 0);
    counts[n] = needed ? terms[n]->heads : 0;
  }
  const int64_t total = counts[0] + counts[1];
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
  int64_t all = 0;
  for (int64_t b = 0; b < plan.B; ++b) all += plan.q_places.tiles_of(b);
  int64_t part = plan.q_places.tiles;
  if (!plan.one_chunk()) part = std::min<int64_t>(part, 16);
  const int64_t wanted = threads > 1 ? int64_t{8} * threads : 1;
  while (part > 2 && plan.H * std::max((all + part - 1) / part, plan.B) < wanted) part = (part + 1) / 2;
  return std::max<int64_t>(part, 1);
}

// Numbers parts of unequal sequences: [B + 1], how many come before each.
class Parts {
 public:
  Parts(int64_t B, Arrays& arrays) : before_(arrays.take<int64_t>(B + 1)), B_(B) { before_[0] = 0; }
  void set(int64_t b, int64_t parts) { before_[b + 1] = before_[b] + parts; }
  int64_t before(int64_t b) const { return before_[b]; }
  int64_t of(int64_t b) const { return before_[b + 1] - before_[b]; }
  int64_t all() const { return before_[B_]; }
  // The sequence among [first, last) that holds part n.
  int64_t sequence(int64_t n, int64_t first, int64_t last) const {
    return std::upper_bound(before_ + first + 1, before_ + last + 1, n) - before_ - 1;
  }

 private:
  int64_t* before_;
  int64_t B_;
};

void set_lse(Plan& plan, const std::array<int64_t, 3>& stride) {
  plan.lse_batch = stride[0];
  plan.lse_head = stride[1];
  plan.lse_row = stride[2];
}

}  // namespace

template <class T>
void kernel_forward(const KernelCall<T>& call, const Outputs<T>& outputs, Workspace& workspace,
                    Executor& executor) {
  const KernelSet& set = kernel_set(std::is_same_v<T, Bf16>);
  Arrays arrays(workspace);
  Plan plan = prepare(call, set.lanes, false, arrays);
  if (plan.B == 0 || plan.q_places.tiles == 0) return;
  plan.out = array_of(outputs.out, call.q_start);
  plan.lse = outputs.lse.data;
  set_lse(plan, outputs.lse.stride);
  transpose_panels(set, plan, false, executor);

  const int threads = executor.threads();
  plan.part_tiles = part_tiles(plan, threads);
  Parts parts(plan.B, arrays);
  for (int64_t b = 0; b < plan.B; ++b) {
    parts.set(b, (plan.q_places.tiles_of(b) + plan.part_tiles - 1) / plan.part_tiles);
  }
  const int64_t count = plan.H * parts.all();
  const bool is_short = plan.part_tiles >= plan.q_places.tiles &&
                        plan.q_places.tiles * plan.k_places.tiles <= 4;
  const size_t bytes = set.forward_bytes(plan);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  for (int worker = 0; worker < threads; ++worker) {
    set.open_forward(plan, scratch + static_cast<size_t>(worker) * bytes);
  }
  executor.run(count, [&](int64_t index, int worker) {
    // Batch outside, heads, then parts.
    const auto head_of = [&](int64_t n, int64_t& b, int64_t& h) {
      b = parts.sequence(n / plan.H, 0, plan.B);
      const int64_t rest = n - parts.before(b) * plan.H;
      h = rest / parts.of(b);
      return rest % parts.of(b);
    };
    Part part;
    const int64_t tiles_before = head_of(index, part.b, part.h);
    // The last queries first: under a causal mask they have most to do.
    const int64_t n = parts.of(part.b) - 1 - tiles_before;
    part.first_tile = n * plan.part_tiles;
    part.last_tile = std::min(plan.q_places.tiles_of(part.b), part.first_tile + plan.part_tiles);
    if (is_short && index + threads < count) head_of(index + threads, part.next_b, part.next_h);
    set.forward(plan, part, scratch + static_cast<size_t>(worker) * bytes);
  });
}

namespace {

// Memory of the key heads' gradients. Where rows are whole vectors the caller's own is used.
struct KeyGradients {
  float *dk = nullptr, *dv = nullptr;  // [tokens][width]: of a worker, or of all units
  float* dk_rows = nullptr;            // [tiles][group][columns][kTile]: likewise
  uint8_t* touched = nullptr;          // [units][key tiles]
  int32_t* turn = nullptr;             // [units][key tiles], where query tiles are shared out
  int32_t* table_turn = nullptr;       // [sums of key heads]
  bool whole = false;                  // units are computed whole: a slot for each worker
};

KeyUnit unit_of(const Plan& plan, const KeyGradients& memory, int64_t b, int64_t hk, int worker) {
  const Places& places = plan.k_places;
  const int64_t tiles_before = places.tiles_before(b) * plan.Hk + hk * places.tiles_of(b);
  const int64_t first_token = memory.whole ? worker * places.length
                                           : places.tokens_before(b) * plan.Hk + hk * places.length_of(b);
  KeyUnit unit;
  unit.b = b;
  unit.hk = hk;
  if (plan.dk) {
    unit.dk = memory.dk ? memory.dk + first_token * plan.width : plan.dk.at(b, hk, 0);
    unit.dk_row = memory.dk ? plan.width : plan.dk.row;
  }
  if (plan.dv) {
    unit.dv = memory.dv ? memory.dv + first_token * plan.value_width : plan.dv.at(b, hk, 0);
    unit.dv_row = memory.dv ? plan.value_width : plan.dv.row;
  }
  unit.touched = memory.touched + tiles_before;
  if (memory.dk_rows) {
    const int64_t first_tile = memory.whole ? worker * places.tiles : tiles_before;
    unit.dk_rows = memory.dk_rows + first_tile * kTile * plan.group * plan.key_rows.columns;
  }
  if (memory.turn) {
    unit.turn = memory.turn + tiles_before;
    unit.table_turn = memory.table_turn + b / plan.sequences_a_sum * plan.Hk + hk;
    const int64_t first_b = b / plan.sequences_a_sum * plan.sequences_a_sum;
    const Places& q = plan.q_places;
    unit.tables_before =
        static_cast<int32_t>(plan.group * (q.tiles_before(b) - q.tiles_before(first_b)));
  }
  return unit;
}

// Query tiles that go over the keys together. Sums do not depend on it.
int64_t backward_part_tiles(const Plan& plan, bool whole) {
  constexpr int64_t kWide = 1024;  // numbers a row: with more of them, the windows of one tile fill the cache
  for (const RowsTerm* term : {&plan.query_rows, &plan.value_rows}) {
    if (term->on && !term->by_pair && term->window > kWide) return 1;
  }
  if (plan.number.gradient && plan.number.map.n > 16 * kWide) return 1;
  return std::min<int64_t>(whole ? 8 : 2, plan.q_places.tiles);
}

// Whether pairs of some term add to its gradient one by one: then only one worker may serve a head.
bool pairs_add_alone(const Plan& plan) {
  for (const RowsTerm* term : {&plan.query_rows, &plan.key_rows, &plan.value_rows}) {
    if (term->by_pair) return true;
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
  plan.out_in = array_of(outputs.out, call.q_start);
  plan.dout = array_of(out_gradient, call.q_start);
  plan.lse_in = outputs.lse.data;
  set_lse(plan, outputs.lse.stride);
  plan.dq = array_of(gradients.q, call.q_start);
  plan.dk = array_of(gradients.k, call.k_start);
  plan.dv = array_of(gradients.v, call.k_start);
  plan.wait = [] { std::this_thread::yield(); };
  const TableGradients tables{gradients.number_per_key, gradients.terms};
  open_gradients(plan, tables, arrays);
  transpose_panels(set, plan, true, executor);

  // Key heads are shared out whole while there are enough of them and none is too long, otherwise query
  // tile by query tile, each adding to the keys in its turn. The sums are the same, in the same order.
  const int threads = executor.threads();
  const Places &q = plan.q_places, &k = plan.k_places;
  int64_t work = 0, longest = 0;
  for (int64_t b = 0; b < plan.B; ++b) {
    const int64_t pairs = q.tiles_of(b) * k.tiles_of(b);
    work += pairs * plan.Hk;
    longest = std::max(longest, pairs);
  }
  KeyGradients memory;
  memory.whole = threads == 1 || q.tiles <= 1 || pairs_add_alone(plan) ||
                 work >= longest * plan.sequences_a_sum * 4 * threads;
  const int64_t units = plan.B * plan.Hk, unit_tiles = k.tiles_before(plan.B) * plan.Hk;
  const int64_t tokens = memory.whole ? threads * k.length : k.tokens_before(plan.B) * plan.Hk;
  if (plan.dk && (plan.bf16 || plan.D % set.lanes != 0)) memory.dk = arrays.take<float>(tokens * plan.width);
  if (plan.dv && (plan.bf16 || plan.Dv % set.lanes != 0)) memory.dv = arrays.take<float>(tokens * plan.value_width);
  const int64_t dk_rows_tile = plan.group * kTile * plan.key_rows.columns;
  if (plan.key_rows.on && !plan.key_rows.by_pair) {
    memory.dk_rows = arrays.take<float>((memory.whole ? threads * k.tiles : unit_tiles) * dk_rows_tile);
  }
  memory.touched = arrays.take<uint8_t>(unit_tiles);
  std::fill(memory.touched, memory.touched + unit_tiles, uint8_t{0});
  const int64_t groups = plan.sums() / plan.H;  // of sequences that share their sums
  if (!memory.whole) {
    memory.turn = arrays.take<int32_t>(unit_tiles);
    std::fill(memory.turn, memory.turn + unit_tiles, 0);
    memory.table_turn = arrays.take<int32_t>(groups * plan.Hk);
    std::fill(memory.table_turn, memory.table_turn + groups * plan.Hk, 0);
  }
  plan.part_tiles = backward_part_tiles(plan, memory.whole);
  const size_t bytes = set.backward_bytes(plan);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  const auto scratch_of = [&](int worker) { return scratch + static_cast<size_t>(worker) * bytes; };
  for (int worker = 0; worker < threads; ++worker) set.open_backward(plan, scratch_of(worker));

  const auto first_of = [&](int64_t group) { return group * plan.sequences_a_sum; };
  const auto end_of = [&](int64_t group) { return std::min(plan.B, first_of(group + 1)); };
  const auto clear_dk_rows = [&](const KeyUnit& unit) {
    if (unit.dk_rows) std::fill(unit.dk_rows, unit.dk_rows + k.tiles_of(unit.b) * dk_rows_tile, 0.0f);
  };
  if (memory.whole) {
    const bool is_short = plan.group * q.tiles * k.tiles <= 4 && plan.sequences_a_sum == 1;
    executor.run(groups * plan.Hk, [&](int64_t index, int worker) {
      const int64_t hk = index % plan.Hk;
      for (int64_t b = first_of(index / plan.Hk); b < end_of(index / plan.Hk); ++b) {
        KeyUnit unit = unit_of(plan, memory, b, hk, worker);
        if (is_short && index + threads < units) {
          unit.next_b = (index + threads) / plan.Hk;
          unit.next_hk = (index + threads) % plan.Hk;
        }
        clear_dk_rows(unit);
        set.backward(plan, unit, 0, plan.group * q.tiles_of(b), scratch_of(worker));
        set.finish_keys(plan, unit, scratch_of(worker));
      }
    });
  } else {
    // In the order of turns: groups, key heads, sequences, query tiles.
    Parts parts(plan.B, arrays);
    for (int64_t b = 0; b < plan.B; ++b) {
      parts.set(b, (plan.group * q.tiles_of(b) + plan.part_tiles - 1) / plan.part_tiles);
      for (int64_t hk = 0; hk < plan.Hk; ++hk) clear_dk_rows(unit_of(plan, memory, b, hk, 0));
    }
    executor.run(parts.all() * plan.Hk, [&](int64_t index, int worker) {
      const int64_t group = parts.sequence(index / plan.Hk, 0, plan.B) / plan.sequences_a_sum;
      const int64_t first = parts.before(first_of(group)), all = parts.before(end_of(group)) - first;
      const int64_t rest = index - first * plan.Hk, hk = rest / all;
      const int64_t part = first + rest % all;
      const int64_t b = parts.sequence(part, first_of(group), end_of(group));
      const int64_t tile = (part - parts.before(b)) * plan.part_tiles;
      set.backward(plan, unit_of(plan, memory, b, hk, worker), tile,
                   std::min(plan.group * q.tiles_of(b), tile + plan.part_tiles), scratch_of(worker));
    });
    executor.run(groups * plan.Hk, [&](int64_t index, int worker) {
      for (int64_t b = first_of(index / plan.Hk); b < end_of(index / plan.Hk); ++b) {
        set.finish_keys(plan, unit_of(plan, memory, b, index % plan.Hk, worker), scratch_of(worker));
      }
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
