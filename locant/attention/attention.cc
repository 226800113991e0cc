// The public calls: check, resolve, then the first implementation of a short list that serves the
// call. The scalar twin serves everything and stands last.
#include "locant/attention/attention.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "locant/attention/check.h"
#include "locant/attention/kernel.h"
#include "locant/attention/reference.h"

namespace locant::attention {

bool twin_is_asked_for() {
  static const bool asked = [] {
    const char* wish = std::getenv("LOCANT_ISA");
    return wish && std::string_view(wish) == "scalar";
  }();
  return asked;
}

namespace {

template <class T>
struct ForwardCall {
  const Inputs<T>& inputs;
  const Terms<Real<T>>& terms;
  const Problem& problem;
  const Outputs<T>& outputs;
  Workspace& workspace;
  Executor& executor;
};

template <class T>
struct BackwardCall {
  const Inputs<T>& inputs;
  const Terms<Real<T>>& terms;
  const Problem& problem;
  const Outputs<const T>& outputs;
  View<const T, 4> out_gradient;
  const Gradients<T>& gradients;
  Workspace& workspace;
  Executor& executor;
};

// One way of computing attention. serves() must not depend on threads: results do not.
template <class T>
struct Implementation {
  const char* name;
  bool (*serves)(const Problem&);
  void (*forward)(const ForwardCall<T>&);
  void (*backward)(const BackwardCall<T>&);
};

template <class T>
constexpr Implementation<T> kReference{
    "reference", [](const Problem&) { return true; },
    [](const ForwardCall<T>& call) {
      reference::Twin<T>(call.inputs, call.terms, call.problem).forward(call.outputs);
    },
    [](const BackwardCall<T>& call) {
      reference::Twin<T>(call.inputs, call.terms, call.problem)
          .backward(call.outputs, call.out_gradient, call.gradients);
    }};

// bf16: the twin in float on copies, rounded once at the end.
struct Widened {
  std::vector<float> numbers;
  View<float, 4> view;
  explicit Widened(const std::array<int64_t, 4>& shape) {
    view = View<float, 4>(nullptr, shape);
    numbers.resize(static_cast<size_t>(view.size()));
    view.data = numbers.data();
  }
  Widened(const Widened&) = delete;
  explicit Widened(const View<const Bf16, 4>& from) : Widened(from.shape) {
    each([&](float& x, auto... at) { x = to_float(from(at...)); });
  }
  void round_to(const View<Bf16, 4>& to) {
    if (to) each([&](float x, auto... at) { to(at...) = to_bf16(x); });
  }
  template <class F>
  void each(F f) {
    size_t n = 0;
    for (int64_t b = 0; b < view.shape[0]; ++b) {
      for (int64_t h = 0; h < view.shape[1]; ++h) {
        for (int64_t r = 0; r < view.shape[2]; ++r) {
          for (int64_t c = 0; c < view.shape[3]; ++c) f(numbers[n++], b, h, r, c);
        }
      }
    }
  }
};

struct WidenedInputs {
  Widened q, k, v;
  Inputs<float> inputs;
  explicit WidenedInputs(const Inputs<Bf16>& in) : q(in.q), k(in.k), v(in.v) {
    inputs.q = q.view, inputs.k = k.view, inputs.v = v.view;
    inputs.number_per_key = in.number_per_key;
    inputs.q_positions = in.q_positions, inputs.k_positions = in.k_positions;
    inputs.cu_seqlens_q = in.cu_seqlens_q, inputs.cu_seqlens_k = in.cu_seqlens_k;
  }
};

template <>
constexpr Implementation<Bf16> kReference<Bf16>{
    "reference", [](const Problem&) { return true; },
    [](const ForwardCall<Bf16>& call) {
      const WidenedInputs in(call.inputs);
      Widened out(call.outputs.out.shape);
      reference::Twin<float>(in.inputs, call.terms, call.problem).forward({out.view, call.outputs.lse});
      out.round_to(call.outputs.out);
    },
    [](const BackwardCall<Bf16>& call) {
      const WidenedInputs in(call.inputs);
      const Widened out(call.outputs.out), dout(call.out_gradient);
      Widened dq(call.inputs.q.shape), dk(call.inputs.k.shape), dv(call.inputs.v.shape);
      reference::Twin<float>(in.inputs, call.terms, call.problem)
          .backward({out.view, call.outputs.lse}, dout.view,
                    {dq.view, dk.view, dv.view, call.gradients.number_per_key, call.gradients.terms});
      dq.round_to(call.gradients.q);
      dk.round_to(call.gradients.k);
      dv.round_to(call.gradients.v);
    }};

template <class T>
KernelCall<T> kernel_call(const Inputs<T>& inputs, const Terms<float>& terms, const Problem& problem) {
  KernelCall<T> call;
  call.inputs = inputs;
  call.inputs.q_positions = problem.q_positions;
  call.inputs.k_positions = problem.k_positions;
  if (problem.packed()) {
    call.q_start = problem.q_starts.data();
    call.k_start = problem.k_starts.data();
    call.sequences = problem.B;
  }
  call.terms = &terms;
  call.causal = problem.options.causal;
  call.window = problem.options.window;
  call.scale = problem.scale;
  call.softcap = problem.options.softcap;
  call.dropout = problem.options.dropout;
  return call;
}

template <class T>
constexpr Implementation<T> kFast{
    "kernel", [](const Problem&) { return !twin_is_asked_for(); },
    [](const ForwardCall<T>& call) {
      kernel_forward(kernel_call(call.inputs, call.terms, call.problem), call.outputs,
                     call.workspace, call.executor);
    },
    [](const BackwardCall<T>& call) {
      kernel_backward(kernel_call(call.inputs, call.terms, call.problem), call.outputs,
                      call.out_gradient, call.gradients, call.workspace, call.executor);
    }};

template <class T>
constexpr Implementation<T> kImplementations[] = {kReference<T>};
template <>
constexpr Implementation<float> kImplementations<float>[] = {kFast<float>, kReference<float>};
template <>
constexpr Implementation<Bf16> kImplementations<Bf16>[] = {kFast<Bf16>, kReference<Bf16>};

template <class T>
const Implementation<T>& choose(const Problem& problem) {
  return *std::find_if(std::begin(kImplementations<T>), std::end(kImplementations<T>),
                       [&](const Implementation<T>& one) { return one.serves(problem); });
}

}  // namespace

template <class T>
void forward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
             const Outputs<T>& outputs, Workspace& workspace, Executor& executor) {
  check_forward(inputs, terms, options, outputs);
  const Problem problem = resolve(inputs, terms, options);
  choose<T>(problem).forward({inputs, terms, problem, outputs, workspace, executor});
}

