// Checks at the public edge: every reason at once, thrown as one std::invalid_argument.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace locant {

// "a 3 b" from ("a ", 3, " b"). Numbers print as a person would write them.
template <class... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream out;
  out.precision(17);
  (out << ... << parts);
  return out.str();
}

// Throws std::invalid_argument("[operation] ...").
template <class... Parts>
[[noreturn]] void fail(std::string_view operation, const Parts&... parts) {
  throw std::invalid_argument(text_of('[', operation, "] ", parts...));
}

// Collects what is wrong with a call; done() throws them all together:
//   Check check("attention");
//   check.require(d == e, "head sizes of q and k must be equal, got ", d, " and ", e);
//   check.done();
class Check {
 public:
  explicit Check(std::string_view operation) : operation_(operation) {}

  template <class... Parts>
  bool require(bool holds, const Parts&... parts) {
    if (!holds) reasons_ += (reasons_.empty() ? "" : "; ") + text_of(parts...);
    return holds;
  }

  bool ok() const { return reasons_.empty(); }
  void done() const {
    if (!ok()) fail(operation_, reasons_);
  }

 private:
  std::string operation_, reasons_;
};

}  // namespace locant
