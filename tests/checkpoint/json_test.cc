// What is written must read back the same with another implementation.
#include "locant/checkpoint/json.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "locant/base/random.h"

namespace locant {
namespace {

std::string read_back(const std::string& json) {
  simdjson::dom::parser parser;
  return std::string(std::string_view(parser.parse(json).get_string()));
}

TEST(JsonString, Escapes) {
  EXPECT_EQ(json_string(""), "\"\"");
  EXPECT_EQ(json_string("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
  EXPECT_EQ(json_string("\n\t\r"), "\"\\n\\t\\r\"");
  EXPECT_EQ(json_string(std::string("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
}

TEST(JsonString, EveryCharacterReadsBack) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  text += "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(read_back(json_string(text)), text);
}

TEST(JsonString, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(read_back(json_string("a\xFF"
                                  "b\xC3")),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(8, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.below(256));
    EXPECT_NO_THROW(read_back(json_string(bytes)));
  }
}

TEST(JsonNumber, ReadsBackToTheLastBit) {
  Random random(2);
  for (int round = 0; round < 20000; ++round) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    simdjson::dom::parser parser;
    const double got = parser.parse("[" + json_number(value) + "]").at(0).get_double();
    EXPECT_EQ(std::bit_cast<uint64_t>(got), std::bit_cast<uint64_t>(value)) << json_number(value);
  }
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(2), "2");
  EXPECT_EQ(json_number(std::nan("")), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()), "null");
}

}  // namespace
}  // namespace locant
