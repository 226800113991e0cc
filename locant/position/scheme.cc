// What all schemes share: lowering in the order of the five questions, names, counts.
#include "locant/position/scheme.h"

#include "locant/base/check.h"

namespace locant {

template <class T>
T* ParameterViews<T>::operator[](std::string_view name) const {
  for (const Named& view : views_) {
    if (view.name == name) return view.data;
  }
  std::string known;
  for (const Named& view : views_) known += (known.empty() ? "" : ", ") + view.name;
  fail("parameters", "no array named ", name, "; there are: ", known.empty() ? "none" : known);
}
template class ParameterViews<const double>;
template class ParameterViews<double>;

Terms<double> lower(const Scheme& scheme, const Call& call, const Parameters& parameters) {
  if (call.cross) return {};
  scheme.check(call);
  Terms<double> terms;
  terms.rotation = scheme.turn(call);
  scheme.score(call, parameters, terms);
  scheme.value(call, parameters, terms);
  return terms;
}

void lower_backward(const Scheme& scheme, const Call& call, const Parameters& parameters,
                    const Terms<double>& gradient, ParameterGradients& gradients) {
  if (call.cross) return;
  scheme.value_backward(call, parameters, gradient, gradients);
  scheme.score_backward(call, parameters, gradient, gradients);
}

int64_t parameter_count(const Scheme& scheme, const Sizes& sizes) {
  int64_t count = 0;
  for (const ParameterSpec& spec : scheme.learn(sizes)) {
    count += spec.size() * (spec.per_layer ? sizes.layers : 1);
  }
  return count;
}

}  // namespace locant
