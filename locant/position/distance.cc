// Index maps in whole numbers. Logarithms appear only to guess a boundary, which whole numbers then
// decide, or where a rule is defined by its rounding.
#include "locant/position/distance.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"

namespace locant {
namespace {

// A whole number of any size: only products and comparison.
class Natural {
 public:
  Natural& times_power(int64_t factor, int64_t exponent) {
    for (int64_t n = 0; n < exponent; ++n) {
      uint64_t carry = 0;
      for (uint32_t& digit : digits_) {
        carry += digit * static_cast<uint64_t>(factor);
        digit = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
      if (carry) digits_.push_back(static_cast<uint32_t>(carry));
    }
    return *this;
  }
  bool operator<(const Natural& other) const {
    if (digits_.size() != other.digits_.size()) return digits_.size() < other.digits_.size();
    return std::lexicographical_compare(digits_.rbegin(), digits_.rend(), other.digits_.rbegin(),
                                        other.digits_.rend());
  }

 private:
  std::vector<uint32_t> digits_{1};  // lowest first, no zeros on top
};

// (n/e)^steps < (top/e)^t, that is n^steps e^t < top^t e^steps.
bool power_below(int64_t n, int64_t e, int64_t top, int64_t steps, int64_t t) {
  const auto log_of_ratio = [e](int64_t x) {
    return std::log(static_cast<double>(x) / static_cast<double>(e));
  };
  const double left = static_cast<double>(steps) * log_of_ratio(n);
  const double right = static_cast<double>(t) * log_of_ratio(top);
  // Each side is right to a few units of 1e-16: only near a tie do whole numbers have to decide.
  if (std::fabs(left - right) > 1e-12 * (1 + std::fabs(left))) return left < right;
  return Natural().times_power(n, steps).times_power(e, t) <
         Natural().times_power(top, t).times_power(e, steps);
}

// The smallest n in [low, high] for which `holds`, which holds from some n on; high when none does.
template <class Predicate>
int64_t first_that(int64_t low, int64_t high, Predicate holds) {
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// The logarithm of a float, rounded to float.
float log_float(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
float ratio_float(int64_t n, int64_t e) { return static_cast<float>(n) / static_cast<float>(e); }

IndexMap ordered_window(int64_t left, int64_t right, Order order) {
  IndexMap map;
  map.first = -left;
  map.rows.resize(static_cast<size_t>(left + right + 1));
  for (size_t n = 0; n < map.rows.size(); ++n) map.rows[n] = static_cast<int32_t>(n);
  if (order == Order::kQueryMinusKey) std::reverse(map.rows.begin(), map.rows.end());
  return map;
}

}  // namespace

IndexMap window_map(int64_t left, int64_t right, Order order) {
  Check check("window_map");
  check.require(left >= 0 && right >= 0 && left <= kMaxDistance && right <= kMaxDistance,
                "left and right must be 0 to ", kMaxDistance, ", got ", left, " and ", right);
  check.done();
  return ordered_window(left, right, order);
}

IndexMap clip_map(int64_t left, int64_t right, Order order) {
  IndexMap map = window_map(left, right, order);
  map.before = map.rows.front();
  map.after = map.rows.back();
  return map;
}

IndexMap mirrored(const IndexMap& map) {
  IndexMap mirror;
  mirror.first = -map.last();
  mirror.rows.assign(map.rows.rbegin(), map.rows.rend());
  mirror.before = map.after;
  mirror.after = map.before;
  mirror.first_row = map.first_row;
  return mirror;
}

Reach reach(const IndexMap& map, int64_t first, int64_t last) {
  last = std::max(first, last);
  // The listed distances that are asked for, and one beyond each end for the constant sides.
  const int64_t low = std::clamp(first, map.first - 1, map.last() + 1);
  const int64_t high = std::clamp(last, map.first - 1, map.last() + 1);
  int32_t least = kNoRow, most = kNoRow;
  for (int64_t d = low; d <= high; ++d) {
    const int32_t row = map(d);
    if (row == kNoRow) continue;
    least = least == kNoRow ? row : std::min(least, row);
    most = std::max(most, row);
  }
  Reach reached;
  if (least == kNoRow) {  // nothing is added anywhere: one row that nobody reads
    reached.map.first = first;
    reached.map.rows = {kNoRow};
    reached.rows = 1;
    return reached;
  }
  reached.map.first_row = map.first_row + least;
  reached.rows = most - least + 1;
  const auto renumbered = [&](int32_t row) {
    return row < least || row > most ? kNoRow : row - least;
  };
  reached.map.first = low;
  for (int64_t d = low; d <= high; ++d) reached.map.rows.push_back(renumbered(map(d)));
  reached.map.before = first < low ? renumbered(map.before) : kNoRow;
  reached.map.after = last > high ? renumbered(map.after) : kNoRow;
  return reached;
}

std::vector<int64_t> t5_starts(int64_t side_buckets, int64_t max_distance,
                               BucketRounding rounding) {
  const int64_t exact = side_buckets / 2, steps = side_buckets - exact;
  Check check("t5");
  check.require(side_buckets >= 2, "a side needs at least 2 buckets, got ", side_buckets);
  check.require(max_distance > exact && max_distance <= kMaxDistance, "max_distance must be ",
                exact + 1, " to ", kMaxDistance, " for ", side_buckets,
                " buckets a side (the first ", exact, " hold one distance each), got ",
                max_distance);
  check.done();

  // t of a distance as float32 arithmetic finds it, not yet capped.
  const float whole =
      static_cast<float>(std::log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const auto float_step = [&](int64_t n) {
    return static_cast<int64_t>(log_float(ratio_float(n, exact)) / whole *
                                static_cast<float>(steps));
  };
  std::vector<int64_t> starts(static_cast<size_t>(side_buckets));
  for (int64_t b = 0; b < side_buckets; ++b) {
    const int64_t t = b - exact;
    starts[static_cast<size_t>(b)] =
        t <= 0 ? b : first_that(exact, max_distance + 1, [&](int64_t n) {
          return rounding == BucketRounding::kExact ? !power_below(n, exact, max_distance, steps, t)
                                                    : float_step(n) >= t;
        });
  }
  return starts;
}

IndexMap t5_map(int64_t buckets, int64_t max_distance, bool bidirectional,
                BucketRounding rounding) {
  const int64_t side = bidirectional ? buckets / 2 : buckets;
  const std::vector<int64_t> starts = t5_starts(side, max_distance, rounding);
  const int64_t end = starts.back();  // from here on all is the last bucket
  std::vector<int32_t> bucket(static_cast<size_t>(end + 1));
  for (int64_t n = 0, b = 0; n <= end; ++n) {
    while (b + 1 < side && starts[static_cast<size_t>(b + 1)] <= n) ++b;
    bucket[static_cast<size_t>(n)] = static_cast<int32_t>(b);
  }
  IndexMap map;
  map.first = -end;
  map.rows.assign(bucket.rbegin(), bucket.rend());
  map.before = bucket.back();
  map.after = 0;
  if (!bidirectional) return map;
  for (int64_t n = 1; n <= end; ++n) {
    map.rows.push_back(static_cast<int32_t>(side) + bucket[static_cast<size_t>(n)]);
  }
  map.after = map.rows.back();
  return map;
}

IndexMap deberta_v1_map(int64_t span) {
  Check check("deberta");
  check.require(span >= 1 && span <= kMaxDistance, "a side must have 1 to ", kMaxDistance,
                " rows, got ", span);
  check.done();
  return clip_map(span - 1, span, Order::kQueryMinusKey);  // x = -span ... span - 1
}

std::vector<int64_t> deberta_ends(int64_t span, int64_t max_positions, LogRounding rounding) {
  const int64_t middle = span / 2, steps = middle - 1, top = max_positions - 1;
  Check check("deberta");
  check.require(span >= 4 && span % 2 == 0, "buckets must be even and at least 4, got ", span);
  check.require(top > middle && max_positions <= kMaxDistance, "max_positions must be ", middle + 2,
                " to ", kMaxDistance, " for ", span, " buckets (the first ", middle,
                " hold one distance each), got ", max_positions);
  check.done();

  const double whole = static_cast<double>(top) / static_cast<double>(middle);
  const float divisor = rounding == LogRounding::kMicrosoft
                            ? static_cast<float>(std::log(whole))    // of a double
                            : log_float(static_cast<float>(whole));  // of a float
  const auto float_step = [&](int64_t x) {
    return static_cast<int64_t>(
        std::ceil(log_float(ratio_float(x, middle)) / divisor * static_cast<float>(steps)));
  };
  std::vector<int64_t> ends(static_cast<size_t>(span));
  for (int64_t b = 0; b < span; ++b) {
    const int64_t t = b - middle;
    ends[static_cast<size_t>(b)] =
        t <= 0 ? b : first_that(middle + 1, 2 * max_positions, [&](int64_t x) {
                       return rounding == LogRounding::kExact
                                  ? power_below(top, middle, x, t, steps)
                                  : float_step(x) > t;
                     }) - 1;
  }
  return ends;
}

IndexMap deberta_v2_map(int64_t span, int64_t max_positions, LogRounding rounding, LogEdge edge) {
  const std::vector<int64_t> ends = deberta_ends(span, max_positions, rounding);
  // One distance past the last bucket, where transformers still goes on to bucket S.
  const int64_t far = edge == LogEdge::kMicrosoft ? max_positions - 1 : ends.back() + 1;
  std::vector<int64_t> bucket(static_cast<size_t>(far + 1), span);
  for (int64_t x = 0, b = 0; x <= far; ++x) {
    while (b < span && x > ends[static_cast<size_t>(b)]) ++b;
    bucket[static_cast<size_t>(x)] = b;
  }
  IndexMap map;  // distance d = -x
  map.first = -far;
  for (int64_t d = -far; d <= far; ++d) {
    const int64_t size = bucket[static_cast<size_t>(d < 0 ? -d : d)];
    const int64_t row = span + (d < 0 ? size : -size);
    map.rows.push_back(static_cast<int32_t>(std::clamp<int64_t>(row, 0, 2 * span - 1)));
  }
  map.before = map.rows.front();
  map.after = map.rows.back();
  return map;
}

}  // namespace locant
