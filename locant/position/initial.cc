#include "locant/position/initial.h"

#include <algorithm>

#include "locant/base/random.h"

namespace locant {

template <class T>
void fill_initial(const ParameterSpec& spec, uint64_t seed, std::string_view name,
                  std::span<T> numbers) {
  Random random(seed, stream_of(name));
  switch (spec.init) {
    case ParameterSpec::Init::kZeros:
      std::fill(numbers.begin(), numbers.end(), T(0));
      break;
    case ParameterSpec::Init::kNormal:
      for (T& number : numbers) number = static_cast<T>(spec.scale * random.normal());
      break;
    case ParameterSpec::Init::kUniform:
      for (T& number : numbers) {
        number = static_cast<T>(spec.low + (spec.high - spec.low) * random.uniform());
      }
      break;
  }
}

InitialParameters::InitialParameters(const Scheme& scheme, const Sizes& sizes, uint64_t seed) {
  for (const ParameterSpec& spec : scheme.learn(sizes)) {
    arrays_.emplace_back(static_cast<size_t>(spec.size()));
    fill_initial<double>(spec, seed, spec.name, arrays_.back());
    views_.add(spec.name, arrays_.back().data());  // moving a vector keeps its data where it is
  }
}

template void fill_initial(const ParameterSpec&, uint64_t, std::string_view, std::span<float>);
template void fill_initial(const ParameterSpec&, uint64_t, std::string_view, std::span<double>);

}  // namespace locant
