// The numbers a learned array begins with: they depend on the seed and the array's name alone, so
// adding an array changes no other.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "locant/position/scheme.h"

namespace locant {

// Fills numbers as spec.init says. `name` picks the random stream: two arrays of one model need two
// names. T is float or double; floats are the doubles rounded.
template <class T>
void fill_initial(const ParameterSpec& spec, uint64_t seed, std::string_view name,
                  std::span<T> numbers);

// All arrays that one layer of a scheme sees, as a model of that seed would begin with them.
class InitialParameters {
 public:
  InitialParameters(const Scheme& scheme, const Sizes& sizes, uint64_t seed = 0);
  InitialParameters(const InitialParameters&) = delete;
  operator const Parameters&() const { return views_; }  // NOLINT: stands in for them
  bool empty() const { return arrays_.empty(); }

 private:
  std::vector<std::vector<double>> arrays_;
  Parameters views_;
};

}  // namespace locant
