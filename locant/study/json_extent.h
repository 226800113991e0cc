// How far a text is JSON: tells a record that was cut off from one that is wrong.
#pragma once

#include <cstddef>
#include <string_view>

namespace locant::study {

enum class JsonState {
  kWhole,  // a value stands at its beginning; `end` is one past it
  kCut,    // it ends within a value: more bytes could have made it whole
  kWrong,  // no bytes could; `end` is the first that does not fit
};
struct JsonExtent {
  JsonState state;
  size_t end;
};
// Whether strings are UTF-8 and numbers have room in 64 bits is not looked at.
JsonExtent json_extent(std::string_view text);

}  // namespace locant::study
