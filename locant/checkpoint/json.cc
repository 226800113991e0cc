#include "locant/checkpoint/json.h"

#include <fmt/format.h>

#include <cmath>

#include "locant/base/utf8.h"

namespace locant {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  const auto append_valid = [&out](std::string_view valid) {
    for (const char c : valid) {
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\r':
          out += "\\r";
          break;
        default:
          if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
          } else {
            out += c;
          }
      }
    }
  };
  for (size_t bad; (bad = first_invalid_utf8(text)) != std::string_view::npos;) {
    append_valid(text.substr(0, bad));
    out += "\xEF\xBF\xBD";
    text.remove_prefix(bad + 1);
  }
  append_valid(text);
  return out + '"';
}

std::string json_number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

}  // namespace locant
