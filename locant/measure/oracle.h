// Whether the case that is measured is also right: the same numbers through the scalar twin in double.
#pragma once

#include <string>
#include <vector>

#include "locant/measure/case.h"
#include "locant/measure/sized.h"

namespace locant::measure {

// One array of results against the oracle, at its worst element.
struct Difference {
  std::string name;    // "out", "q gradient"
  double error = 0;    // |got - want| there
  double allowed = 0;  // by rounding alone (tolerance.h)
  double ratio = 0;    // error / allowed, the largest of the array; above 1 is wrong, NaN is infinite
};

// Runs the case once and compares everything that it writes; bf16 may err twice as much as a plain
// bf16 computation. Quadratic in the length and in one
// thread: see check_cost.
std::vector<Difference> check(const Case& c);

// The worst element of one array; unit is what rounding allows for a magnitude of 1.
Difference worst_of(const std::string& name, const std::vector<double>& got, const std::vector<Sized>& want,
                    double unit);

// About how many multiply-adds the oracle takes; some 3e8 a second.
double check_cost(const Case& c);

}  // namespace locant::measure
