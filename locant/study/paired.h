// Differences of two numbers that share a seed, and how sure their mean is.
//
// Two runs of one seed begin with the same trunk and see the same batches, so what they have in common
// falls out of the difference. Few seeds need Student's t: with three the interval is 4.3 standard
// errors wide on each side, and with one there is none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/study/summary.h"

namespace locant::study {

// mean - half .. mean + half holds the true mean in 95 of 100 cases, if differences scatter normally.
struct Interval {
  double mean = 0, half = 0;  // NaN without a number; half is infinite with one
  int count = 0;

  bool apart() const { return count > 1 && (mean - half > 0 || mean + half < 0); }  // zero is outside
};

// Of the finite ones.
Interval interval(const std::vector<double>& differences);

// Two-sided 95 % point of Student's t, for degrees of freedom >= 1.
double student95(int degrees);

// Loss at `to` minus loss at `from`, seed by seed.
Interval change(const SchemeSummary& scheme, const std::string& protocol, int64_t from, int64_t to);
// Loss of `a` minus loss of `b` at one length, over the seeds that both have.
Interval difference(const SchemeSummary& a, const SchemeSummary& b, const std::string& protocol,
                    int64_t length);
// The same for exact matches of a task, over the seeds in which both learned it.
Interval exact_difference(const SchemeSummary& a, const SchemeSummary& b, int64_t length);

// "+0.023 (+0.010 to +0.036)", "+0.023" for one seed, "-" for none.
std::string interval_text(const Interval& interval);

}  // namespace locant::study
