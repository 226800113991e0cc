#include "locant/study/figure.h"

#include <fmt/format.h>

#include <algorithm>

#include "locant/study/report_page.h"

namespace locant::study {
namespace {

std::string with_caption(const std::string& image, const std::string& caption) {
  return fmt::format("<figure>{}<figcaption>{}</figcaption></figure>", image, escaped(caption));
}

}  // namespace

std::string figure(Plot plot, const std::string& caption, bool narrow_only) {
  const Plot as_it_is = plot;
  plot.width = 400;
  plot.height = std::min(360, plot.height * 9 / 10);
  // Of labels that would run into each other the first goes.
  for (size_t n = 1; plot.log2_x && n < plot.x_ticks.size(); ++n) {
    if (plot.x_ticks[n].first < 1.4 * plot.x_ticks[n - 1].first) plot.x_ticks[n - 1].second.clear();
  }
  const Drawing narrow = draw(plot);
  if (narrow.svg.empty()) {
    return fmt::format("<p class=\"missing\">No picture ({}): {}</p>", escaped(caption), escaped(narrow.reason));
  }
  return with_caption(narrow_only ? picture(narrow.svg, "", caption) : picture(draw(as_it_is).svg, narrow.svg, caption),
                      caption);
}

std::string heatmap_figure(const std::vector<Matrix>& panels, const std::string& caption, bool narrow_only) {
  const std::string narrow = heatmap_svg(panels, "", 1);
  return with_caption(narrow_only ? picture(narrow, "", caption) : picture(heatmap_svg(panels, "", 2), narrow, caption),
                      caption);
}

}  // namespace locant::study
