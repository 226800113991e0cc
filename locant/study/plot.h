// Line plots as SVG, drawn by gnuplot. Without gnuplot there is no plot but a reason.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace locant::study {

struct Line {
  std::string title;
  std::vector<std::pair<double, double>> points;  // not finite: a gap
  bool dashed = false;
  int colour = -1;  // number of a colour, the same in several plots; -1: by the order of the lines
};

struct Plot {
  std::string x_label, y_label;
  std::vector<Line> lines;
  bool log2_x = false;
  std::vector<std::pair<double, std::string>> x_ticks;  // position, label; empty: automatic
  double y_low = 0, y_high = 0;                         // equal: automatic
  int width = 900, height = 520;                        // with two lines of legend; more make it higher
};

struct Drawing {
  std::string svg;     // empty if it could not be drawn,
  std::string reason;  // and then why
};
// A gnuplot that takes longer than `seconds` is ended.
Drawing draw(const Plot& plot, double seconds = 60);

}  // namespace locant::study
