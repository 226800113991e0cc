// Attention with positions: softmax(scale q.k + terms) v, forward and backward, over views.
//
// Order of operations: (q.k + content bias + scaled terms) * scale -> softcap -> unscaled terms ->
// number per key -> mask -> softmax -> dropout -> p.v + value rows. The mask keeps key j for query i when, with
// positions p: p_j <= p_i (causal), p_i - left <= p_j <= p_i + right (window). A query whose keys
// are all masked gives zeros, an lse of -inf and zero gradients.
//
// Memory beyond the arguments is O((Q + K) D) + O(threads * tile) + O(tables): nothing is n x n.
// Results are the same to the last bit for any number of threads of the executor.
// Functions are thread-safe as long as workspaces, executors and outputs are not shared.
// Errors: std::invalid_argument, naming all that is wrong with shapes, strides, options, positions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "locant/attention/dropout.h"
#include "locant/base/bf16.h"
#include "locant/base/executor.h"
#include "locant/base/view.h"
#include "locant/position/terms.h"

namespace locant::attention {

// Inputs. T is float or Bf16 (base/bf16.h); double runs in the scalar twin. What is no q, k, v, out
// or gradient of these is of Real<T>: float for Bf16, and so are all sums; results in bf16 are rounded
// once, to the nearest. The last stride of q, k, v must be 1.
// Hk divides H: query head h reads key head h / (H / Hk). Q, K or B may be 0.
template <class T>
struct Inputs {
  View<const T, 4> q;  // [B, H, Q, D]
  View<const T, 4> k;  // [B, Hk, K, D]
  View<const T, 4> v;  // [B, Hk, K, Dv]
  // [B or 1, H or 1, K]: added to the scores of a key, outside the scale; -inf masks it (padding),
  // and then the key's k and v may hold anything, NaN included. Optional.
  View<const Real<T>, 3> number_per_key;
  // Token positions, each in [0, 2^31). [B or 1, Q] and [B or 1, K]; both or none. Without them keys
  // stand at 0 .. K-1 and queries at K-Q .. K-1 (or from 0 when Q > K).
  View<const int64_t, 2> q_positions, k_positions;
  // Packed sequences of different lengths: [S + 1] each, both or none, from 0 up to the lengths of q and
  // k. Then B is 1, and sequence s is queries cu_seqlens_q[s] .. cu_seqlens_q[s + 1] and keys likewise,
  // a batch element of its own: it sees its own keys only, and default positions start again in it.
  // A sequence may be empty. Explicit positions are [1, Q] and [1, K].
  View<const int64_t, 1> cu_seqlens_q{}, cu_seqlens_k{};
};

// Keys kept around a query: left <= kept <= right in positions; negative means unlimited.
// "w keys including the query's own, causal" is {w - 1, 0}.
struct Window {
  int64_t left = -1, right = -1;
};

struct Options {
  bool causal = false;
  Window window;
  std::optional<double> scale;  // default 1/sqrt(D); multiplied by Terms::scale_factor
  double softcap = 0;           // c tanh(score / c) when > 0
  Dropout dropout{};            // of the probabilities; backward takes the forward's
};

template <class T>
struct Outputs {
  View<T, 4> out;  // [B, H, Q, Dv], last stride 1; must not overlap an input
  // [B, H, Q] log of the sum of exp of the scores (natural). Backward needs it; forward goes without.
  View<Real<T>, 3> lse;
};

// Gradients of a sum over out * out_gradient. Each is overwritten; an empty view or null is skipped.
// They must not overlap one another or anything that is read, element by element: slices of one
// packed array are fine.
template <class T>
struct Gradients {
  View<T, 4> q, k, v;               // shapes of the inputs; grouped heads are summed
  View<Real<T>, 3> number_per_key;  // shape of the input
  Terms<Real<T>>* terms = nullptr;  // made by zeros_like(terms); its tables are overwritten
};

// Scratch memory that calls reuse. One per thread of callers.
class Workspace {
 public:
  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;
  // Bytes of 64-byte aligned scratch number `slot`, kept until asked for more.
  void* reserve(int slot, size_t bytes);
  size_t bytes() const;  // held now, all slots together

 private:
  struct State;
  std::unique_ptr<State> state_;
};

template <class T>
void forward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
             const Outputs<T>& outputs, Workspace& workspace, Executor& executor);

// `outputs` are the forward's results, unchanged. out_gradient: [B, H, Q, Dv], last stride 1.
template <class T>
void backward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
              const Outputs<const T>& outputs, View<const T, 4> out_gradient,
              const Gradients<T>& gradients, Workspace& workspace, Executor& executor);

// The smallest and largest distance j - i of a call and its length (largest position + 1): what a
// scheme needs to know of a call before it can answer (position/scheme.h).
struct Span {
  int64_t first_distance = 0, last_distance = 0, length = 0;
};
template <class T>
Span span_of(const Inputs<T>& inputs, const Options& options);

}  // namespace locant::attention
