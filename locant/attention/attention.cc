// The public calls: check, resolve, then the first implementation of a short list that serves the
// call. The scalar twin serves everything and stands last.
#include "locant/attention/attention.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "locant/attention/check.h"
#include "locant/attention/kernel.h"
#include "locant/attention/reference.h"

namespace locant::attention {
namespace {

template <class T>
struct ForwardCall {
  const Inputs<T>& inputs;
  const Terms<T>& terms;
  const Problem& problem;
  const Outputs<T>& outputs;
  Workspace& workspace;
  Executor& executor;
};

template <class T>
struct BackwardCall {
  const Inputs<T>& inputs;
  const Terms<T>& terms;
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

// LOCANT_ISA=scalar asks for the twin; a machine without vector units gets the kernel's portable
// body.
bool twin_is_asked_for() {
  static const bool asked = [] {
    const char* wish = std::getenv("LOCANT_ISA");
    return wish && std::string_view(wish) == "scalar";
  }();
  return asked;
}

KernelCall kernel_call(const Inputs<float>& inputs, const Terms<float>& terms,
                       const Problem& problem) {
  KernelCall call;
  call.inputs = inputs;
  call.inputs.q_positions = problem.q_positions;
  call.inputs.k_positions = problem.k_positions;
  call.terms = &terms;
  call.causal = problem.options.causal;
  call.window = problem.options.window;
  call.scale = problem.scale;
  call.softcap = problem.options.softcap;
  return call;
}

constexpr Implementation<float> kFast{
    "kernel", [](const Problem&) { return !twin_is_asked_for(); },
    [](const ForwardCall<float>& call) {
      kernel_forward(kernel_call(call.inputs, call.terms, call.problem), call.outputs,
                     call.workspace, call.executor);
    },
    [](const BackwardCall<float>& call) {
      kernel_backward(kernel_call(call.inputs, call.terms, call.problem), call.outputs,
                      call.out_gradient, call.gradients, call.workspace, call.executor);
    }};

template <class T>
constexpr Implementation<T> kImplementations[] = {kReference<T>};
template <>
constexpr Implementation<float> kImplementations<float>[] = {kFast, kReference<float>};

template <class T>
const Implementation<T>& choose(const Problem& problem) {
  return *std::find_if(std::begin(kImplementations<T>), std::end(kImplementations<T>),
                       [&](const Implementation<T>& one) { return one.serves(problem); });
}

}  // namespace

template <class T>
void forward(const Inputs<T>& inputs, const Terms<T>& terms, const Options& options,
             const Outputs<T>& outputs, Workspace& workspace, Executor& executor) {
  check_forward(inputs, terms, options, outputs);
  const Problem problem = resolve(inputs, terms, options);
  choose<T>(problem).forward({inputs, terms, problem, outputs, workspace, executor});
}

template <class T>
void backward(const Inputs<T>& inputs, const Terms<T>& terms, const Options& options,
              const Outputs<const T>& outputs, View<const T, 4> out_gradient,
              const Gradients<T>& gradients, Workspace& workspace, Executor& executor) {
  check_backward(inputs, terms, options, outputs, out_gradient, gradients);
  const Problem problem = resolve(inputs, terms, options);
  choose<T>(problem).backward(
      {inputs, terms, problem, outputs, out_gradient, gradients, workspace, executor});
}

template void forward(const Inputs<float>&, const Terms<float>&, const Options&,
                      const Outputs<float>&, Workspace&, Executor&);
template void forward(const Inputs<double>&, const Terms<double>&, const Options&,
                      const Outputs<double>&, Workspace&, Executor&);
template void backward(const Inputs<float>&, const Terms<float>&, const Options&,
                       const Outputs<const float>&, View<const float, 4>, const Gradients<float>&,
                       Workspace&, Executor&);
template void backward(const Inputs<double>&, const Terms<double>&, const Options&,
                       const Outputs<const double>&, View<const double, 4>,
                       const Gradients<double>&, Workspace&, Executor&);

}  // namespace locant::attention
