// The frame of a page and the two ways text gets into it.
#pragma once

#include <string>
#include <string_view>

namespace locant::study {

std::string escaped(std::string_view text);  // for HTML text and quoted attributes

// An SVG drawing as an image inside the page. As an <img> its ids cannot clash with another's.
// `narrow` (may be empty) is shown instead on screens like a phone's.
std::string picture(const std::string& svg, const std::string& narrow, std::string_view description);

// A whole document: light and dark, narrow and wide screens.
std::string page(std::string_view title, const std::string& body);

}  // namespace locant::study
