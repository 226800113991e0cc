#pragma once

// The toy problem of tests/golden/toy.h as an attention call of the oracle.

#include "tests/golden/toy.h"
#include "tests/oracle/attention.h"

namespace locant::oracle {

inline Attention toy() {
  Attention a;
  a.q = matrix(golden::kToyQ);
  a.k = matrix(golden::kToyK);
  a.v = matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  return a;
}

inline Attention causal_toy() {
  Attention a = toy();
  a.causal = true;
  return a;
}

}  // namespace locant::oracle
