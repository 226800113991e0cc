#include "locant/study/json_extent.h"

#include <vector>

namespace locant::study {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Reads on from `at`; each part leaves `at` behind what it read, or where it went wrong.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  JsonExtent scan() {
    for (;;) {
      while (!ended() && (here() == ' ' || here() == '\t' || here() == '\n' || here() == '\r')) ++at_;
      if (ended()) return {JsonState::kCut, at_};
      const JsonState part = token();
      if (part != JsonState::kWhole) return {part, at_};
      if (open_.empty() && expected_ == Expected::kNext) return {JsonState::kWhole, at_};
    }
  }

 private:
  enum class Expected { kValue, kFirstValue, kKey, kFirstKey, kColon, kNext };

  bool ended() const { return at_ == text_.size(); }
  char here() const { return text_[at_]; }

  JsonState token() {
    const char c = here();
    if (c == (open_.empty() ? '\0' : open_.back()) && (expected_ == Expected::kNext || expected_ == Expected::kFirstKey ||
                                                       expected_ == Expected::kFirstValue)) {
      ++at_;
      open_.pop_back();
      return then(Expected::kNext);
    }
    switch (expected_) {
      case Expected::kFirstKey:
      case Expected::kKey: return c == '"' ? string(Expected::kColon) : JsonState::kWrong;
      case Expected::kColon: return c == ':' ? (++at_, then(Expected::kValue)) : JsonState::kWrong;
      case Expected::kNext:
        return c == ',' ? (++at_, then(open_.back() == '}' ? Expected::kKey : Expected::kValue)) : JsonState::kWrong;
      case Expected::kFirstValue:
      case Expected::kValue: break;
    }
    if (c == '{' || c == '[') {
      ++at_;
      open_.push_back(c == '{' ? '}' : ']');
      return then(c == '{' ? Expected::kFirstKey : Expected::kFirstValue);
    }
    if (c == '"') return string(Expected::kNext);
    if (c == 't') return word("true");
    if (c == 'f') return word("false");
    if (c == 'n') return word("null");
    return number();
  }

  JsonState then(Expected next) {
    expected_ = next;
    return JsonState::kWhole;
  }

  JsonState string(Expected next) {
    for (++at_; !ended(); ++at_) {
      const char c = here();
      if (c == '"') return ++at_, then(next);
      if (static_cast<unsigned char>(c) < 0x20) return JsonState::kWrong;
      if (c != '\\') continue;
      if (++at_ == text_.size()) return JsonState::kCut;
      if (std::string_view("\"\\/bfnrtu").find(here()) == std::string_view::npos) return JsonState::kWrong;
      for (int n = here() == 'u' ? 4 : 0; n > 0; --n) {
        if (++at_ == text_.size()) return JsonState::kCut;
        if (!is_hex(here())) return JsonState::kWrong;
      }
    }
    return JsonState::kCut;
  }

  JsonState word(std::string_view expected) {
    for (const char c : expected) {
      if (ended()) return JsonState::kCut;
      if (here() != c) return JsonState::kWrong;
      ++at_;
    }
    return then(Expected::kNext);
  }

  JsonState digits() {
    if (ended()) return JsonState::kCut;
    if (!is_digit(here())) return JsonState::kWrong;
    while (!ended() && is_digit(here())) ++at_;
    return JsonState::kWhole;
  }

  JsonState number() {
    if (here() == '-') ++at_;
    if (!ended() && here() == '0') {
      ++at_;
    } else if (const JsonState whole = digits(); whole != JsonState::kWhole) {
      return whole;
    }
    if (!ended() && here() == '.') {
      ++at_;
      if (const JsonState part = digits(); part != JsonState::kWhole) return part;
    }
    if (!ended() && (here() == 'e' || here() == 'E')) {
      ++at_;
      if (!ended() && (here() == '+' || here() == '-')) ++at_;
      if (const JsonState part = digits(); part != JsonState::kWhole) return part;
    }
    return then(Expected::kNext);
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<char> open_;  // what closes each object and list that is open
  Expected expected_ = Expected::kValue;
};

}  // namespace

JsonExtent json_extent(std::string_view text) { return Scanner(text).scan(); }

}  // namespace locant::study
