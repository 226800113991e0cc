// The same bits for any number of threads and from run to run: every term, outputs and gradients,
// also with one batch and one head, with enough tiles that every worker gets some.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Determinism);

// EXPECT_EQ of doubles would let 0 and -0 pass as equal.
void expect_same_bits(const Results<double>& a, const Results<double>& b) {
  each_result(
      [](const char* name, const auto& a, const auto& b) {
        ASSERT_EQ(a.size(), b.size()) << name;
        if (a.empty()) return;
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]), 0) << name << " differs";
      },
      a, b);
}

// Task n to worker n mod threads, all at the same time: unlike a pool on a busy machine, every worker
// gets its share. Keeps how many tasks the largest run had.
class Dealer final : public Executor {
 public:
  explicit Dealer(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void run(int64_t count, TaskRef task) override {
    most_ = std::max(most_, count);
    std::vector<std::thread> workers;
    for (int worker = 0; worker < threads_; ++worker) {
      workers.emplace_back([=, this] {
        for (int64_t index = worker; index < count; index += threads_) task(index, worker);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
  int64_t most() const { return most_; }

 private:
  int threads_;
  int64_t most_ = 0;
};

// Whether this engine is the scalar twin, which is serial.
bool twin(const Engine& engine) {
  return !engine.single || (one_set_asked_for() && engine.set == simd::Set::kScalar);
}

Results<double> run_dealt(const Engine& engine, const Call<double>& call, Dealer& dealer) {
  if (!engine.single) return run_public(call, dealer);
  const Using set(engine.set);
  return widened(call, run_public(cast_call<float>(call), dealer));
}

// One batch and one head: long enough that eight workers each get query tiles, forward and backward.
// Several of each: short ones. The twin in double is serial and slow.
Call<double> long_call(const Engine& engine, int b, int h, int hk, unsigned terms, bool causal) {
  Call<double> call;
  call.shape.b = b, call.shape.h = h, call.shape.hk = hk;
  call.shape.q = call.shape.k = twin(engine) ? 50 : b * h == 1 ? 1030 : 200;
  call.shape.d = call.shape.dv = 24;
  call.term_bits = terms;
  // Portable code, perhaps on an emulated machine: a band of the scores, through as many tiles.
  if (engine.set == simd::Set::kScalar && b * h == 1) call.options.window = {200, 100};
  call = random_like(call);
  call.options.causal = causal;
  return call;
}

TEST_P(Determinism, AnyNumberOfThreadsGivesTheSameBits) {
  for (unsigned terms :
       {unsigned(kNone), unsigned(kNumber), unsigned(kQueryRows), unsigned(kKeyRows),
        unsigned(kValueRows), unsigned(kContentBias), unsigned(kRotation), unsigned(kAllTerms)}) {
    for (const auto& [b, h, hk] : {std::tuple(1, 1, 1), {2, 4, 2}}) {
      const Call<double> call = long_call(GetParam(), b, h, hk, terms, terms % 2);
      SCOPED_TRACE(terms_text(terms) + " batch " + std::to_string(b));
      const Results<double> one = run(call, 1);
      for (int threads : {2, 3, 8}) {
        SCOPED_TRACE(std::to_string(threads) + " threads");
        expect_same_bits(one, run(call, threads));
        Dealer dealer(threads);
        expect_same_bits(one, run_dealt(GetParam(), call, dealer));
        if (!twin(GetParam())) {
          EXPECT_GE(dealer.most(), threads) << "some worker had nothing to do";
        }
      }
    }
  }
}

TEST_P(Determinism, RunAfterRunGivesTheSameBits) {
  const Call<double> call = long_call(GetParam(), 1, 2, 1, kAllTerms, true);
  const Results<double> first = run(call, 3);
  for (int repeat = 0; repeat < 5; ++repeat) expect_same_bits(first, run(call, 3));
}

TEST_P(Determinism, AWindowAndUnsortedPositionsToo) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const Call<double> call =
        random_call(seed, kAllTerms | (seed % 2 ? unsigned(kDropout) : 0u), {2, 2, 200, 20});
    SCOPED_TRACE(call.text());
    expect_same_bits(run(call, 1), run(call, 3));
  }
}

}  // namespace
}  // namespace locant::test
