// See check_inputs.h.
#include "locant/attention/check_inputs.h"

#include <cmath>
#include <limits>

#include "locant/attention/check_views.h"

namespace locant::attention {
namespace {

using Single = std::numeric_limits<float>;  // what the kernel counts in

void check_positions(Check& check, const char* name, const View<const int64_t, 2>& view, int64_t B,
                     int64_t length) {
  if (!check.require((view.shape[0] == B || view.shape[0] == 1) && view.shape[1] == length, name,
                     " must be [", B, " or 1, ", length, "], got ", shape_text(view))) {
    return;
  }
  check_view(check, name, view);
  if (!view.data) return;
  for (int64_t b = 0; b < view.shape[0]; ++b) {
    for (int64_t n = 0; n < length; ++n) {
      if (!check_position(check, name, b, n, view(b, n))) return;  // one of them is enough
    }
  }
}

// Where packed sequences begin, and the end of the last.
void check_starts(Check& check, const char* name, const View<const int64_t, 1>& starts,
                  int64_t total) {
  const int64_t n = starts.shape[0];
  if (!check.require(n >= 1, name, " must hold at least one number, got ", n)) return;
  if (!check.require(starts.stride[0] == 1 || n == 1, "the stride of ", name, " must be 1, got ",
                     starts.stride[0])) {
    return;
  }
  check.require(starts(0) == 0, name, " must begin with 0, got ", starts(0));
  for (int64_t s = 1; s < n; ++s) {
    if (!check.require(starts(s) >= starts(s - 1), name, " must not fall, got ", starts(s), " after ",
                       starts(s - 1))) {
      return;
    }
  }
  check.require(starts(n - 1) == total, name, " must end with the ", total, " tokens there are, got ",
                starts(n - 1));
}

void check_tokens(Check& check, const char* name, const View<const int64_t, 1>& tokens,
                  int64_t length) {
  if (!tokens) return;
  if (!check.require(tokens.shape[0] == length, name, " must be [", length, "], got ",
                     shape_text(tokens))) {
    return;
  }
  check_view(check, name, tokens);
  for (int64_t n = 0; n < length; ++n) {
    if (!check.require(tokens(n) >= 0 && tokens(n) < kPositionEnd, name, "[", n,
                       "] must be from 0 to 2^31 - 1, got ", tokens(n))) {
      return;
    }
  }
}

}  // namespace

template <class T>
void check_inputs(Check& check, const Inputs<T>& in) {
  check_view(check, "q", in.q);
  check_view(check, "k", in.k);
  check_view(check, "v", in.v);
  const auto [B, H, Q, D] = in.q.shape;
  const int64_t Hk = in.k.shape[1], K = in.k.shape[2];
  check.require(H >= 1 && D >= 1, "q must have at least one head and one channel, got ",
                shape_text(in.q));
  check.require(Hk >= 1 && H % Hk == 0, "the heads of k must divide those of q, got ", Hk, " and ",
                H);
  check.require(in.k.shape[0] == B && in.k.shape[3] == D,
                "k must have the batch and the head size ", "of q, got k ", shape_text(in.k),
                " and q ", shape_text(in.q));
  check.require(in.v.shape[0] == in.k.shape[0] && in.v.shape[1] == Hk && in.v.shape[2] == K,
                "v must have the batch, heads and length of k, got v ", shape_text(in.v), " and k ",
                shape_text(in.k));
  check.require(in.v.shape[3] >= 1, "v must have at least one channel, got ", shape_text(in.v));
  check.require(Q <= kPositionEnd && K <= kPositionEnd, "lengths must be at most 2^31, got ", Q,
                " queries and ", K, " keys");
  if (in.cu_seqlens_q || in.cu_seqlens_k) {
    const bool both = check.require(in.cu_seqlens_q && in.cu_seqlens_k,
                                    "cu_seqlens_q and cu_seqlens_k must be given both or none");
    check.require(B == 1 && in.k.shape[0] == 1, "packed sequences must have a batch of 1, got ", B);
    if (both) {
      check_starts(check, "cu_seqlens_q", in.cu_seqlens_q, Q);
      check_starts(check, "cu_seqlens_k", in.cu_seqlens_k, K);
      check.require(in.cu_seqlens_q.shape == in.cu_seqlens_k.shape,
                    "cu_seqlens_q and cu_seqlens_k must have the same length, got ",
                    in.cu_seqlens_q.shape[0], " and ", in.cu_seqlens_k.shape[0]);
    }
  }
  if (in.number_per_key) {
    const auto& shape = in.number_per_key.shape;
    check.require(
        (shape[0] == B || shape[0] == 1) && (shape[1] == H || shape[1] == 1) && shape[2] == K,
        "number_per_key must be [", B, " or 1, ", H, " or 1, ", K, "], got ",
        shape_text(in.number_per_key));
    check_view(check, "number_per_key", in.number_per_key);
  }
  if (in.q_positions || in.k_positions) {
    // An empty side has no data to give.
    check.require(in.q_positions || Q == 0 || B == 0,
                  "k_positions are given and q_positions are not");
    check.require(in.k_positions || K == 0 || B == 0,
                  "q_positions are given and k_positions are not");
    if (in.q_positions) check_positions(check, "q_positions", in.q_positions, B, Q);
    if (in.k_positions) check_positions(check, "k_positions", in.k_positions, B, K);
  }
}

void check_options(Check& check, const Options& options) {
  constexpr double kLargest = 2.35e38;  // times log2(e) it is a float
  constexpr double kLargestCap = 1e38;  // and its products with gradients
  constexpr double kSteepest = 1e30;    // its products with q and k are floats; tanh is 1 long before
  const double scale = std::abs(options.scale.value_or(0));
  check.require(scale <= kLargest, "scale must be finite in single precision, up to ", kLargest, " in size, got ",
                options.scale.value_or(0));
  check.require(options.softcap == 0 || (options.softcap >= Single::min() && options.softcap <= kLargestCap),
                "softcap must be 0 (none) or positive, normal in single precision, up to 1e+38, got ",
                options.softcap);
  const double steepness = std::abs(options.scale.value_or(1)) / options.softcap;  // the default is smaller
  check.require(!(options.softcap > 0) || !(steepness > kSteepest), "scale / softcap must be at most ", kSteepest,
                ", got ", options.scale.value_or(1), " / ", options.softcap);
}

template <class T>
void check_dropout(Check& check, const Inputs<T>& in, const Dropout& dropout) {
  check.require(dropout.rate >= 0 && dropout.rate < 1,
                "dropout.rate must be from 0 up to but not including 1, got ", dropout.rate);
  check.require(dropout.first_batch >= 0 && dropout.first_batch < kPositionEnd &&
                    dropout.first_head >= 0 && dropout.first_head < kPositionEnd,
                "dropout.first_batch and first_head must be from 0 to 2^31 - 1, got ",
                dropout.first_batch, " and ", dropout.first_head);
  check_tokens(check, "dropout.q_tokens", dropout.q_tokens, in.q.shape[2]);
  check_tokens(check, "dropout.k_tokens", dropout.k_tokens, in.k.shape[2]);
}

template void check_inputs(Check&, const Inputs<float>&);
template void check_inputs(Check&, const Inputs<Bf16>&);
template void check_inputs(Check&, const Inputs<double>&);
template void check_dropout(Check&, const Inputs<float>&, const Dropout&);
template void check_dropout(Check&, const Inputs<Bf16>&, const Dropout&);
template void check_dropout(Check&, const Inputs<double>&, const Dropout&);

}  // namespace locant::attention
