// A matrix as an SVG picture: one square a pair (query down, key across), blue below zero, red above.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locant::study {

struct Matrix {
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows][columns]; not finite: masked, drawn grey
};

// Panels beside each other under one title line each, with one common scale written below.
std::string heatmap_svg(const std::vector<Matrix>& panels, const std::string& caption);

}  // namespace locant::study
