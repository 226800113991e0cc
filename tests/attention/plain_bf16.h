// A plain bf16 computation as a number type (locant/measure/plain_bf16.h), under the name that these tests use.
#pragma once

#include "locant/measure/plain_bf16.h"

namespace locant::test {

using Plain = measure::PlainBf16;

}  // namespace locant::test
