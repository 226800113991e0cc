#include "locant/study/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "locant/position/options.h"
#include "locant/position/registry.h"
#include "locant/study/comparison.h"
#include "locant/study/summary.h"

namespace locant::study {
namespace {

// What a comparison makes of `text` in this record's task; empty where it makes nothing.
std::string fitted_as_in(const Record& record, const std::string& text) {
  const Settings& s = record.settings;
  try {
    return fitted_specification(text, record.is_task() ? s.sequence : s.train_length, ModelConfig().initial_deviation);
  } catch (const std::invalid_argument&) {
    return {};
  }
}

std::string written(const ParsedSpecification& parsed) {
  std::vector<std::string> options;
  for (const auto& [name, value] : parsed.options) options.push_back(name + "=" + value);
  return options.empty() ? parsed.name : fmt::format("{}({})", parsed.name, fmt::join(options, ","));
}

}  // namespace

std::string shortest_specification(const Record& record) {
  const std::string full = specification(*make_scheme(record.scheme), true);
  ParsedSpecification shortest = parse_specification(full);
  for (size_t n = 0; n < shortest.options.size();) {
    ParsedSpecification shorter = shortest;
    shorter.options.erase(shorter.options.begin() + static_cast<std::ptrdiff_t>(n));
    if (fitted_as_in(record, written(shorter)) == full) {
      shortest = shorter;
    } else {
      ++n;
    }
  }
  return written(shortest);
}

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
    const std::string own = fitted_as_in(first, first.name);
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
