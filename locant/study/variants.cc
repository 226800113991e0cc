#include "locant/study/variants.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "locant/study/comparison.h"
#include "locant/study/summary.h"

namespace locant::study {
namespace {

// Empty where the name is another program's.
std::string protocols_own(const Record& record) {
  const Settings& s = record.settings;
  try {
    return fitted_specification(record.name, record.is_task() ? s.sequence : s.train_length,
                                ModelConfig().initial_deviation);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

}  // namespace

JudgedVariants judged_variants(const std::vector<Record>& records) {
  std::map<std::pair<std::string, std::string>, std::vector<const Record*>> variants;  // [task, name]
  for (const Record& record : records) {
    auto& found = variants[{record.task, record.name}];
    const bool known = std::any_of(found.begin(), found.end(),
                                   [&](const Record* other) { return other->scheme == record.scheme; });
    if (!known) found.push_back(&record);
  }
  JudgedVariants judged;
  std::map<std::pair<std::string, std::string>, std::string> chosen;
  for (const auto& [key, found] : variants) {
    const Record& first = *found.front();
    chosen[key] = first.scheme;
    if (found.size() == 1) continue;
    const std::string own = protocols_own(first);
    if (std::any_of(found.begin(), found.end(), [&](const Record* r) { return r->scheme == own; })) {
      chosen[key] = own;
    } else {
      judged.notes.push_back(first.name + " is judged as " + label_of(first, true));
    }
  }
  for (const Record& record : records) {
    if (chosen.at({record.task, record.name}) == record.scheme) judged.records.push_back(&record);
  }
  return judged;
}

}  // namespace locant::study
