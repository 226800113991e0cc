// A number that knows its magnitude (locant/measure/sized.h), under the name that these tests use.
#pragma once

#include "locant/measure/sized.h"

namespace locant::test {

using measure::Sized;

}  // namespace locant::test
