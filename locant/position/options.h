// Options of schemes: one grammar for the command line, records and code:
//   name            name(option=value,option=value)
// Values are integers, reals, words of a list, or reals joined by '/'. Spaces are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace locant {

// A scheme names each of its options once, in Scheme::options, with a reference to the member that
// holds it. One visitor reads text into the members, others print or explain them.
class OptionVisitor {
 public:
  virtual ~OptionVisitor() = default;
  // Inclusive bounds.
  virtual void integer(std::string_view name, int64_t& value, int64_t low, int64_t high,
                       std::string_view meaning) = 0;
  virtual void real(std::string_view name, double& value, double low, double high,
                    std::string_view meaning) = 0;
  // One of `words`; value is its index. Enum members go through the template below.
  virtual void word(std::string_view name, int& value, const std::vector<std::string>& words,
                    std::string_view meaning) = 0;
  // Reals joined by '/', "1/1.5/2"; may be empty.
  virtual void reals(std::string_view name, std::vector<double>& values, double low, double high,
                     std::string_view meaning) = 0;

  template <class Enum>
    requires std::is_enum_v<Enum>
  void word(std::string_view name, Enum& value, const std::vector<std::string>& words,
            std::string_view meaning) {
    int index = static_cast<int>(value);
    word(name, index, words, meaning);
    value = static_cast<Enum>(index);
  }
  void flag(std::string_view name, bool& value, std::string_view meaning) {
    int index = value;
    word(name, index, {"no", "yes"}, meaning);
    value = index != 0;
  }
};

// Whether each head, or each layer, has its own table. For options "heads" and "layers".
enum class Sharing { kShared, kEach };
inline const std::vector<std::string> kSharingWords{"shared", "each"};

// "alibi(max_exponent=16)" cut into its name and its options; throws std::invalid_argument
// naming the text and the place where the grammar breaks.
struct ParsedSpecification {
  std::string name;
  std::vector<std::pair<std::string, std::string>> options;
};
ParsedSpecification parse_specification(std::string_view text);

// Splits a list "alibi,t5(buckets=32,max_distance=64),rope" at the commas outside parentheses.
std::vector<std::string> split_specifications(std::string_view text);

class Scheme;
// Sets the scheme's options; throws std::invalid_argument for an unknown or repeated option, a value
// that is no number or word, or one out of range; the message says what exists.
void set_options(Scheme& scheme, const std::vector<std::pair<std::string, std::string>>& options);

// One line an option, for help: name, value now, what it may be, meaning.
struct OptionHelp {
  std::string name, value, allowed, meaning;
};
std::vector<OptionHelp> explain_options(Scheme& scheme);

}  // namespace locant
