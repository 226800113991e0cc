// The tile hook: it is told the right tile, what it adds is added where terms outside the scale are,
// and its adjoint gets the gradient of the scores. On every engine.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "locant/position/registry.h"
#include "locant/position/tile_hook.h"
#include "tests/attention/dense.h"
#include "tests/attention/engines.h"
#include "tests/attention/number_hook.h"
#include "tests/oracle/fire.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Hook);

TEST_P(Hook, AsANumberPerDistanceIsThatTerm) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const unsigned others = seed % 3 ? 0u : oracle::Rng(seed).bits() & (kAllTerms | kDropout);
    const Call<double> number =
        number_call(seed, others, seed % 4 ? oracle::ShapeLimits{} : oracle::ShapeLimits{2, 2, 200, 40});
    SCOPED_TRACE(number.text());
    const Results<double> got = run(with_hook(number), 1 + int(seed % 3));
    expect_like_twin(number, as_number(number, got), GetParam().eps());
    if (HasFailure()) return;
  }
}

// Depends on everything a tile tells.
double by_place(int64_t b, int64_t h, int64_t i, int64_t j, int64_t qp, int64_t kp) {
  return std::sin(double(b + 2 * h) + .37 * double(i) - .11 * double(j) + .013 * double(qp) + .5 * double(kp));
}
class PlaceHook final : public TileHook {
 public:
  using TileHook::add;
  using TileHook::add_backward;
  void add(const ScoreTile& t, double* scores) const override {
    for (int64_t i = 0; i < t.queries; ++i) {
      for (int64_t j = 0; j < t.keys; ++j) scores[i * t.row + j] += value(t, i, j);
    }
  }
  int64_t gradient_size() const override { return 1; }
  void add_backward(const ScoreTile& t, const double* gradient, double* sums) const override {
    for (int64_t i = 0; i < t.queries; ++i) {
      for (int64_t j = 0; j < t.keys; ++j) *sums += gradient[i * t.row + j] * value(t, i, j);
    }
  }
  static double value(const ScoreTile& t, int64_t i, int64_t j) {
    return by_place(t.batch, t.head, t.first_query + i, t.first_key + j, t.q_positions[i], t.k_positions[j]);
  }
};

TEST_P(Hook, IsToldWhichTileItIs) {
  for (uint64_t seed = 200; seed < 230; ++seed) {
    Call<double> call = rounded(random_call(seed, kNone, {3, 3, 150, 20}));
    call.terms.hook = std::make_shared<PlaceHook>();
    SCOPED_TRACE(call.text());
    const Results<double> got = run(call);
    const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
    const oracle::Shape& s = call.shape;
    for (int b = 0; b < s.b; ++b) {
      for (int h = 0; h < s.h; ++h) {
        oracle::Attention dense = dense_call(call, b, h);
        for (int i = 0; i < s.q; ++i) {
          for (int j = 0; j < s.k; ++j)
            dense.unscaled(i, j) +=
                by_place(b, h, i, j, dense.query_positions[size_t(i)], dense.key_positions[size_t(j)]);
        }
        const auto want = oracle::attention(dense);
        const auto out = call.rows(got.out.data(), s.h, s.q, s.dv);
        for (int i = 0; i < s.q; ++i) {
          for (int c = 0; c < s.dv; ++c) {
            ASSERT_NEAR(out(b, h, i, c), want.out(i, c),
                        oracle::kSafety * double(1 + sum_length(s)) * GetParam().eps() *
                            (1e-30 + want.magnitude(i, c)));
          }
        }
      }
    }
  }
}

