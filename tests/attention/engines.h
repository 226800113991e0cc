// All ways a public call can be computed on this machine: double, and float under every instruction
// set the machine has; with LOCANT_ISA set, float under that set alone (scalar: by the twin). Tests
// that are about meaning and not about speed run on each.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "locant/simd/dispatch.h"
#include "tests/attention/call.h"
#include "tests/attention/sized.h"
#include "tests/oracle/tolerance.h"

namespace locant::test {

struct Engine {
  bool single = false;  // float, and not double
  simd::Set set = simd::Set::kScalar;

  std::string name() const { return single ? "float_" + std::string(simd::name(set)) : "double"; }
  double eps() const { return single ? oracle::kEpsFloat : oracle::kEpsDouble; }
  // For values printed with six decimals whose scores are of order 1.
  double printed() const { return 0.5e-6 + 8 * eps(); }
};

inline void PrintTo(const Engine& engine, std::ostream* out) { *out << engine.name(); }

inline bool one_set_asked_for() {
  const char* wish = std::getenv("LOCANT_ISA");
  return wish && *wish;
}

inline std::vector<Engine> all_engines() {
  if (one_set_asked_for()) return {{true, simd::chosen()}};
  std::vector<Engine> engines{{}};
  for (simd::Set set : simd::available()) {
    // There floats run as under kAvx512; bf16 has tests of its own.
    if (set != simd::Set::kAvx512Bf16) engines.push_back({true, set});
  }
  return engines;
}

// Uses an instruction set while it lives.
class Using {
 public:
  explicit Using(simd::Set set) : before_(simd::chosen()) {
    EXPECT_TRUE(simd::choose(set)) << simd::name(set);
  }
  ~Using() { simd::choose(before_); }
  Using(const Using&) = delete;

 private:
  simd::Set before_;
};

// The call with its numbers rounded to float, so that every engine gets the same ones.
inline Call<double> rounded(const Call<double>& call) {
  return cast_call<double>(cast_call<float>(call));
}

// A random call of these sizes, with the terms of the bits `terms`, rounded.
inline Call<double> plain(int b, int h, int hk, int q, int k, int d, int dv, unsigned terms,
                   uint64_t seed = 1) {
  Call<double> call;
  call.shape.b = b, call.shape.h = h, call.shape.hk = hk, call.shape.q = q, call.shape.k = k;
  call.shape.d = d, call.shape.dv = dv;
  call.term_bits = terms;
  return rounded(random_like(call, seed));
}

template <class T>
Results<double> widened(const Call<double>& call, const Results<T>& from) {
  Results<double> to(call);
  const auto copy = [](const char*, auto& to, const auto& from) {
    to.assign(from.begin(), from.end());
  };
  copy("", to.out, from.out), copy("", to.lse, from.lse), copy("", to.dkey, from.dkey);
  copy("", to.dq, from.dq), copy("", to.dk, from.dk), copy("", to.dv, from.dv);
  each_table(copy, to.dterms, from.dterms);
  return to;
}

Results<double> run(const Engine& engine, const Call<double>& call, int threads = 2);

// What a call must give, and the magnitudes behind each number: the double twin.
struct Expected {
  Results<double> want;
  Results<Sized> sized;
  explicit Expected(const Call<double>& call);
};

// `got` may differ from the twin by rounding in `eps`. All outputs and gradients.
void expect_like_twin(const Call<double>& call, const Expected& expected,
                      const Results<double>& got, double eps);
inline void expect_like_twin(const Call<double>& call, const Results<double>& got, double eps) {
  expect_like_twin(call, Expected(call), got, eps);
}

// Rows of a part (call.h) are rows `begin` ... of the whole.
void expect_same_rows(const Call<double>& call, const Results<double>& whole,
                      const Call<double>& part, const Results<double>& got, int begin, double eps);

class EachEngine : public testing::TestWithParam<Engine> {
 public:
  Results<double> run(const Call<double>& call, int threads = 2) {
    return test::run(GetParam(), call, threads);
  }
  void expect_same_rows(const Call<double>& call, const Results<double>& whole,
                        const Call<double>& part, const Results<double>& got, int begin) {
    test::expect_same_rows(call, whole, part, got, begin, GetParam().eps());
  }
};
#define LOCANT_EACH_ENGINE(suite)                                                       \
  class suite : public ::locant::test::EachEngine {};                                   \
  INSTANTIATE_TEST_SUITE_P(On, suite, testing::ValuesIn(::locant::test::all_engines()), \
                           [](const auto& info) { return info.param.name(); })

}  // namespace locant::test
