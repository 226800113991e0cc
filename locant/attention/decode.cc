// See decode.h: checks, picks the instruction set, cuts the keys into splits and merges them.
#include "locant/attention/decode.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "locant/attention/decode_check.h"
#include "locant/attention/decode_prepare.h"
#include "locant/attention/decode_reference.h"
#include "locant/attention/kernel.h"
#include "locant/simd/dispatch.h"

namespace locant::attention {
namespace {

const DecodeSet& decode_set([[maybe_unused]] bool pairs) {
  switch (simd::chosen()) {
#if defined(__x86_64__)
    case simd::Set::kAvx512Bf16:
      return pairs ? avx512bf16::kDecodeSet : avx512::kDecodeSet;
    case simd::Set::kAvx512:
      return avx512::kDecodeSet;
    case simd::Set::kAvx2:
      return avx2::kDecodeSet;
#elif defined(__aarch64__)
    case simd::Set::kNeon:
      return neon::kDecodeSet;
#endif
    default:
      return scalar::kDecodeSet;
  }
}

float to_output(float x, float) { return x; }
Bf16 to_output(float x, Bf16) { return to_bf16(x); }

template <class T>
void decode_by_kernel(const DecodeInputs<T>& in, const Terms<float>& terms, const Options& options,
                      const Outputs<T>& outputs, Workspace& workspace, Executor& executor) {
  if (in.q.size() == 0) return;
  // Keys that are turned when they are read are floats by then.
  const bool pairs = std::is_same_v<T, Bf16> && in.q.shape[3] % 2 == 0 && in.cache.keys_turned;
  const DecodeSet& set = decode_set(pairs);
  Arrays arrays(workspace);
  const DecodePlan plan = prepare_decode(in, terms, options, set, arrays, executor);
  const int64_t units = plan.B * plan.Hk;
  if (plan.query_rows.on) {
    executor.run(units, [&](int64_t index, int) { set.row_products(plan, index / plan.Hk, index % plan.Hk); });
  }

  // Where heads lie side by side in a token or in a page, one task reads them all: memory in no order is
  // read in longer pieces. Not in pages when that leaves too few tasks.
  const int threads = executor.threads();
  const bool tokens_first = plan.k_head < plan.k_row;
  const bool whole_pages = plan.block_table && plan.B * plan.splits >= 4 * threads;
  const int64_t heads = tokens_first || whole_pages ? plan.Hk : 1, groups = plan.Hk / heads;
  const size_t bytes = set.bytes(plan, heads);
  char* scratch = arrays.take<char>(threads * static_cast<int64_t>(bytes));
  const int64_t parts = groups * plan.splits;
  executor.run(plan.B * parts, [&](int64_t index, int worker) {
    DecodePart part;
    part.b = index / parts;
    part.first = index % parts / plan.splits * heads;
    part.last = part.first + heads;
    part.split = index % plan.splits;
    if (part.split < plan.split_range[2 * part.b] || part.split >= plan.split_range[2 * part.b + 1]) return;
    set.split(plan, part, scratch + static_cast<size_t>(worker) * bytes);
  });

  float* rows = arrays.take<float>(threads * plan.value_width);
  executor.run(units, [&](int64_t index, int worker) {
    float* out = rows + worker * plan.value_width;
    const int64_t b = index / plan.Hk, hk = index % plan.Hk;
    for (int64_t r = 0; r < plan.rows; ++r) {
      const int64_t h = hk * plan.group + r / plan.Q, i = r % plan.Q;
      const float lse = set.merge(plan, b, hk, r, out);
      if (outputs.lse) outputs.lse(b, h, i) = lse;
      T* to = &outputs.out(b, h, i, 0);
      for (int64_t c = 0; c < plan.Dv; ++c) to[c] = to_output(out[c], T());
    }
  });
}

}  // namespace

template <class T>
void decode(const DecodeInputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
            const Outputs<T>& outputs, Workspace& workspace, Executor& executor) {
  check_decode(inputs, terms, options, outputs);
  if constexpr (!std::is_same_v<T, double>) {
    if (!twin_is_asked_for()) {
      decode_by_kernel(inputs, terms, options, outputs, workspace, executor);
      return;
    }
  }
  reference::decode(inputs, terms, options, outputs);
}

template void decode(const DecodeInputs<float>&, const Terms<float>&, const Options&,
                     const Outputs<float>&, Workspace&, Executor&);
template void decode(const DecodeInputs<double>&, const Terms<double>&, const Options&,
                     const Outputs<double>&, Workspace&, Executor&);
template void decode(const DecodeInputs<Bf16>&, const Terms<float>&, const Options&,
                     const Outputs<Bf16>&, Workspace&, Executor&);

}  // namespace locant::attention
