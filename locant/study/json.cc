#include "locant/study/json.h"

#include "locant/checkpoint/json.h"

namespace locant::study {

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
  if (!body_.empty()) body_ += ",";
  body_ += json_string(name);
  body_ += ":";
  body_ += json;
  return *this;
}
JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
  return raw(name, json_string(value));
}
JsonObject& JsonObject::integer(std::string_view name, int64_t value) {
  return raw(name, std::to_string(value));
}
JsonObject& JsonObject::real(std::string_view name, double value) {
  return raw(name, json_number(value));
}

}  // namespace locant::study
