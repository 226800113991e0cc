// See check.h.
#include "locant/attention/check.h"

#include <array>
#include <vector>

#include "locant/attention/check_inputs.h"
#include "locant/attention/check_terms.h"
#include "locant/attention/check_views.h"

namespace locant::attention {
namespace {

template <class T>
std::vector<NamedExtent> read_views(const Inputs<T>& in, const Options& options) {
  std::vector<NamedExtent> read;
  add_extent(read, "q", in.q);
  add_extent(read, "k", in.k);
  add_extent(read, "v", in.v);
  add_extent(read, "number_per_key", in.number_per_key);
  add_extent(read, "q_positions", in.q_positions);
  add_extent(read, "k_positions", in.k_positions);
  add_extent(read, "cu_seqlens_q", in.cu_seqlens_q);
  add_extent(read, "cu_seqlens_k", in.cu_seqlens_k);
  add_extent(read, "dropout.q_tokens", options.dropout.q_tokens);
  add_extent(read, "dropout.k_tokens", options.dropout.k_tokens);
  return read;
}

}  // namespace

template <class T>
void check_forward(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
                   const Outputs<T>& outputs) {
  Check check("attention forward");
  check_inputs(check, in);
  check_options(check, options);
  check_dropout(check, in, options.dropout);
  check_terms(check, in.q.shape[1], in.q.shape[3], in.v.shape[3], terms);
  const auto [B, H, Q, D] = in.q.shape;
  check_shape(check, "out", outputs.out, {B, H, Q, in.v.shape[3]});
  check_written(check, "out", outputs.out);
  if (outputs.lse) {
    check_shape(check, "lse", outputs.lse, {B, H, Q});
    check_written(check, "lse", outputs.lse);
  }
  if (check.ok()) {
    std::vector<NamedExtent> written;
    add_extent(written, "out", outputs.out);
    add_extent(written, "lse", outputs.lse);
    check_apart(check, written, read_views(in, options));
  }
  check.done();
}

template <class T>
void check_backward(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
                    const Outputs<const T>& outputs, View<const T, 4> out_gradient,
                    const Gradients<T>& gradients) {
  Check check("attention backward");
  check_inputs(check, in);
  check_options(check, options);
  check_dropout(check, in, options.dropout);
  check_terms(check, in.q.shape[1], in.q.shape[3], in.v.shape[3], terms);
  const auto [B, H, Q, D] = in.q.shape;
  const std::array<int64_t, 4> out_shape{B, H, Q, in.v.shape[3]};
  check_shape(check, "out", outputs.out, out_shape);
  check_view(check, "out", outputs.out);
  check_shape(check, "lse", outputs.lse, {B, H, Q});
  check_view(check, "lse", outputs.lse);
  check_shape(check, "out_gradient", out_gradient, out_shape);
  check_view(check, "out_gradient", out_gradient);
  const auto check_gradient = [&](const char* name, const auto& gradient, const auto& input) {
    if (!gradient) return;
    check_shape(check, name, gradient, input.shape);
    check_written(check, name, gradient);
  };
  check_gradient("the gradient of q", gradients.q, in.q);
  check_gradient("the gradient of k", gradients.k, in.k);
  check_gradient("the gradient of v", gradients.v, in.v);
  if (check.require(!gradients.number_per_key || in.number_per_key,
                    "a gradient of number_per_key is asked for and none is given")) {
    check_gradient("the gradient of number_per_key", gradients.number_per_key, in.number_per_key);
  }
  if (gradients.terms) check_terms_gradient(check, terms, *gradients.terms);
  if (check.ok()) {
    std::vector<NamedExtent> read = read_views(in, options), written;
    add_extent(read, "out", outputs.out);
    add_extent(read, "lse", outputs.lse);
    add_extent(read, "out_gradient", out_gradient);
    add_extent(written, "the gradient of q", gradients.q);
    add_extent(written, "the gradient of k", gradients.k);
    add_extent(written, "the gradient of v", gradients.v);
    add_extent(written, "the gradient of number_per_key", gradients.number_per_key);
    check_apart(check, written, read);
  }
  check.done();
}

template void check_forward(const Inputs<float>&, const Terms<float>&, const Options&,
                            const Outputs<float>&);
template void check_forward(const Inputs<Bf16>&, const Terms<float>&, const Options&,
                            const Outputs<Bf16>&);
template void check_forward(const Inputs<double>&, const Terms<double>&, const Options&,
                            const Outputs<double>&);
template void check_backward(const Inputs<float>&, const Terms<float>&, const Options&,
                             const Outputs<const float>&, View<const float, 4>,
                             const Gradients<float>&);
template void check_backward(const Inputs<Bf16>&, const Terms<float>&, const Options&,
                             const Outputs<const Bf16>&, View<const Bf16, 4>,
                             const Gradients<Bf16>&);
template void check_backward(const Inputs<double>&, const Terms<double>&, const Options&,
                             const Outputs<const double>&, View<const double, 4>,
                             const Gradients<double>&);

}  // namespace locant::attention
