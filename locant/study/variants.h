// Which variant of a scheme a claim is judged on: claims name schemes, records hold their options.
#pragma once

#include <string>
#include <vector>

#include "locant/study/record.h"

namespace locant::study {

// The fewest options from which a comparison, which fits the others to the training length, makes this record's
// scheme: the same for a scheme in every task, as in t5(buckets=16).
std::string shortest_specification(const Record& record);

struct JudgedVariants {
  std::vector<const Record*> records;  // of one variant of every scheme in every task, in their order
  // Where several stood there and none was the protocol's: "rope is judged as rope(base=500)".
  std::vector<std::string> notes;
};

// Of several variants in a task: the protocol's, which a comparison makes of the bare name, else the first.
JudgedVariants judged_variants(const std::vector<Record>& records);

}  // namespace locant::study
