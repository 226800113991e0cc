// The body that every kernel_<set>.cc compiles with its own flags.
#pragma once

#include "locant/simd/vec-inl.h"

#include "locant/attention/kernel_set.h"
#include "locant/attention/product-inl.h"
#include "locant/attention/tile-inl.h"
#include "locant/attention/keys-inl.h"
#include "locant/attention/terms-inl.h"
#include "locant/attention/softmax-inl.h"
#include "locant/attention/dropout-inl.h"
#include "locant/attention/forward-inl.h"
#include "locant/attention/forward_short-inl.h"
#include "locant/attention/adjoint-inl.h"
#include "locant/attention/backward-inl.h"

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
  auto& scratch = *reinterpret_cast<ForwardScratch*>(memory);
  Ahead ahead;
  look_ahead(plan, part, ahead);
  Ahead* const soon = ahead.count ? &ahead : nullptr;
  if (is_short(plan, part.b)) {
    forward_short(plan, part, scratch, soon);
  } else {
    forward_part(plan, part, scratch, soon);
  }
}

size_t backward_bytes(const Plan& plan) {
  BackwardScratch scratch;
  return header_bytes(sizeof scratch) + cut_backward(plan, scratch, nullptr);
}
void open_backward(const Plan& plan, char* memory) {
  auto* scratch = reinterpret_cast<BackwardScratch*>(memory);
  cut_backward(plan, *scratch, memory + header_bytes(sizeof *scratch));
}
void backward(const Plan& plan, const KeyUnit& unit, int64_t first, int64_t last, char* memory) {
  auto& scratch = *reinterpret_cast<BackwardScratch*>(memory);
  Ahead ahead;
  if (unit.next_b >= 0) look_ahead(plan, unit.next_b, unit.next_hk, ahead);
  scratch.ahead = ahead.count ? &ahead : nullptr;
  const int64_t tiles = plan.q_places.tiles_of(unit.b);
  while (first < last) {
    const int64_t head_end = (first / tiles + 1) * tiles;
    const int64_t end = at_most(at_most(last, head_end), first + plan.part_tiles);
    backward_part(plan, scratch, unit, first, end);
    first = end;
  }
}
void end_keys(const Plan& plan, const KeyUnit& unit, char* memory) {
  finish_keys(plan, *reinterpret_cast<BackwardScratch*>(memory), unit);
}

}  // namespace

const KernelSet kKernelSet = {kLanes,         transpose_panels, forward_bytes, open_forward, forward,
                              backward_bytes, open_backward,    backward,      end_keys};

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
