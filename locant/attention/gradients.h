// Sums the gradients that the units of work of a backward pass left, in a fixed order, into the
// caller's containers.
#pragma once

#include "locant/attention/kernel.h"
#include "locant/attention/prepare.h"

namespace locant::attention {

// The gradients that are tables or numbers: floats whatever the inputs are. Empty, null: not wanted.
struct TableGradients {
  View<float, 3> number_per_key;
  Terms<float>* terms = nullptr;
};

// Allocates and clears what the units add to.
void open_gradients(Plan& plan, const TableGradients& gradients, Arrays& arrays);

// After all units are done.
void sum_gradients(const Plan& plan, const TableGradients& gradients, Executor& executor);

}  // namespace locant::attention
