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

}  // namespace

std::string heatmap_svg(const std::vector<Matrix>& panels, const std::string& caption) {
  constexpr double kPanel = 300, kGap = 30, kTop = 56;
  constexpr size_t kAcross = 4;
  double largest = 0;
  for (const Matrix& m : panels) {
    for (double v : m.values) {
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    }
  }
  const size_t across = std::min(panels.size(), kAcross), down = (panels.size() + kAcross - 1) / kAcross;
  const double width = kGap + double(across) * (kPanel + kGap);
  const double height = kTop + double(down) * (kPanel + 2 * kGap) + 24;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"sans-serif\" font-size=\"14\">"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/><text x=\"{2}\" y=\"24\">{3}</text>\n",
      width, height, kGap, escaped(caption));
  for (size_t p = 0; p < panels.size(); ++p) {
    const Matrix& m = panels[p];
    const double left = kGap + double(p % kAcross) * (kPanel + kGap);
    const double top = kTop + double(p / kAcross) * (kPanel + 2 * kGap);
    const double side = kPanel / double(std::max<int64_t>(1, std::max(m.rows, m.columns)));
    svg += fmt::format("<text x=\"{:g}\" y=\"{:g}\">{}</text>\n<g shape-rendering=\"crispEdges\">", left,
                       top - 6, escaped(m.title));
    for (int64_t i = 0; i < m.rows; ++i) {
      for (int64_t j = 0; j < m.columns; ++j) {
        const double v = m.values[static_cast<size_t>(i * m.columns + j)];
        svg += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>",
                           left + double(j) * side, top + double(i) * side, side, side,
                           colour(largest > 0 ? v / largest : (std::isfinite(v) ? 0 : v)));
      }
    }
    svg += "</g>\n";
  }
  svg += fmt::format("<text x=\"{}\" y=\"{:g}\" fill=\"#555\">queries down, keys across; white 0, full colour "
                     "±{:.4g}, grey masked</text></svg>\n",
                     kGap, height - 10, largest);
  return svg;
}

}  // namespace locant::study
