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

template <class T, class From>
Results<T> twin_of(const Arrays<From>& from) {
  return run_twin(cast_arrays<T>(from));
}

// A hook rounds, too: what it multiplies gradients by, which may cancel inside of it. Then the error is that of
// a number as large as its largest.
void even_out_hooks(Results<Sized>& want) {
  double largest = 0;
  for (const Sized& x : want.dterms.hook_gradient) largest = std::max(largest, x.size);
  for (Sized& x : want.dterms.hook_gradient) x.size = largest;
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
  even_out_hooks(want);
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
  even_out_hooks(want);
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
