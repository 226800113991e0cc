// The little JSON that is written: strings and numbers. Reading is simdjson's.
#pragma once

#include <string>
#include <string_view>

namespace locant {

// `text` as a JSON string, quotes included. What is not UTF-8 (a path may hold anything) becomes
// U+FFFD, so that the result is always valid JSON.
std::string json_string(std::string_view text);

// The shortest decimal that reads back as the same double. JSON has no infinity and no NaN: null.
std::string json_number(double value);

}  // namespace locant
