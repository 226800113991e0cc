// The public edge: what a call must satisfy. Below it nothing is checked again (problem.h).
#pragma once

#include "locant/attention/attention.h"

namespace locant::attention {

// Throw std::invalid_argument with every reason at once. T: float, Bf16, double.
template <class T>
void check_forward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
                   const Outputs<T>& outputs);
template <class T>
void check_backward(const Inputs<T>& inputs, const Terms<Real<T>>& terms, const Options& options,
                    const Outputs<const T>& outputs, View<const T, 4> out_gradient,
                    const Gradients<T>& gradients);

}  // namespace locant::attention
