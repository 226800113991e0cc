// See problem.h; and which distances a call may see.
#include "locant/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "locant/attention/check_inputs.h"
#include "locant/attention/check_views.h"

namespace locant::attention {

template <class T>
Problem resolve(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options) {
  Problem p;
  p.B = in.q.shape[0], p.H = in.q.shape[1], p.Q = in.q.shape[2], p.D = in.q.shape[3];
  p.Hk = in.k.shape[1], p.K = in.k.shape[2], p.Dv = in.v.shape[3];
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.D))) * terms.scale_factor;
  p.options = options;
  if (in.cu_seqlens_q) {
    const auto copy = [](const View<const int64_t, 1>& from) {
      return std::vector<int64_t>(from.data, from.data + from.shape[0]);
    };
    p.q_starts = copy(in.cu_seqlens_q);
    p.k_starts = copy(in.cu_seqlens_k);
    p.B = in.cu_seqlens_q.shape[0] - 1;
    p.Q = p.K = 0;
    for (int64_t b = 0; b < p.B; ++b) {
      p.Q = std::max(p.Q, p.queries(b));
      p.K = std::max(p.K, p.keys(b));
    }
  }
  const int64_t batches = p.packed() ? 1 : p.B;
  if (!in.q_positions && !in.k_positions) {
    const int64_t all_queries = in.q.shape[2], all_keys = in.k.shape[2];
    p.storage_.resize(static_cast<size_t>(all_queries + all_keys));
    int64_t* const q = p.storage_.data();
    int64_t* const k = q + all_queries;
    for (int64_t b = 0; b < (p.packed() ? p.B : 1); ++b) {
      const int64_t first = std::max<int64_t>(0, p.keys(b) - p.queries(b));
      for (int64_t i = 0; i < p.queries(b); ++i) q[p.first_q(b) + i] = first + i;
      for (int64_t j = 0; j < p.keys(b); ++j) k[p.first_k(b) + j] = j;
    }
    p.q_positions = {q, {batches, all_queries}, {0, 1}};
    p.k_positions = {k, {batches, all_keys}, {0, 1}};
  } else {
    p.q_positions = in.q_positions;
    p.k_positions = in.k_positions;
    for (auto* positions : {&p.q_positions, &p.k_positions}) {
      if (positions->shape[0] == 1) positions->stride[0] = 0;
      positions->shape[0] = batches;
    }
  }
  return p;
}

template <class T>
Span span_of(const Inputs<T>& in, const Options& options) {
  Check check("attention span");
  check_inputs(check, in);
  check.done();
  const Problem p = resolve(in, Terms<Real<T>>(), options);
  Span span;
  bool found = false;
  for (int64_t b = 0; b < p.B; ++b) {
    const bool alike = p.q_positions.stride[0] == 0 && p.k_positions.stride[0] == 0;
    if (b > 0 && alike && !p.packed()) break;
    int64_t q_low = kPositionEnd, q_high = -1, k_low = kPositionEnd, k_high = -1;
    for (int64_t i = 0; i < p.queries(b); ++i) {
      q_low = std::min(q_low, p.q_position(b, i));
      q_high = std::max(q_high, p.q_position(b, i));
    }
    for (int64_t j = 0; j < p.keys(b); ++j) {
      k_low = std::min(k_low, p.k_position(b, j));
      k_high = std::max(k_high, p.k_position(b, j));
    }
    span.length = std::max({span.length, q_high + 1, k_high + 1});
    if (p.queries(b) == 0 || p.keys(b) == 0) continue;
    span.first_distance = found ? std::min(span.first_distance, k_low - q_high) : k_low - q_high;
    span.last_distance = found ? std::max(span.last_distance, k_high - q_low) : k_high - q_low;
    found = true;
  }
  if (options.causal) span.last_distance = std::min<int64_t>(span.last_distance, 0);
  const auto& [left, right] = options.window;
  if (left >= 0) span.first_distance = std::max(span.first_distance, -left);
  if (right >= 0) span.last_distance = std::min(span.last_distance, right);
  // Nothing is visible: any one distance will do.
  if (span.first_distance > span.last_distance) span.first_distance = span.last_distance = 0;
  return span;
}

template Problem resolve(const Inputs<float>&, const Terms<float>&, const Options&);
template Problem resolve(const Inputs<Bf16>&, const Terms<float>&, const Options&);
template Problem resolve(const Inputs<double>&, const Terms<double>&, const Options&);
template Problem resolve(const Inputs<std::complex<double>>&, const Terms<std::complex<double>>&,
                         const Options&);
template Span span_of(const Inputs<float>&, const Options&);
template Span span_of(const Inputs<Bf16>&, const Options&);
template Span span_of(const Inputs<double>&, const Options&);

}  // namespace locant::attention
