// See kv_cache.h.
#include "locant/attention/kv_cache.h"

#include <algorithm>
#include <vector>

#include "locant/attention/decode_check.h"
#include "locant/attention/reference_math.h"
#include "locant/attention/rotate.h"

namespace locant::attention {
namespace {

template <class T>
Real<T> real_of(T x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_float(x);
  } else {
    return x;
  }
}
template <class T>
T stored(Real<T> x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(x);
  } else {
    return x;
  }
}

// cos and sin of the new tokens of one sequence. In double by the twin's arithmetic, row by row.
class KeyTurn {
 public:
  KeyTurn(const Rotation& rotation, std::vector<int32_t> positions)
      : rotation_(rotation), positions_(std::move(positions)) {}

  void turn(size_t token, double* row) const {
    reference::rotate(rotation_, positions_[token], -1, false, row);
  }
  void turn(size_t token, float* row) {
    const auto pairs = static_cast<size_t>(rotation_.width / 2);
    if (cosine_.empty()) {
      cosine_.resize(positions_.size() * pairs), sine_.resize(positions_.size() * pairs);
      fill_turn(rotation_, positions_.data(), static_cast<int64_t>(positions_.size()), -1, cosine_.data(),
                sine_.data());
    }
    const bool interleaved = rotation_.layout == Rotation::Layout::kInterleaved;
    for (size_t t = 0; t < pairs; ++t) {
      float& x = row[interleaved ? 2 * t : t];
      float& y = row[interleaved ? 2 * t + 1 : t + pairs];
      const float cosine = cosine_[token * pairs + t], sine = sine_[token * pairs + t];
      const float turned = x * cosine - y * sine;
      y = x * sine + y * cosine;
      x = turned;
    }
  }

 private:
  const Rotation& rotation_;
  std::vector<int32_t> positions_;
  std::vector<float> cosine_, sine_;
};

}  // namespace

template <class T>
void append(const KvCache<T>& cache, const NewTokens<T>& tokens, const Terms<Real<T>>& terms) {
  check_append(cache, tokens, terms);
  const auto [B, Hk, N, D] = tokens.k.shape;
  const int64_t Dv = tokens.v.shape[3];
  const Rotation* rotation =
      cache.keys_turned && terms.rotation && terms.rotation->width > 0 ? &*terms.rotation : nullptr;
  std::vector<Real<T>> row(static_cast<size_t>(D));
  for (int64_t b = 0; b < B; ++b) {
    const int64_t length = cache.lengths(b), count = tokens.counts ? tokens.counts(b) : N;
    std::vector<int32_t> positions(static_cast<size_t>(count));
    for (int64_t n = 0; n < count; ++n) {
      const auto& given = tokens.positions;
      positions[static_cast<size_t>(n)] =
          static_cast<int32_t>(given ? given(given.shape[0] == 1 ? 0 : b, n) : length + n);
    }
    std::unique_ptr<KeyTurn> turn;
    if (rotation && count > 0) turn = std::make_unique<KeyTurn>(*rotation, std::move(positions));
    for (int64_t n = 0; n < count; ++n) {
      const Slot slot = slot_of(cache, b, length + n);
      for (int64_t h = 0; h < Hk; ++h) {
        const T* key = &tokens.k(b, h, n, 0);
        T* to = &cache.k(slot.page, h, slot.row, 0);
        if (turn) {
          for (int64_t c = 0; c < D; ++c) row[static_cast<size_t>(c)] = real_of(key[c]);
          turn->turn(static_cast<size_t>(n), row.data());
          for (int64_t c = 0; c < D; ++c) to[c] = stored<T>(row[static_cast<size_t>(c)]);
        } else {
          std::copy(key, key + D, to);
        }
        const T* value = &tokens.v(b, h, n, 0);
        std::copy(value, value + Dv, &cache.v(slot.page, h, slot.row, 0));
      }
    }
  }
  for (int64_t b = 0; b < B; ++b) cache.lengths(b) += tokens.counts ? tokens.counts(b) : N;
}

template void append(const KvCache<float>&, const NewTokens<float>&, const Terms<float>&);
template void append(const KvCache<double>&, const NewTokens<double>&, const Terms<double>&);
template void append(const KvCache<Bf16>&, const NewTokens<Bf16>&, const Terms<float>&);

}  // namespace locant::attention
