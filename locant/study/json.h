// Writing JSON objects, field by field. Reading is simdjson's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace locant::study {

// One object, fields in the order they are added.
class JsonObject {
 public:
  JsonObject& raw(std::string_view name, std::string_view json);
  JsonObject& text(std::string_view name, std::string_view value);
  JsonObject& integer(std::string_view name, int64_t value);
  JsonObject& real(std::string_view name, double value);
  std::string str() const { return "{" + body_ + "}"; }

 private:
  std::string body_;
};

}  // namespace locant::study
