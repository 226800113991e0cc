#pragma once

// The oracle: whole numbers of any size, so that logarithmic buckets can be decided exactly:
// ln(a/b) m >= ln(c/b) t  is  a^m b^t >= c^t b^m.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace locant::oracle {

class Natural {
 public:
  explicit Natural(std::uint32_t value) : digits_{value} {}

  Natural& times(std::uint32_t factor) {
    std::uint64_t carry = 0;
    for (std::uint32_t& digit : digits_) {
      carry += static_cast<std::uint64_t>(digit) * factor;
      digit = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) digits_.push_back(static_cast<std::uint32_t>(carry));
    return *this;
  }
  Natural& times_power(std::uint32_t factor, int exponent) {
    for (int n = 0; n < exponent; ++n) times(factor);
    return *this;
  }

  // -1, 0, 1 as a is below, equal to, above b.
  static int compare(const Natural& a, const Natural& b) {
    const std::size_t size = std::max(a.digits_.size(), b.digits_.size());
    for (std::size_t n = size; n-- > 0;) {
      const std::uint32_t x = n < a.digits_.size() ? a.digits_[n] : 0;
      const std::uint32_t y = n < b.digits_.size() ? b.digits_[n] : 0;
      if (x != y) return x < y ? -1 : 1;
    }
    return 0;
  }

 private:
  std::vector<std::uint32_t> digits_;  // lowest first
};

// Compares (a/b)^m with (c/b)^t: -1, 0 or 1.
inline int compare_powers(int a, int m, int c, int t, int b) {
  Natural left(1);
  left.times_power(static_cast<std::uint32_t>(a), m).times_power(static_cast<std::uint32_t>(b), t);
  Natural right(1);
  right.times_power(static_cast<std::uint32_t>(c), t)
      .times_power(static_cast<std::uint32_t>(b), m);
  return Natural::compare(left, right);
}

}  // namespace locant::oracle
