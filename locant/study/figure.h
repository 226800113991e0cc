// Pictures with their captions, as the report and `locant show` put them on a page. Each is drawn twice, for
// wide and for narrow screens: letters that fit the one are unreadable in the other.
#pragma once

#include <string>
#include <vector>

#include "locant/study/heatmap.h"
#include "locant/study/plot.h"

namespace locant::study {

// Without gnuplot: the caption, and why there is no picture.
std::string figure(Plot plot, const std::string& caption, bool narrow_only = false);
std::string heatmap_figure(const std::vector<Matrix>& panels, const std::string& caption, bool narrow_only = false);

}  // namespace locant::study
