// The report: one self-contained HTML page made from records alone. No network, no scripts.
#pragma once

#include <string>
#include <vector>

#include "locant/study/record.h"

namespace locant::study {

// The page. `source` says where the records came from. Without gnuplot it has tables and says why
// there are no plots.
std::string report_html(const std::vector<Record>& records, const std::string& source);

// Writes it atomically.
void write_report(const std::string& path, const std::vector<Record>& records,
                  const std::string& source);

}  // namespace locant::study
