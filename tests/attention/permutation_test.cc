// Why order must be told: without positions and mask attention is permutation equivariant; with them
// the order in memory does not matter. On every engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Permutation);

struct Permuted {
  Call<double> call;
  std::vector<int> order;
};
Permuted permute(const Call<double>& call, bool positions_too) {
  Permuted p{call, {}};
  const int L = call.shape.q;
  p.order.resize(size_t(L));
  std::iota(p.order.begin(), p.order.end(), 0);
  oracle::Rng rng(8);
  for (int n = L - 1; n > 0; --n) std::swap(p.order[size_t(n)], p.order[size_t(rng.integer(0, n))]);
  const auto shuffle = [&](const std::vector<double>& from, int heads, int width) {
    std::vector<double> to;
    for (int bh = 0; bh < call.shape.b * heads; ++bh) {
      for (int t : p.order) append(to, from, (bh * L + t) * width, width);
    }
    return to;
  };
  p.call.q = shuffle(call.q, call.shape.h, call.shape.d);
  p.call.k = shuffle(call.k, call.shape.hk, call.shape.d);
  p.call.v = shuffle(call.v, call.shape.hk, call.shape.dv);
  p.call.out_gradient = shuffle(call.out_gradient, call.shape.h, call.shape.dv);
  if (positions_too) {
    for (int b = 0; b < call.shape.b; ++b) {
      for (int t : p.order) p.call.q_positions.push_back(t);
    }
    p.call.k_positions = p.call.q_positions;
  }
  return p;
}
// Largest difference between f(Px) and P f(x), in units of what rounding may do.
double difference(const Call<double>& call, const Permuted& p, const Results<double>& a,
                  const Results<double>& b, double eps) {
  const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
  const int L = call.shape.q, width = call.shape.dv;
  double worst = 0;
  for (int bh = 0; bh < call.shape.b * call.shape.h; ++bh) {
    for (int t = 0; t < L; ++t) {
      for (int c = 0; c < width; ++c) {
        const size_t from = size_t((bh * L + p.order[size_t(t)]) * width + c);
        const double error = std::fabs(b.out[size_t((bh * L + t) * width + c)] - a.out[from]);
        worst = std::max(worst, error / (oracle::kSafety * double(1 + sum_length(call.shape)) *
                                         eps * sized.out[from].size));
      }
    }
  }
  return worst;
}

TEST_P(Permutation, WithoutPositionsAndMaskItIsPermutationEquivariant) {
  Call<double> call = plain(2, 2, 1, 19, 19, 8, 6, kNone);
  const Permuted p = permute(call, false);
  EXPECT_LE(difference(call, p, run(call), run(p.call), GetParam().eps()), 1);
  // A causal mask tells the order: equivariance is gone, far beyond rounding.
  call.options.causal = true;
  Permuted causal = p;
  causal.call.options.causal = true;
  EXPECT_GT(difference(call, causal, run(call), run(causal.call), GetParam().eps()), 1e3);
}

TEST_P(Permutation, WithPositionsTheOrderInMemoryDoesNotMatter) {
  for (unsigned terms :
       {unsigned(kNone), unsigned(kNumber), unsigned(kRotation), unsigned(kAllTerms)}) {
    Call<double> call = plain(2, 2, 1, 90, 90, 8, 6, terms);
    call.options.causal = true;
    call.options.window = {60, 0};
    const Permuted p = permute(call, true);
    EXPECT_LE(difference(call, p, run(call), run(p.call), GetParam().eps()), 1)
        << terms_text(terms);
  }
}

}  // namespace
}  // namespace locant::test
