// The body that every kernel_<set>.cc compiles with its own flags.
#pragma once

#include "locant/simd/vec-inl.h"

#include "locant/attention/kernel_set.h"
#include "locant/attention/product-inl.h"
#include "locant/attention/tile-inl.h"
#include "locant/attention/keys-inl.h"
#include "locant/attention/terms-inl.h"
#include "locant/attention/softmax-inl.h"
#include "locant/attention/forward-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {
namespace {

void transpose_panels(const Plan& plan, RowsTerm& term, int64_t h) {
  (void)plan;
  const float factor = term.factor / term.row_factor;
  float* panel = term.panel + h * term.channels * term.columns;
  for (int64_t r = 0; r < term.columns; r += kTile) {
    transpose_tile(term.rows + (h * term.used + r) * term.width, term.width,
                   at_most(kTile, term.used - r), term.channels, factor, panel + r, term.columns);
  }
}

size_t header_bytes(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t forward_bytes(const Plan& plan) {
  ForwardScratch scratch;
  return header_bytes(sizeof scratch) + cut_forward(plan, scratch, nullptr);
}
void open_forward(const Plan& plan, char* memory) {
  auto* scratch = reinterpret_cast<ForwardScratch*>(memory);
  cut_forward(plan, *scratch, memory + header_bytes(sizeof *scratch));
}
void forward(const Plan& plan, const Part& part, char* memory) {
  forward_part(plan, part, *reinterpret_cast<ForwardScratch*>(memory));
}

}  // namespace

const KernelSet kKernelSet = {kLanes, transpose_panels, forward_bytes, open_forward, forward};

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
