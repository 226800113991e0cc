#include "locant/study/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "locant/study/report_page.h"

namespace locant::study {
namespace {

// White at zero, to blue (-1) and red (+1).
std::string colour(double share) {
  if (!std::isfinite(share)) return "#c8c8c8";
  const double x = std::clamp(std::fabs(share), 0.0, 1.0);
  const auto mix = [x](int end) { return int(std::lround(255 + x * (end - 255))); };
  return share < 0 ? fmt::format("#{:02x}{:02x}{:02x}", mix(33), mix(102), mix(172))
                   : fmt::format("#{:02x}{:02x}{:02x}", mix(178), mix(24), mix(43));
}

// One row of squares from column 0 on, as runs of one colour.
std::string runs(const std::vector<std::string>& colours) {
  std::string svg;
  for (size_t begin = 0; begin < colours.size();) {
    size_t end = begin + 1;
    while (end < colours.size() && colours[end] == colours[begin]) ++end;
    svg += fmt::format("<rect x=\"{}\" width=\"{}\" height=\"1\" fill=\"{}\"/>", begin, end - begin, colours[begin]);
    begin = end;
  }
  return svg;
}

// The squares of a matrix, each one unit wide.
std::string squares(const Matrix& m, double largest, size_t number) {
  std::vector<std::string> colours;
  for (double v : m.values) colours.push_back(colour(largest > 0 ? v / largest : (std::isfinite(v) ? 0 : v)));
  const auto at = [&](int64_t i, int64_t j) -> const std::string& { return colours[static_cast<size_t>(i * m.columns + j)]; };
  bool diagonals = m.rows > 1 && m.columns > 1;
  for (int64_t i = 1; i < m.rows && diagonals; ++i) {
    for (int64_t j = 1; j < m.columns && diagonals; ++j) diagonals = at(i, j) == at(i - 1, j - 1);
  }
  std::string svg;
  if (!diagonals) {
    for (int64_t i = 0; i < m.rows; ++i) {
      const auto row = colours.begin() + i * m.columns;
      svg += fmt::format("<g transform=\"translate(0 {})\">{}</g>", i,
                         runs({row, row + m.columns}));
    }
    return svg;
  }
  // From the left end of the last row, up the first column, along the first row.
  std::vector<std::string> strip;
  for (int64_t i = m.rows - 1; i > 0; --i) strip.push_back(at(i, 0));
  for (int64_t j = 0; j < m.columns; ++j) strip.push_back(at(0, j));
  svg = fmt::format("<defs><g id=\"strip{}\">{}</g></defs>", number, runs(strip));
  for (int64_t i = 0; i < m.rows; ++i) {
    svg += fmt::format("<use href=\"#strip{}\" x=\"{}\" y=\"{}\"/>", number, i - (m.rows - 1), i);
  }
  return svg;
}

}  // namespace

std::string heatmap_svg(const std::vector<Matrix>& panels, const std::string& caption, int64_t across) {
  constexpr double kPanel = 300, kGap = 30;
  double largest = 0;
  for (const Matrix& m : panels) {
    for (double v : m.values) {
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    }
  }
  const double top_line = caption.empty() ? 30 : 56;
  const size_t in_row = std::clamp<size_t>(panels.size(), 1, static_cast<size_t>(across));
  const size_t down = (panels.size() + in_row - 1) / in_row;
  const double width = kGap + double(in_row) * (kPanel + kGap);
  const double height = top_line + double(down) * (kPanel + 2 * kGap) + 32;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"14\">"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
      width, height);
  if (!caption.empty()) svg += fmt::format("<text x=\"{}\" y=\"24\">{}</text>\n", kGap, escaped(caption));
  for (size_t p = 0; p < panels.size(); ++p) {
    const Matrix& m = panels[p];
    const double left = kGap + double(p % in_row) * (kPanel + kGap);
    const double top = top_line + double(p / in_row) * (kPanel + 2 * kGap);
    svg += fmt::format("<text x=\"{:g}\" y=\"{:g}\">{}</text>\n", left, top - 6, escaped(m.title));
    // An svg of its own cuts off what of a shifted strip sticks out.
    svg += fmt::format(
        "<svg x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" viewBox=\"0 0 {} {}\" "
        "preserveAspectRatio=\"xMinYMin meet\" shape-rendering=\"crispEdges\">{}</svg>\n",
        left, top, kPanel, kPanel, std::max<int64_t>(m.columns, 1), std::max<int64_t>(m.rows, 1),
        squares(m, largest, p));
  }
  // Zero is white, and black where a page turns light and dark around.
  const std::string scale = largest > 0 ? fmt::format("red to +{0:.4g}, blue to -{0:.4g}, no colour 0", largest)
                                        : "no colour: 0 everywhere";
  return svg + fmt::format("<text x=\"{0}\" y=\"{1:g}\" fill=\"#444444\">queries down, keys across; grey masked</text>"
                           "<text x=\"{0}\" y=\"{2:g}\" fill=\"#444444\">{3}</text></svg>\n",
                           kGap, height - 26, height - 8, scale);
}

}  // namespace locant::study
