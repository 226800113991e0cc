#include "locant/measure/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>

#include "locant/attention/problem.h"
#include "locant/attention/reference.h"
#include "locant/measure/arrays.h"
#include "locant/measure/measure.h"
#include "locant/measure/penalty_hook.h"
#include "locant/measure/plain_bf16.h"
#include "locant/measure/sized.h"
#include "locant/measure/tolerance.h"

namespace locant::measure {
namespace {

template <class T>
Results<T> run_twin(const Arrays<T>& arrays) {
  Results<T> results(arrays);
  const attention::Inputs<T> inputs = arrays.inputs();
  // The facts of a call do not depend on the number type: only on shapes and options.
  attention::Inputs<double> shapes;
  shapes.q.shape = inputs.q.shape, shapes.k.shape = inputs.k.shape, shapes.v.shape = inputs.v.shape;
  shapes.cu_seqlens_q = inputs.cu_seqlens_q, shapes.cu_seqlens_k = inputs.cu_seqlens_k;
  Terms<double> factor;
  factor.scale_factor = arrays.terms.scale_factor;
  const attention::Problem problem = attention::resolve(shapes, factor, arrays.options(false));
  attention::reference::Twin<T> twin(inputs, arrays.terms, problem);
  const attention::Outputs<T> outputs = results.outputs();
  twin.forward(outputs);
  if constexpr (std::is_same_v<T, PlainBf16>) {
    for (T& x : results.lse) x.value = x.exact;
  }
  if (!arrays.shape.backward) return results;
  twin.backward({outputs.out, outputs.lse}, {arrays.out_gradient.data(), outputs.out.shape},
                results.gradients(false));
  return results;
}

// The twin in T for the arrays of a case, whose own hook it replaces by the same thing as a term: what
// a hook learns comes without magnitudes.
template <class T, class From>
Results<T> twin_of(const Arrays<From>& from) {
  Arrays<T> arrays = cast_arrays<T>(from);
  const bool as_term = from.shape.hook && !arrays.terms.number;
  if (as_term) {
    Terms<double> term;
    term.number = static_cast<const PenaltyHook&>(*from.terms.hook).as_term();
    arrays.terms.number = cast<Real<T>>(term).number;
    arrays.terms.hook = nullptr;
  }
  Results<T> results = run_twin(arrays);
  if (as_term && from.shape.backward) {
    results.dterms.hook_gradient = results.dterms.number->left;
    results.dterms.number.reset();
  }
  return results;
}

// What a scheme's hook learns is summed over pairs by the hook itself, in double: the largest of the
// array, and as many roundings as a sum over all pairs has, stand for its magnitudes.
void give_hooks_a_size(Results<Sized>& want) {
  const Case& c = want.shape;
  double largest = 0;
  for (const Sized& x : want.dterms.hook_gradient) largest = std::max(largest, std::fabs(x.value));
  const double roundings = std::sqrt(double(c.b) * double(c.q) * double(c.k)) / double(1 + sum_length(c.q, c.k, c.d));
  for (Sized& x : want.dterms.hook_gradient) x.size = std::max(x.size, (1 + largest) * std::max(1.0, roundings));
}

template <class T>
Results<T> run_fast(const Case& c, const Arrays<T>& arrays) {
  Results<T> results(arrays);
  const std::unique_ptr<Executor> executor = make_executor(c.threads);
  attention::Workspace workspace;
  if (c.decode) {  // the same numbers, in a cache
    const std::unique_ptr<Runnable> call = make_runnable(c);
    call->run(Direction::kForward, false, workspace, *executor);
    results.take(call->out(), call->lse());
    return results;
  }
  run(arrays, results, c.backward ? Direction::kBoth : Direction::kForward, false, workspace, *executor);
  return results;
}

std::vector<Difference> check_float(const Case& c) {
  const Arrays<float> arrays = make_arrays<float>(c);
  Results<float> got = run_fast(c, arrays);
  Results<Sized> want = twin_of<Sized>(arrays);
  give_hooks_a_size(want);
  const double unit = kSafety * double(1 + sum_length(c.q, c.k, c.d)) * kEpsFloat;
  std::vector<Difference> differences;
  each_result(
      [&](const char* name, const auto& got, const auto& want) {
        if (!got.empty()) differences.push_back(worst_of(name, doubles(got), want, unit));
      },
      got, want);
  return differences;
}

// At most twice the error of a plain bf16 computation, and never below the rounding of the result.
std::vector<Difference> check_bf16(const Case& c) {
  const Arrays<Bf16> arrays = make_arrays<Bf16>(c);
  Results<Bf16> got = run_fast(c, arrays);
  Results<Sized> want = twin_of<Sized>(arrays);
  give_hooks_a_size(want);
  Results<PlainBf16> plain = twin_of<PlainBf16>(arrays);
  std::vector<Difference> differences;
  each_result(
      [&](const char* name, const auto& got, const auto& want, const auto& plain) {
        if (got.empty()) return;
        const double error = worst_of(name, doubles(plain), want, 1).ratio;
        differences.push_back(worst_of(name, doubles(got), want, 2 * std::max(error, kEpsBf16 / 2)));
      },
      got, want, plain);
  return differences;
}

}  // namespace

double check_cost(const Case& c) {
  Case all = c;
  all.forward = true;
  return all.flops() / 2;
}

Difference worst_of(const std::string& name, const std::vector<double>& got, const std::vector<Sized>& want,
                    double unit) {
  Difference worst{name, 0, 0, 0};
  for (size_t n = 0; n < got.size(); ++n) {
    if (got[n] == want[n].value) continue;
    const double error = std::fabs(got[n] - want[n].value), allowed = unit * want[n].size;
    // Nothing is close to NaN.
    const double ratio = std::isnan(error) ? std::numeric_limits<double>::infinity() : error / allowed;
    if (!(ratio <= worst.ratio)) worst = {name, error, allowed, ratio};
  }
  return worst;
}

std::vector<Difference> check(const Case& c) {
  const UsingSet set(c);
  return c.bf16 ? check_bf16(c) : check_float(c);
}

}  // namespace locant::measure
