// Well-formed UTF-8 against a table-free definition: decode, encode again, compare.
#include "locant/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace locant {
namespace {

std::string encode(uint32_t code) {
  std::string out;
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  }
  out += static_cast<char>(0x80 | (code & 0x3F));
  return out;
}

TEST(Utf8, EveryCharacterIsValidAndEverySurrogateIsNot) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    EXPECT_EQ(first_invalid_utf8(encode(code)), surrogate ? 0 : std::string_view::npos) << code;
  }
}

// Every string of up to three bytes is valid exactly when it is a sequence of encoded characters.
TEST(Utf8, EveryStringOfTwoOrThreeBytes) {
  std::set<std::string> twos, threes;
  for (uint32_t code = 0x80; code < 0x10000; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string bytes = encode(code);
    (bytes.size() == 2 ? twos : threes).insert(bytes);
  }
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string two{static_cast<char>(a), static_cast<char>(b)};
      const bool valid = (a < 0x80 && b < 0x80) || twos.count(two) != 0;
      ASSERT_EQ(first_invalid_utf8(two) == std::string_view::npos, valid) << a << ' ' << b;
    }
  }
  for (int a = 0x80; a < 256; ++a) {
    for (int b = 0x80; b < 256; ++b) {
      for (int c = 0; c < 256; ++c) {
        const std::string three{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
        const bool valid = threes.count(three) != 0 || (c < 0x80 && twos.count(three.substr(0, 2)));
        ASSERT_EQ(first_invalid_utf8(three) == std::string_view::npos, valid)
            << a << ' ' << b << ' ' << c;
      }
    }
  }
}

TEST(Utf8, NamesTheFirstByteOfTheFirstBadCharacter) {
  EXPECT_EQ(first_invalid_utf8("abc\xFFxyz"), 3u);
  EXPECT_EQ(first_invalid_utf8("\xC3\xA9\xE2\x82"), 2u);     // cut inside a character
  EXPECT_EQ(first_invalid_utf8("a\xF4\x90\x80\x80"), 1u);    // above U+10FFFF
  EXPECT_EQ(first_invalid_utf8("a\xF0\x8F\xBF\xBF"), 1u);    // overlong
  EXPECT_EQ(first_invalid_utf8("ab\xF0\x9F\x98\xC0 "), 2u);  // bad last byte
  EXPECT_EQ(first_invalid_utf8(""), std::string_view::npos);
}

}  // namespace
}  // namespace locant
