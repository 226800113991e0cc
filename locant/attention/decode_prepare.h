// From a checked decode call to the plan that the kernels read.
#pragma once

#include "locant/attention/decode.h"
#include "locant/attention/decode_plan.h"
#include "locant/attention/prepare.h"

namespace locant::attention {

// T: float or Bf16. The products of query rows are allocated and still empty: the kernel fills them.
template <class T>
DecodePlan prepare_decode(const DecodeInputs<T>& inputs, const Terms<float>& terms,
                          const Options& options, const DecodeSet& set, Arrays& arrays,
                          Executor& executor);

}  // namespace locant::attention
