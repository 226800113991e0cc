// The report: one self-contained HTML page made from records alone. No network, no scripts.
#pragma once

#include <string>
#include <vector>

#include "locant/study/plot.h"
#include "locant/study/record.h"

namespace locant::study {

// The page. `source` says where the records came from. Without gnuplot it has tables and says why
// there are no plots.
std::string report_html(const std::vector<Record>& records, const std::string& source);

// The picture of loss against length in protocol (i), of the first comparison among the records.
Drawing length_picture(const std::vector<Record>& records);

// Writes it atomically.
void write_report(const std::string& path, const std::vector<Record>& records,
                  const std::string& source);

}  // namespace locant::study
