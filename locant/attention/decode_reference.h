// Decode by the scalar twin: the cache of each sequence is gathered into plain arrays, queries are
// turned as its keys were, and the twin's forward does the rest. The oracle, and what runs where
// LOCANT_ISA=scalar asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "locant/attention/problem.h"
#include "locant/attention/decode_check.h"
#include "locant/attention/reference.h"

namespace locant::attention::reference {

inline float widened(Bf16 x) { return to_float(x); }
template <class T>
T widened(T x) {
  return x;
}

// A hook that is told the sequence's own number where the twin counts from 0.
class HookOfSequence final : public TileHook {
 public:
  HookOfSequence(std::shared_ptr<const TileHook> hook, int64_t b) : hook_(std::move(hook)), b_(b) {}
  void add(const ScoreTile& tile, double* scores) const override {
    ScoreTile at = tile;
    at.batch += b_;
    hook_->add(at, scores);
  }

 private:
  std::shared_ptr<const TileHook> hook_;
  int64_t b_;
};

template <class T>
void decode(const DecodeInputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
            const Outputs<T>& outputs) {
  using R = Real<T>;
  const auto [B, H, Q, D] = in.q.shape;
  const int64_t Hk = in.cache.k.shape[1], Dv = in.cache.v.shape[3];
  for (int64_t b = 0; b < B; ++b) {
    const int64_t K = in.cache.lengths(b);
    const Rotation* rotation = rotation_of(in, terms, b);
    Terms<R> used = terms;
    used.rotation = !rotation || in.cache.keys_turned ? std::nullopt : std::optional(*rotation);

    if (terms.hook) used.hook = std::make_shared<HookOfSequence>(terms.hook, b);

    std::vector<R> q, k, v, numbers, out(static_cast<size_t>(H * Q * Dv)), lse(static_cast<size_t>(H * Q));
    std::vector<int64_t> q_positions, k_positions;
    for (int64_t i = 0; i < Q; ++i) q_positions.push_back(query_position(in, b, i));
    for (int64_t j = 0; j < K; ++j) k_positions.push_back(key_position(in, b, j));
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < Q; ++i) {
        for (int64_t c = 0; c < D; ++c) q.push_back(widened(in.q(b, h, i, c)));
        if (rotation && in.cache.keys_turned) {
          rotate(*rotation, q_positions[static_cast<size_t>(i)], +1, false, &q[q.size() - size_t(D)]);
        }
      }
    }
    for (int64_t h = 0; h < Hk; ++h) {
      for (int64_t j = 0; j < K; ++j) {
        const Slot slot = slot_of(in.cache, b, j);
        for (int64_t c = 0; c < D; ++c) k.push_back(widened(in.cache.k(slot.page, h, slot.row, c)));
        for (int64_t c = 0; c < Dv; ++c) v.push_back(widened(in.cache.v(slot.page, h, slot.row, c)));
      }
    }
    Inputs<R> one;
    one.q = {q.data(), {1, H, Q, D}};
    one.k = {k.data(), {1, Hk, K, D}};
    one.v = {v.data(), {1, Hk, K, Dv}};
    one.q_positions = {q_positions.data(), {1, Q}};
    one.k_positions = {k_positions.data(), {1, K}};
    if (const auto& given = in.number_per_key) {
      const int64_t heads = given.shape[1];
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t j = 0; j < K; ++j) numbers.push_back(given(given.shape[0] == 1 ? 0 : b, h, j));
      }
      one.number_per_key = {numbers.data(), {1, heads, K}};
    }
    const Outputs<R> to{{out.data(), {1, H, Q, Dv}}, {lse.data(), {1, H, Q}}};
    const Problem problem = resolve(one, used, options);
    Twin<R>(one, used, problem).forward(to);
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < Q; ++i) {
        for (int64_t c = 0; c < Dv; ++c) {
          const R x = to.out(0, h, i, c);
          if constexpr (std::is_same_v<T, Bf16>) {
            outputs.out(b, h, i, c) = to_bf16(x);
          } else {
            outputs.out(b, h, i, c) = x;
          }
        }
        if (outputs.lse) outputs.lse(b, h, i) = to.lse(0, h, i);
      }
    }
  }
}

}  // namespace locant::attention::reference
