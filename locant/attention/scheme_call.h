// From an attention call to what a scheme is asked about (position/scheme.h): the two meet here only.
#pragma once

#include "locant/attention/attention.h"
#include "locant/position/scheme.h"

namespace locant::attention {

// The scheme's view of a call: heads, head sizes, distances and length are the call's own. `sizes`
// gives what the call cannot know (layers, width of the embeddings). Throws like span_of.
template <class T>
Call call_of(const Inputs<T>& inputs, const Options& options, Sizes sizes = {}, int layer = 0) {
  const Span span = span_of(inputs, options);
  sizes.heads = inputs.q.shape[1];
  sizes.head_size = inputs.q.shape[3];
  sizes.value_size = inputs.v.shape[3];
  Call call;
  call.sizes = sizes;
  call.layer = layer;
  call.causal = options.causal;
  call.first_distance = span.first_distance;
  call.last_distance = span.last_distance;
  call.length = span.length;
  return call;
}

}  // namespace locant::attention