template <class T>
void backward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
              const Outputs<const T>& outputs, View<const T, 4> out_gradient,
              const Gradients<T>& gradients, Workspace& workspace, Executor& executor) {
  check_backward(inputs, terms, options, outputs, out_gradient, gradients);
  const Problem problem = resolve(inputs, terms, options);
  choose<T>(problem).backward(
      {inputs, terms, problem, outputs, out_gradient, gradients, workspace, executor});
}

template void forward(const Inputs<float>&, const Terms<float>&, const Options&,
                      const Outputs<float>&, Workspace&, Executor&);
template void forward(const Inputs<Bf16>&, const Terms<float>&, const Options&, const Outputs<Bf16>&,
                      Workspace&, Executor&);
template void forward(const Inputs<double>&, const Terms<double>&, const Options&,
                      const Outputs<double>&, Workspace&, Executor&);
template void backward(const Inputs<float>&, const Terms<float>&, const Options&,
                       const Outputs<const float>&, View<const float, 4>, const Gradients<float>&,
                       Workspace&, Executor&);
template void backward(const Inputs<Bf16>&, const Terms<float>&, const Options&,
                       const Outputs<const Bf16>&, View<const Bf16, 4>, const Gradients<Bf16>&,
                       Workspace&, Executor&);
template void backward(const Inputs<double>&, const Terms<double>&, const Options&,
                       const Outputs<const double>&, View<const double, 4>,
                       const Gradients<double>&, Workspace&, Executor&);

}  // namespace locant::attention
