// The version of the library, from the build.
#pragma once

#include <string>

namespace locant::study {
std::string version();
}  // namespace locant::study
