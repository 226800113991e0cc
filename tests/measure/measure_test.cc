// A result is what it says: its numbers fit each other, memory is seen, the instruction set goes back.
// No time is compared with another.
#include "locant/base/median.h"
#include "locant/measure/goals.h"
#include "locant/measure/measure.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <vector>

#include "locant/measure/arrays.h"
#include "locant/measure/probe.h"

namespace locant::measure {
namespace {

TEST(Measure, NumbersFitEachOther) {
  const Case c = parse_case("b1 h2 q64 d16 causal t5 fwd+bwd");
  const Result result = measure(c, {.rounds = 2, .plain = true, .beside = {changed(c, "q32"), changed(c, "alibi")}});
  EXPECT_EQ(result.measured.text(), c.text());
  EXPECT_GT(result.best_ms, 0);
  EXPECT_LE(result.best_ms, result.median_ms);
  EXPECT_NEAR(result.gflops * result.median_ms * 1e6, c.flops(), 1e-6 * c.flops());
  EXPECT_GT(result.peak_share, 0);
  EXPECT_GT(result.vs_plain, 0);
  EXPECT_GT(result.extra_mb, 0);
  ASSERT_EQ(result.vs.size(), 2u);
  EXPECT_GT(result.vs[0], 0);
}

TEST(Measure, PlainAndOmitted) {
  EXPECT_EQ(measure(parse_case("h1 q16 d16"), {.rounds = 1}).vs_plain, 1);
  EXPECT_TRUE(std::isnan(measure(parse_case("h1 q16 d16 alibi"), {.rounds = 1, .plain = false}).vs_plain));
  EXPECT_THROW(measure(parse_case("q16"), {.rounds = 0}), std::invalid_argument);
  EXPECT_THROW(measure(parse_case("q16 music_transformer"), {.rounds = 1}), std::invalid_argument);
}

TEST(Measure, EveryShapeRuns) {
  for (const char* text : {"b2 h4 g2 q20 k50 d24 v8 causal alibi bwd t3", "h2 q9 d16 window=4 softcap=20 fwd+bwd",
                           "b3 h2 q33 d16 causal packed rope fwd+bwd", "h2 q33 d16 hook bwd",
                           "b2 h4 g2 k100 d16 decode pages=8 rope t2", "h2 k50 q3 d16 decode bf16",
                           "h2 q33 d16 dropout=0.2 t5 bf16 fwd+bwd",
                           "h1 q1 k40 d16 shaw fwd", "h2 q40 k8 d16 rope fwd+bwd"}) {
    EXPECT_GT(measure(parse_case(text), {.rounds = 1}).median_ms, 0) << text;
  }
}

TEST(Measure, DecodeHasAShareOfTheBandwidth) {
  EXPECT_GT(measure(parse_case("h2 k1000 d16 decode"), {.rounds = 1}).bandwidth_share, 0);
  EXPECT_TRUE(std::isnan(measure(parse_case("h2 q16 d16"), {.rounds = 1}).bandwidth_share));
}

// Worked by hand: q, k, v, out and lse; with the gradients of all four but lse; the cache of a decode case twice.
TEST(Measure, BytesNeeded) {
  const auto bytes = [](const char* text) { return bytes_needed(parse_case(text)); };
  EXPECT_EQ(bytes("b1 h1 q10 d4"), 4 * (4 * 40 + 10));
  EXPECT_EQ(bytes("b1 h1 q10 d4 fwd+bwd"), 4 * (8 * 40 + 10));
  EXPECT_EQ(bytes("b1 h1 q10 d4 bf16"), 2 * 4 * 40 + 4 * 10);
  EXPECT_EQ(bytes("b2 h4 g2 q3 k5 d8 v16"), 4 * (24 * 24 + 20 * 24 + 24));
  EXPECT_EQ(bytes("b1 h1 k10 d4 decode"), 4 * (2 * 4 + 3 * 80 + 1));
  EXPECT_GT(bytes_needed(parse_case("b1 h1 q10 d4"), true), 2 * bytes("b1 h1 q10 d4"));
  EXPECT_GT(bytes("b2147483648 h65536 q2147483648 d65536"), 1e29) << "no overflow";
}

// What free_memory() says when the process may have `limit` bytes of addresses.
double free_within(rlim_t limit) {
  rlimit before{};
  EXPECT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit now{limit, before.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_AS, &now), 0);
  const double free = free_memory();
  setrlimit(RLIMIT_AS, &before);
  return free;
}

TEST(Measure, FreeMemory) {
  EXPECT_GT(free_memory(), 1e6);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;  // of addresses that are taken already
  ASSERT_GT(pages, 0);
  constexpr rlim_t kRoom = rlim_t{256} << 20;
  rlimit usual{}, got{};
  getrlimit(RLIMIT_AS, &usual);
  const rlimit tried{usual.rlim_max == RLIM_INFINITY ? rlim_t{1} << 40 : usual.rlim_max, usual.rlim_max};
  setrlimit(RLIMIT_AS, &tried);
  getrlimit(RLIMIT_AS, &got);
  setrlimit(RLIMIT_AS, &usual);
  if (got.rlim_cur != tried.rlim_cur) GTEST_SKIP() << "no limits of addresses here (an emulator of user programs)";
  const double free = free_within(static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + kRoom);
  EXPECT_GT(free, 0);
  EXPECT_LE(free, double(kRoom));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they need addresses themselves
  EXPECT_EQ(free_within(1), 0) << "less than is taken already";
#endif
}

TEST(Measure, TheInstructionSetGoesBack) {
  const simd::Set before = simd::chosen();
  {
    const UsingSet use(parse_case("isa=scalar"));
    EXPECT_EQ(simd::chosen(), simd::Set::kScalar);
  }
  EXPECT_EQ(simd::chosen(), before);
  measure(parse_case("h1 q16 d16 isa=scalar"), {.rounds = 1});
  EXPECT_EQ(simd::chosen(), before);
}

TEST(Measure, AnInstructionSetOfAnotherMachineIsRefused) {
#ifdef __aarch64__
  const std::string other = "avx2";
#else
  const std::string other = "neon";
#endif
  const Case c = parse_case("h1 q16 d16 isa=" + other);
  EXPECT_FALSE(c.runs_here());
  EXPECT_TRUE(parse_case("h1 q16 d16 isa=scalar").runs_here());
  EXPECT_TRUE(not_here(parse_wish("q16 -> vs(isa=" + other + ") <= 1")));
  EXPECT_FALSE(not_here(parse_wish("q16 -> vs(isa=scalar) <= 1")));
  try {
    measure(c, {.rounds = 1});
    ADD_FAILURE() << "not refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("isa=" + other), std::string::npos) << error.what();
  }
}

TEST(Measure, Median) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
}

TEST(Probe, MemoryMarkSeesWhatIsGoneAgain) {
  const MemoryMark mark;
  const size_t bytes = size_t{64} << 20;
  { const std::vector<char> much(bytes, 1); }
  if (mark.growth() == 0) GTEST_SKIP() << "this system does not tell";
  EXPECT_GE(mark.growth(), bytes * 9 / 10);
  const MemoryMark after;
  EXPECT_LT(after.growth(), bytes / 2);
}

TEST(Probe, ReadingIsMeasured) {
  const auto pool = make_executor(3);
  EXPECT_GT(ReadProbe(1 << 20).measure(*pool), 0);
  EXPECT_GT(ReadProbe(0).measure(*pool), 0);
  EXPECT_GT(ReadProbe(1 << 20).measure(*make_executor(1), Clock::kOwn), 0);
}

TEST(Probe, PeakOfTwoThreadsIsMeasured) {
  const auto pool = make_executor(2);
  EXPECT_EQ(pool->threads(), 2);
  EXPECT_GT(fma_peak(*pool, 0.001), 0);
}

}  // namespace
}  // namespace locant::measure
