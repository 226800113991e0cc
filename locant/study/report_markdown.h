// The tables of a report as Markdown, for a page that is kept beside its records.
#pragma once

#include <string>
#include <vector>

#include "locant/study/record.h"

namespace locant::study {

// `files`: names of the files of records, which stand beside the page. Nothing in it depends on when or where
// it is made.
std::string report_markdown(const std::vector<Record>& records, const std::vector<std::string>& files);

}  // namespace locant::study
