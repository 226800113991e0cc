// See engines.h.
#include "tests/attention/engines.h"

namespace locant::test {

Results<double> run(const Engine& engine, const Call<double>& call, int threads) {
  ThreadPool pool(threads);
  if (!engine.single) return run_public(call, pool);
  const Using set(engine.set);
  return widened(call, run_public(cast_call<float>(call), pool));
}

Expected::Expected(const Call<double>& call)
    : want(run_twin(call)), sized(run_twin(cast_call<Sized>(call))) {}

void expect_like_twin(const Call<double>& call, const Expected& expected,
                      const Results<double>& got, double eps) {
  const int64_t chain = sum_length(call.shape);
  each_result(
      [&](const char* name, const auto& got, const auto& want, const auto& sized) {
        std::vector<double> size;
        for (const Sized& x : sized) size.push_back(x.size);
        // A hook adds up its gradient in plain doubles: no sizes come with it. Gradients of scores are
        // of order 1, and what they are multiplied by shows in the largest sum.
        if (name == std::string("hook") && !want.empty()) size = {1 + oracle::largest(want)[0]};
        oracle::expect_close(name, got, want, size, chain, eps);
      },
      got, expected.want, expected.sized);
}

void expect_same_rows(const Call<double>& call, const Results<double>& whole,
                      const Call<double>& part, const Results<double>& got, int begin, double eps) {
  const Results<Sized> sized = run_twin(cast_call<Sized>(call), false);
  const oracle::Shape &s = call.shape, &p = part.shape;
  const double allowed = oracle::kSafety * double(1 + sum_length(s)) * eps;
  for (int bh = 0; bh < s.b * s.h; ++bh) {
    for (int i = 0; i < p.q; ++i) {
      for (int c = 0; c < s.dv; ++c) {
        const size_t at = size_t((bh * s.q + begin + i) * s.dv + c);
        EXPECT_NEAR(got.out[size_t((bh * p.q + i) * s.dv + c)], whole.out[at],
                    allowed * sized.out[at].size)
            << "head " << bh << " query " << begin + i << " channel " << c;
      }
    }
  }
}

}  // namespace locant::test
