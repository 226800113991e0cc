// Initial numbers: they depend on seed and name alone, and follow their specification.
#include "locant/position/initial.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "locant/position/registry.h"

namespace locant {
namespace {

std::vector<double> drawn(const ParameterSpec& spec, uint64_t seed, std::string_view name) {
  std::vector<double> numbers(static_cast<size_t>(spec.size()), 7.0);
  fill_initial<double>(spec, seed, name, numbers);
  return numbers;
}

TEST(Initial, SeedAndNameDecide) {
  ParameterSpec spec;
  spec.shape = {16, 4};
  spec.init = ParameterSpec::Init::kNormal;
  EXPECT_EQ(drawn(spec, 1, "a"), drawn(spec, 1, "a"));
  EXPECT_NE(drawn(spec, 1, "a"), drawn(spec, 2, "a"));
  EXPECT_NE(drawn(spec, 1, "a"), drawn(spec, 1, "b"));
}

TEST(Initial, FollowsTheSpecification) {
  ParameterSpec spec;
  spec.shape = {4096};
  for (double x : drawn(spec, 0, "zeros")) ASSERT_EQ(x, 0.0);
  spec.init = ParameterSpec::Init::kNormal;
  spec.scale = 0.5;
  double squares = 0;
  for (double x : drawn(spec, 0, "normal")) squares += x * x;
  // The mean of 4096 squares of a normal number deviates by scale^2 sqrt(2 / 4096); six of them.
  EXPECT_NEAR(squares / 4096, 0.25, 6 * 0.25 * std::sqrt(2.0 / 4096));
  spec.init = ParameterSpec::Init::kUniform;
  spec.low = 2;
  spec.high = 3;
  double low = 9, high = 0;
  for (double x : drawn(spec, 0, "uniform")) {
    ASSERT_GE(x, 2);
    ASSERT_LT(x, 3);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  EXPECT_LT(low, 2.01);
  EXPECT_GT(high, 2.99);
}

TEST(Initial, ParametersHaveTheNamesThatSchemesAskFor) {
  const Sizes sizes{.layers = 2, .heads = 4, .head_size = 8, .width = 32};
  for (const std::string& name : scheme_names()) {
    const auto scheme = make_scheme(name);
    const InitialParameters initial(*scheme, sizes);
    const Parameters& parameters = initial;
    EXPECT_EQ(initial.empty(), scheme->learn(sizes).empty());
    for (const ParameterSpec& spec : scheme->learn(sizes)) {
      EXPECT_EQ(std::vector<double>(parameters[spec.name], parameters[spec.name] + spec.size()),
                drawn(spec, 0, spec.name))
          << name;
    }
  }
}

}  // namespace
}  // namespace locant
