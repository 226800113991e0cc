// What is asked of a call's arrays and options: q, k, v, positions, packed lengths, numbers of keys, dropout.
#pragma once

#include "locant/attention/attention.h"
#include "locant/base/check.h"

namespace locant::attention {

// Add what is wrong. T: float, Bf16, double.
template <class T>
void check_inputs(Check& check, const Inputs<T>& inputs);
void check_options(Check& check, const Options& options);
template <class T>
void check_dropout(Check& check, const Inputs<T>& inputs, const Dropout& dropout);

}  // namespace locant::attention
