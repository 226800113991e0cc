// Is it UTF-8, and if not, where does it stop being so.
#pragma once

#include <cstddef>
#include <string_view>

namespace locant {

// True for the second to fourth byte of a character.
constexpr bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Offset of the first byte that begins no valid character, or npos. Valid is what Unicode's
// table 3-7 calls well-formed: no overlong forms, no surrogates, nothing above U+10FFFF.
constexpr size_t first_invalid_utf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // Only the second byte's range depends on the lead.
    size_t length = 0;
    unsigned char low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      length = 3;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      length = 4;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (length == 0 || length > text.size() - i) return i;
    const unsigned char second = static_cast<unsigned char>(text[i + 1]);
    if (second < low || second > high) return i;
    for (size_t k = 2; k < length; ++k) {
      if (!is_utf8_continuation(text[i + k])) return i;
    }
    i += length;
  }
  return std::string_view::npos;
}

}  // namespace locant
