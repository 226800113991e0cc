// See merge.h. With lse = log of the sum s of exp of the scores and out = (sum of exp v) / s:
//   lse = log(s_a + s_b),   out = (s_a out_a + s_b out_b) / (s_a + s_b),
// where the s are taken relative to the larger one, so that nothing overflows.
#include "locant/attention/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "locant/attention/overlap.h"
#include "locant/base/check.h"

namespace locant::attention {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr int64_t kRows = 64;  // of a head that one task takes

template <class T, int N>
bool same_view(const View<const T, N>& a, const View<T, N>& b) {
  return a.data == b.data && a.stride == b.stride;
}

// Not the same numbers, and yet some in common.
template <class T, int N>
bool half_overlap(const View<const T, N>& a, const View<T, N>& b) {
  if (a.size() == 0 || b.size() == 0 || same_view(a, b)) return false;
  return overlap(extent_of(a), extent_of(b));
}

template <class T>
void check_merge(const Outputs<const T>& a, const Outputs<const T>& b, const Outputs<T>& outputs) {
  Check check("attention merge");
  const auto [B, H, Q, Dv] = a.out.shape;
  const auto look_at = [&, B = B, H = H, Q = Q](const char* name, const auto& o) {
    check.require(o.out.shape == a.out.shape, name, ".out must have the shape of a.out, ",
                  shape_text(a.out), ", got ", shape_text(o.out));
    check.require(o.lse.shape == std::array<int64_t, 3>{B, H, Q}, name, ".lse must be [", B, ", ", H,
                  ", ", Q, "] like a.out, got ", shape_text(o.lse));
    check.require(o.out.data || o.out.size() == 0, name, ".out is not given");
    check.require(o.lse.data || o.lse.size() == 0, name, ".lse is not given");
    check.require(o.out.shape[3] <= 1 || o.out.stride[3] == 1, name,
                  ".out must have last stride 1, got ", o.out.stride[3]);
  };
  look_at("a", a);
  look_at("b", b);
  look_at("outputs", outputs);
  if (check.ok()) {
    for (const auto& [name, one] : {std::pair("a", &a), {"b", &b}}) {
      check.require(!half_overlap(one->out, outputs.out), "outputs.out overlaps ", name,
                    ".out and is not the same view");
      check.require(!half_overlap(one->lse, outputs.lse), "outputs.lse overlaps ", name,
                    ".lse and is not the same view");
    }
  }
  check.done();
}

// What each side counts for, and the log of the sum. Weights are 0 where a side saw nothing.
struct Weights {
  double a = 0, b = 0, lse = kNothing;
};
Weights weigh(double lse_a, double lse_b) {
  if (lse_b == kNothing) return {lse_a == kNothing ? 0.0 : 1.0, 0.0, lse_a};
  if (lse_a == kNothing) return {0.0, 1.0, lse_b};
  const double top = lse_a > lse_b ? lse_a : lse_b;  // NaN on either side stays NaN below
  const double a = std::exp(lse_a - top), b = std::exp(lse_b - top), sum = a + b;
  return {a / sum, b / sum, top + std::log(sum)};
}

template <class T>
void merge_row(const Weights& w, const T* a, const T* b, T* out, int64_t n) {
  // A side that saw nothing is not read: 0 * NaN would be NaN.
  if (w.a == 0 && w.b == 0) {
    for (int64_t c = 0; c < n; ++c) out[c] = T(0);
  } else if (w.b == 0) {
    for (int64_t c = 0; c < n; ++c) out[c] = a[c];
  } else if (w.a == 0) {
    for (int64_t c = 0; c < n; ++c) out[c] = b[c];
  } else {
    const T wa = static_cast<T>(w.a), wb = static_cast<T>(w.b);
    for (int64_t c = 0; c < n; ++c) out[c] = wa * a[c] + wb * b[c];
  }
}

}  // namespace

template <class T>
void merge(const Outputs<const T>& a, const Outputs<const T>& b, const Outputs<T>& outputs,
           Executor& executor) {
  check_merge(a, b, outputs);
  const auto [B, H, Q, Dv] = a.out.shape;
  if (B * H * Q == 0) return;
  const int64_t parts = (Q + kRows - 1) / kRows;
  executor.run(B * H * parts, [&, H = H, Q = Q, Dv = Dv](int64_t index, int) {
    const int64_t n = index / (H * parts), h = index / parts % H, first = index % parts * kRows;
    for (int64_t i = first; i < std::min(Q, first + kRows); ++i) {
      const Weights w =
          weigh(static_cast<double>(a.lse(n, h, i)), static_cast<double>(b.lse(n, h, i)));
      const auto row = [&](const auto& view) {
        return view.data + n * view.stride[0] + h * view.stride[1] + i * view.stride[2];
      };
      merge_row<T>(w, row(a.out), row(b.out), row(outputs.out), Dv);
      outputs.lse(n, h, i) = static_cast<T>(w.lse);
    }
  });
}

template void merge(const Outputs<const float>&, const Outputs<const float>&, const Outputs<float>&,
                    Executor&);
template void merge(const Outputs<const double>&, const Outputs<const double>&,
                    const Outputs<double>&, Executor&);

}  // namespace locant::attention
