// The twin's backward against two witnesses: the complex step (exact to rounding, one run a number)
// and central differences of the dense oracle, which shares no code with the twin.
#include <gtest/gtest.h>

#include "locant/attention/reference.h"
#include "tests/attention/dense.h"
#include "tests/attention/sized.h"
#include "tests/oracle/finite_difference.h"
#include "tests/oracle/tolerance.h"

namespace locant::test {
namespace {

const oracle::ShapeLimits kSmall{2, 4, 7, 6};

// sum(out * out_gradient).
template <class T>
T loss(const Call<T>& call) {
  const Results<T> results = run_twin(call, false);
  T sum(0);
  for (size_t n = 0; n < results.out.size(); ++n) sum += results.out[n] * call.out_gradient[n];
  return sum;
}

// Im f(x + ih) / h for every number of x; h so small that h^2 vanishes.
std::vector<double> complex_step(Call<std::complex<double>>& call,
                                 std::vector<std::complex<double>>& x) {
  constexpr double kStep = 0x1p-100;
  std::vector<double> gradient;
  for (auto& element : x) {
    if (std::isnan(element.real()) ||
        std::isinf(element.real())) {  // padding: nothing depends on it
      gradient.push_back(0);
      continue;
    }
    const auto kept = element;
    element += std::complex<double>(0, kStep);
    gradient.push_back(loss(call).imag() / kStep);
    element = kept;
  }
  return gradient;
}

void expect_complex_step(const Call<double>& call) {
  SCOPED_TRACE(call.text());
  const Results<double> got = run_twin(call);
  const Results<Sized> sized = run_twin(cast_call<Sized>(call));
  Call<std::complex<double>> z = cast_call<std::complex<double>>(call);
  Results<std::complex<double>> want(z);
  each_gradient(
      [&](const char*, auto& x, auto& gradient) {
        const std::vector<double> step = complex_step(z, x);
        gradient.assign(step.begin(), step.end());
      },
      z, want);
  const int64_t chain = sum_length(call.shape);
  const auto compare = [&](const std::string& name, const std::vector<double>& got,
                           const std::vector<std::complex<double>>& want,
                           const std::vector<Sized>& sized) {
    std::vector<double> real, size;
    for (const auto& x : want) real.push_back(x.real());
    for (const Sized& x : sized) size.push_back(x.size);
    oracle::expect_close("gradient of " + name, got, real, size, chain, oracle::kEpsDouble);
  };
  compare("q", got.dq, want.dq, sized.dq);
  compare("k", got.dk, want.dk, sized.dk);
  compare("v", got.dv, want.dv, sized.dv);
  compare("number per key", got.dkey, want.dkey, sized.dkey);
  each_table(compare, got.dterms, want.dterms, sized.dterms);
}

class TwinGradient : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Each, TwinGradient, testing::ValuesIn(kSingleTerms),
                         [](const auto& info) { return "terms" + std::to_string(info.param); });

TEST_P(TwinGradient, IsTheComplexStep) {
  for (uint64_t seed = 1; seed <= 25; ++seed)
    expect_complex_step(random_call(seed, GetParam(), kSmall));
}

TEST(TwinGradients, OfAnyMixOfTermsAreTheComplexStep) {
  for (uint64_t seed = 100; seed < 150; ++seed) {
    expect_complex_step(random_call(seed, oracle::Rng(seed).bits() & kAllTerms, kSmall));
  }
}

// --- second witness -----------------------------------------------------------------------------

double dense_loss(const Call<double>& call) {
  const oracle::Shape& s = call.shape;
  double sum = 0;
  for (int b = 0; b < s.b; ++b) {
    for (int h = 0; h < s.h; ++h) {
      const oracle::Matrix out = oracle::attention(dense_call(call, b, h)).out;
      for (int i = 0; i < s.q; ++i) {
        for (int c = 0; c < s.dv; ++c) sum += out(i, c) * call.out_gradient_view()(b, h, i, c);
      }
    }
  }
  return sum;
}

// The differences carry an error of O(h^4) with h = 2e-3 and rounding of about eps / h, so 1e-9 for
// functions of order 1; derivatives of order 5 of a softmax reach some hundreds. 1e-7 of the size.
constexpr double kDifferenceError = 1e-7;

void expect_differences(const Call<double>& original) {
  SCOPED_TRACE(original.text());
  Call<double> call = original;
  Results<double> got = run_twin(call);
  Results<Sized> sized = run_twin(cast_call<Sized>(call));
  std::vector<std::vector<double>> sizes;
  const auto remember = [&](const char*, const auto&, const std::vector<Sized>& sized) {
    sizes.emplace_back();
    for (const Sized& x : sized) sizes.back().push_back(x.size);
  };
  each_gradient(remember, call, sized);
  size_t n = 0;
  each_gradient(
      [&](const char* name, std::vector<double>& x, std::vector<double>& gradient) {
        const std::vector<double>& size = sizes[n++];
        // The linear parts are multiplied by distances of up to a million: so much shorter a step.
        const bool linear = std::string(name) == "left" || std::string(name) == "right";
        const bool far = call.shape.kind == oracle::PositionKind::kFarApart;
        const double step = 2e-3 * (linear && far ? 1e-6 : 1);
        for (size_t e = 0; e < x.size(); ++e) {
          if (std::isnan(x[e]) || std::isinf(x[e])) {
            EXPECT_EQ(gradient[e], 0) << name << "[" << e << "] is padding";
            continue;
          }
          const double want = oracle::derivative([&] { return dense_loss(call); }, x[e], step);
          EXPECT_NEAR(gradient[e], want, kDifferenceError * (1 + size[e]))
              << name << "[" << e << "]";
        }
      },
      call, got);
}

TEST_P(TwinGradient, IsTheDifferenceOfTheDenseFormula) {
  for (uint64_t seed = 1; seed <= 8; ++seed)
    expect_differences(random_call(seed, GetParam(), kSmall));
}

TEST(TwinGradients, OfAnyMixOfTermsAreTheDifferenceOfTheDenseFormula) {
  for (uint64_t seed = 200; seed < 212; ++seed) {
    expect_differences(random_call(seed, oracle::Rng(seed).bits() & kAllTerms, kSmall));
  }
}

TEST(TwinGradients, WithDropoutAreTheComplexStepAndTheDifference) {
  for (uint64_t seed = 300; seed < 330; ++seed) {
    const unsigned terms = oracle::Rng(seed).bits() & kAllTerms;
    expect_complex_step(random_call(seed, terms | kDropout, kSmall));
  }
  for (uint64_t seed = 400; seed < 408; ++seed) {
    const unsigned terms = oracle::Rng(seed).bits() & kAllTerms;
    expect_differences(random_call(seed, terms | kDropout, kSmall));
  }
}

// A gradient that nobody asks for is neither written nor needed for the others.
TEST(TwinGradients, EachAloneIsTheSame) {
  const Call<double> call = random_call(7, kAllTerms, kSmall);
  const Results<double> all = run_twin(call);
  const auto problem = attention::resolve(call.inputs(), call.terms, call.options);
  Results<double> forward = run_twin(call, false);
  const auto alone = [&](auto keep) {
    Results<double> one(call);
    one.out = forward.out, one.lse = forward.lse;
    attention::Gradients<double> gradients;
    keep(gradients, one.gradients(call));
    const auto inputs = call.inputs();
    attention::reference::Twin<double>(inputs, call.terms, problem)
        .backward(read_only(one.outputs(call)), call.out_gradient_view(), gradients);
    return one;
  };
  EXPECT_EQ(alone([](auto& to, auto all) { to.q = all.q; }).dq, all.dq);
  EXPECT_EQ(alone([](auto& to, auto all) { to.k = all.k; }).dk, all.dk);
  EXPECT_EQ(alone([](auto& to, auto all) { to.v = all.v; }).dv, all.dv);
  const Results<double> tables = alone([](auto& to, auto all) { to.terms = all.terms; });
  each_table([](const char* name, auto& a, auto& b) { EXPECT_EQ(a, b) << name; }, tables.dterms,
             all.dterms);
  EXPECT_EQ(tables.dq, std::vector<double>(call.q.size(), 0));
}

}  // namespace
}  // namespace locant::test
