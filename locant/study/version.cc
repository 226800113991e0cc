#include "locant/study/version.h"

namespace locant::study {
std::string version() { return LOCANT_VERSION; }
}  // namespace locant::study
