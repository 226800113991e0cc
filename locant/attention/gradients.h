// Sums the gradients that the units of work of a backward pass left, in a fixed order, into the
// caller's containers.
#pragma once

#include "locant/attention/kernel.h"
#include "locant/attention/prepare.h"

namespace locant::attention {

// Allocates and clears what the units add to.
void open_gradients(Plan& plan, const Gradients<float>& gradients, Arrays& arrays);

// After all units are done.
void sum_gradients(const Plan& plan, const Gradients<float>& gradients, Executor& executor);

}  // namespace locant::attention
