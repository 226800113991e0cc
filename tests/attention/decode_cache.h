// Caches for the tests of decoding: filled by append() from the keys and values of a call, in one piece
// or in pages, everything that is not a token NaN.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "locant/attention/decode.h"
#include "tests/attention/engines.h"

namespace locant::test {

struct CacheLayout {
  int64_t page = 0;  // tokens a page; 0: in one piece
  bool tokens_first = false;
  int64_t extra = 0;  // capacity beyond what is needed
  std::string text() const {
    return (page ? "pages of " + std::to_string(page) : std::string("one piece")) +
           (tokens_first ? ", tokens first" : ", heads first") + ", extra " + std::to_string(extra);
  }
};

inline const std::vector<CacheLayout>& cache_layouts() {
  static const std::vector<CacheLayout> layouts{{0, false, 0}, {0, true, 5}, {16, false, 3}, {64, true, 0},
                                                {1, true, 2},  {7, false, 40}, {32, false, 0}};
  return layouts;
}

template <class T>
T not_a_number() {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(std::numeric_limits<float>::quiet_NaN());
  } else {
    return std::numeric_limits<T>::quiet_NaN();
  }
}
template <class T>
T number(double x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return to_bf16(float(x));
  } else {
    return T(x);
  }
}
inline double to_double(double x) { return x; }
inline double to_double(float x) { return double(x); }
inline double to_double(Bf16 x) { return double(to_float(x)); }

// Owns the memory of a cache of B sequences of up to `tokens` tokens.
template <class T>
struct CacheMemory {
  std::vector<T> k, v;
  std::vector<int32_t> table;
  std::vector<int64_t> lengths;
  attention::KvCache<T> cache;

  CacheMemory(const CacheLayout& layout, int64_t B, int64_t Hk, int64_t D, int64_t Dv, int64_t tokens)
      : lengths(size_t(B), 0) {
    const int64_t page = layout.page ? layout.page : tokens + layout.extra;
    const int64_t blocks = layout.page ? (tokens + layout.extra + page - 1) / page : 1;
    const int64_t pages = B * blocks + (layout.page ? 3 : 0);
    const auto view = [&](std::vector<T>& memory, int64_t width) {
      memory.assign(size_t(pages * Hk * page * width), not_a_number<T>());
      const std::array<int64_t, 4> shape{pages, Hk, page, width};
      if (!layout.tokens_first) return View<T, 4>(memory.data(), shape);
      return View<T, 4>(memory.data(), shape, {page * Hk * width, width, Hk * width, 1});
    };
    cache.k = view(k, D);
    cache.v = view(v, Dv);
    cache.lengths = {lengths.data(), {B}};
    if (!layout.page) return;
    // Pages in no order that anybody would guess; the first three of the pool belong to nobody.
    for (int64_t n = 0; n < B * blocks; ++n) table.push_back(int32_t(3 + (n * 5 + 2) % (B * blocks)));
    std::vector<int32_t> sorted = table;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {  // 5 divides their number
      for (int64_t n = 0; n < B * blocks; ++n) table[size_t(n)] = int32_t(pages - 1 - n);
    }
    cache.block_table = {table.data(), {B, blocks}};
  }
  CacheMemory(const CacheMemory&) = delete;
};

// What a decode call gives, in double.
struct Decoded {
  std::vector<double> out, lse;
  bool operator==(const Decoded&) const = default;
};

// A call of T as a cache and queries: appended in chunks, decoded.
template <class T>
Decoded decode_call(const Call<double>& call, const CacheLayout& layout, Executor& executor,
                    int64_t chunk = 1 << 20, bool keys_turned = true,
                    const std::vector<int64_t>& lengths = {}) {
  const oracle::Shape& s = call.shape;
  const int64_t B = s.b, K = s.k;
  CacheMemory<T> memory(layout, B, s.hk, s.d, s.dv, K);
  memory.cache.keys_turned = keys_turned;
  const auto convert = [](const std::vector<double>& from) {
    std::vector<T> to;
    for (double x : from) to.push_back(number<T>(x));
    return to;
  };
  const std::vector<T> q = convert(call.q), k = convert(call.k), v = convert(call.v);
  const Terms<Real<T>> terms = cast<Real<T>>(call.terms);
  for (int64_t from = 0; from < K; from += chunk) {
    const int64_t n = std::min(chunk, K - from);
    attention::NewTokens<T> tokens;
    const auto part = [&](View<const T, 4> all) {
      all.data += from * all.stride[2];
      all.shape[2] = n;
      return all;
    };
    tokens.k = part(call.rows(k.data(), s.hk, s.k, s.d));
    tokens.v = part(call.rows(v.data(), s.hk, s.k, s.dv));
    if (!call.k_positions.empty()) tokens.positions = {call.k_positions.data() + from, {B, n}, {K, 1}};
    std::vector<int64_t> counts;
    for (int64_t length : lengths) counts.push_back(std::clamp<int64_t>(length - from, 0, n));
    if (!lengths.empty()) tokens.counts = {counts.data(), {B}};
    attention::append(memory.cache, tokens, terms);
  }
  const int64_t capacity = memory.cache.capacity();
  attention::DecodeInputs<T> in;
  in.q = call.rows(q.data(), s.h, s.q, s.d);
  in.cache = memory.cache;
  std::vector<Real<T>> numbers;
  if (call.key_batches) {
    for (int64_t bh = 0; bh < call.key_batches * call.key_heads; ++bh) {
      for (int64_t j = 0; j < capacity; ++j) {
        numbers.push_back(j < K ? Real<T>(call.key_numbers[size_t(bh * K + j)])
                                : std::numeric_limits<Real<T>>::quiet_NaN());
      }
    }
    in.number_per_key = {numbers.data(), {call.key_batches, call.key_heads, capacity}};
  }
  std::vector<int64_t> k_positions;
  if (!call.q_positions.empty()) {
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t j = 0; j < capacity; ++j) {
        k_positions.push_back(j < K ? call.k_positions[size_t(b * K + j)] : -12345);
      }
    }
    in.q_positions = {call.q_positions.data(), {B, s.q}};
    in.k_positions = {k_positions.data(), {B, capacity}};
  }
  std::vector<T> out(call.out_gradient.size(), not_a_number<T>());
  std::vector<Real<T>> lse(size_t(B) * s.h * s.q);
  attention::Outputs<T> outputs{call.rows(out.data(), s.h, s.q, s.dv), {lse.data(), {B, s.h, s.q}}};
  attention::Workspace workspace;
  attention::decode(in, terms, call.options, outputs, workspace, executor);
  Decoded decoded;
  for (const T& x : out) decoded.out.push_back(to_double(x));
  for (const Real<T>& x : lse) decoded.lse.push_back(double(x));
  return decoded;
}

// On an engine: float or double.
inline Decoded decode_call(const Engine& engine, const Call<double>& call, const CacheLayout& layout,
                           int threads = 2, int64_t chunk = 1 << 20, bool keys_turned = true,
                           const std::vector<int64_t>& lengths = {}) {
  ThreadPool pool(threads);
  if (!engine.single) return decode_call<double>(call, layout, pool, chunk, keys_turned, lengths);
  const Using set(engine.set);
  return decode_call<float>(call, layout, pool, chunk, keys_turned, lengths);
}

}  // namespace locant::test
