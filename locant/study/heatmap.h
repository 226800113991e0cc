// A matrix as an SVG picture: one square a pair (query down, key across), blue below zero, red above.
//
// Matrices of distances have equal diagonals: their rows are drawn as one strip, shifted; other matrices
// as runs of one colour. Either way a picture of 256 x 256 pairs takes kilobytes.
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

// Panels beside each other, `across` in a row, under one title line each, with one common scale written
// below.
std::string heatmap_svg(const std::vector<Matrix>& panels, const std::string& caption, int64_t across = 4);

}  // namespace locant::study
