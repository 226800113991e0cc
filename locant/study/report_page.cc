#include "locant/study/report_page.h"

#include <fmt/format.h>

#include <cstdint>

namespace locant::study {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --text: #1d2126; --back: #ffffff; --soft: #5c6670; --line: #d7dce1;
        --good: #14713a; --bad: #b3261e; --card: #f5f7f9; --link: #0b5fad; --paper: #ffffff; --ink: none; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e7ea; --back: #14171a; --soft: #a3adb7; --line: #343b42; --good: #6fcf97;
          --bad: #ff8a80; --card: #1d2125; --link: #8ab8ff;
          /* Pictures are drawn on white: light and dark change places, colours stay what they are. */
          --paper: #000000; --ink: invert(1) hue-rotate(180deg); } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
       max-width: 70rem; margin: 0 auto; padding: 1rem; }
p, li { max-width: 52rem; } dd ul { margin: .2rem 0; padding-left: 1.2rem; }
h1, h2 { overflow-wrap: anywhere; } h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
small, figcaption, .untested, .unsure { color: var(--soft); } a { color: var(--link); }
/* What is too wide for a phone scrolls in itself, the names of its rows stay. */
.wide { overflow-x: auto; }
.wide th:first-child { position: sticky; left: 0; background: var(--back); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
         vertical-align: top; white-space: nowrap; }
tbody th, thead th:first-child { text-align: left; font-weight: 600; }
.claims td, .claims th { text-align: left; white-space: normal; }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
figure { margin: 1rem 0; background: var(--paper); border: 1px solid var(--line); border-radius: 6px;
         padding: .5rem; }
figure img { max-width: 100%; height: auto; display: block; margin: 0 auto; filter: var(--ink); }
details { background: var(--card); border-radius: 6px; padding: .4rem .8rem; margin: .5rem 0; }
summary { cursor: pointer; } code { overflow-wrap: anywhere; } dt { font-weight: 600; margin-top: 1rem; }
dd { margin-left: 1rem; }
.beside { display: grid; gap: 0 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.beside section { min-width: 0; }
.warning, .missing { background: var(--card); border-left: 4px solid var(--bad); padding: .5rem .8rem; }
@media (max-width: 40rem) {
  .claims thead { display: none; }
  .claims tr { display: block; border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .claims td, .claims th { display: block; border: 0; padding: .1rem 0; }
  .claims td:first-child, .claims td:first-child + td { display: inline; font-weight: 600; }
  figure { padding: .25rem; } dd { margin-left: 0; } }
)";

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t n = 0; n < bytes.size(); n += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (n + k < bytes.size() ? static_cast<unsigned char>(bytes[n + k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      out += n + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string picture(const std::string& svg, const std::string& narrow, std::string_view description) {
  const std::string image = fmt::format("<img alt=\"{}\" src=\"data:image/svg+xml;base64,{}\">",
                                        escaped(description), base64(svg));
  if (narrow.empty()) return image;
  return fmt::format("<picture><source media=\"(max-width: 40rem)\" srcset=\"data:image/svg+xml;base64,{}\">{}</picture>",
                     base64(narrow), image);
}

std::string page(std::string_view title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>{}</title><style>{}</style></head>\n<body>{}</body></html>\n",
      escaped(title), kStyle, body);
}

}  // namespace locant::study