TEST_P(Hook, AnyNumberOfThreadsGivesTheSameBits) {
  for (const int hk : {1, 2}) {
    Call<double> call;
    call.shape.b = hk, call.shape.h = 2, call.shape.hk = hk;
    call.shape.q = call.shape.k = GetParam().single ? 500 : 60;
    call.shape.d = call.shape.dv = 24;
    call = random_like(call);
    call.options.causal = true;
    call.terms.hook = std::make_shared<PlaceHook>();
    const Results<double> one = run(call, 1);
    EXPECT_NE(one.dterms.hook_gradient.at(0), 0);
    for (int threads : {2, 3, 8}) {
      const Results<double> got = run(call, threads);
      each_result([&](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, got,
                  one);
      EXPECT_EQ(got.dterms.hook_gradient, one.dterms.hook_gradient) << threads;
    }
  }
}

TEST_P(Hook, OfPackedSequencesCountsInThem) {
  Call<double> call;
  call.shape.h = 2, call.shape.hk = 1, call.shape.q = call.shape.k = 170;
  call.shape.d = call.shape.dv = 8;
  call = rounded(random_like(call));
  call.q_starts = call.k_starts = {0, 70, 70, 170};
  call.terms.hook = std::make_shared<PlaceHook>();
  const Results<double> got = run(call);
  Call<double> last = call;  // sequence 2 alone, where the hook's batch is 0 and not 2
  const auto cut = [&](std::vector<double>& rows, int heads) {
    std::vector<double> to;
    for (int h = 0; h < heads; ++h) append(to, rows, (h * 170 + 70) * 8, 100 * 8);
    rows = to;
  };
  last.shape.q = last.shape.k = 100;
  last.q_starts.clear(), last.k_starts.clear();
  cut(last.q, 2), cut(last.k, 1), cut(last.v, 1), cut(last.out_gradient, 2);
  last.terms.hook.reset();
  oracle::Attention dense = dense_call(last, 0, 1);
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 100; ++j) dense.unscaled(i, j) += by_place(2, 1, i, j, i, j);
  }
  const auto want = oracle::attention(dense);
  for (int i = 0; i < 100; ++i) {
    for (int c = 0; c < 8; ++c) {
      EXPECT_NEAR(got.out[size_t((170 + 70 + i) * 8 + c)], want.out(i, c),
                  oracle::kSafety * double(1 + sum_length(last.shape)) * GetParam().eps() *
                      want.magnitude(i, c));
    }
  }
}

// The two meet: FIRE, with its gradient by differences of the dense formula.
TEST_P(Hook, FireIsTheDenseFormula) {
  const auto scheme = make_scheme("fire(length=20,hidden=5)");
  locant::Call about;
  about.sizes.heads = 2, about.sizes.head_size = 8, about.causal = true;
  about.first_distance = -149, about.length = 150;
  std::map<std::string, std::vector<double>> arrays;
  oracle::Rng rng(5);
  Parameters parameters;
  for (const ParameterSpec& spec : scheme->learn(about.sizes)) {
    auto& array = arrays[spec.name];
    for (int64_t n = 0; n < spec.size(); ++n) array.push_back(rng.uniform(spec.low, spec.high + 1e-9));
    parameters.add(spec.name, array.data());
  }
  Call<double> call;
  call.shape.h = call.shape.hk = 2, call.shape.q = call.shape.k = 150, call.shape.d = call.shape.dv = 8;
  call = rounded(random_like(call));
  call.options.causal = call.shape.causal = true;
  call.terms = lower(*scheme, about, parameters);
  const Results<double> got = run(call);
  for (int h = 0; h < 2; ++h) {
    oracle::Fire fire;
    fire.c = arrays["c"][0], fire.length = 20 * arrays["L_multiplier"][0];
    fire.hidden_weight = arrays["mlp.0.weight"], fire.hidden_bias = arrays["mlp.0.bias"];
    fire.out_weight.assign(arrays["mlp.2.weight"].begin() + h * 5, arrays["mlp.2.weight"].begin() + h * 5 + 5);
    fire.out_bias = arrays["mlp.2.bias"][size_t(h)];
    oracle::Attention dense = dense_call(call, 0, h);
    for (int i = 0; i < 150; ++i) {
      for (int j = 0; j <= i; ++j) dense.unscaled(i, j) = oracle::fire_bias(fire, i, j);
    }
    const auto want = oracle::attention(dense);
    for (int i = 0; i < 150; ++i) {
      for (int c = 0; c < 8; ++c) {
        EXPECT_NEAR(got.out[size_t((h * 150 + i) * 8 + c)], want.out(i, c),
                    oracle::kSafety * double(1 + sum_length(call.shape)) * GetParam().eps() *
                        (1 + want.magnitude(i, c)));
      }
    }
  }
  // The kernel's gradient is the twin's, up to rounding: of 150 * 150 / 2 pairs a head.
  const Results<double> twin = run_twin(call);
  ASSERT_EQ(got.dterms.hook_gradient.size(), twin.dterms.hook_gradient.size());
  double largest = 0;
  for (double x : twin.dterms.hook_gradient) largest = std::max(largest, std::fabs(x));
  EXPECT_GT(largest, .1);
  for (size_t n = 0; n < twin.dterms.hook_gradient.size(); ++n) {
    EXPECT_NEAR(got.dterms.hook_gradient[n], twin.dterms.hook_gradient[n],
                150 * oracle::kSafety * GetParam().eps() * (1 + largest));
  }
}

}  // namespace
}  // namespace locant::test
