// Instruction sets: which one runs, what LOCANT_ISA does, and that every set gives what every other
// gives on the same seeded calls.
#include <gtest/gtest.h>

#include <cstdio>
#include <limits.h>
#include <unistd.h>

#include "tests/attention/engines.h"

namespace locant::test {
namespace {

// What this program says in a process of its own whose LOCANT_ISA is `wish`: the set, the problem.
std::pair<std::string, std::string> said_under(const std::string& wish) {
  char self[PATH_MAX + 1] = {};
  EXPECT_GT(readlink("/proc/self/exe", self, PATH_MAX), 0);
  const std::string command = "LOCANT_ISA='" + wish + "' '" + self + "' --say-set";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return {};
  std::string text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
  EXPECT_EQ(pclose(pipe), 0) << command;
  const size_t end = text.find('\n');
  if (end == std::string::npos) return {};
  std::string problem = text.substr(end + 1);
  if (!problem.empty()) problem.pop_back();
  return {text.substr(0, end), problem};
}

TEST(InstructionSets, TheBestIsUsedUnlessAnotherIsAskedFor) {
  const std::string best(simd::name(simd::available().back()));
  EXPECT_EQ(said_under(""), std::pair(best, std::string()));
  for (simd::Set set : simd::available()) {
    const std::string name(simd::name(set));
    EXPECT_EQ(said_under(name), std::pair(name, std::string()));
  }
}

TEST(InstructionSets, AWishThatCannotBeServedIsSaid) {
  const std::string best(simd::name(simd::available().back()));
  std::string all;
  for (simd::Set set : simd::available()) all += (all.empty() ? "" : ", ") + std::string(simd::name(set));
  for (const std::string wish : {"sse9", "AVX2", "neon", "avx512bf16", "avx2 "}) {
    if (simd::choose(wish)) continue;  // this machine has it
    const auto [set, problem] = said_under(wish);
    EXPECT_EQ(set, best) << "the best is used all the same";
    EXPECT_EQ(problem, "LOCANT_ISA=" + wish + ": not available here (" + all + ")");
  }
}

TEST(InstructionSets, ChoosingOneThatIsNotThereChangesNothing) {
  const simd::Set before = simd::chosen();
  EXPECT_FALSE(simd::choose("sse9"));
  EXPECT_EQ(simd::chosen(), before);
  for (simd::Set set : simd::available()) {
    const Using use(set);
    EXPECT_EQ(simd::chosen(), set);
  }
  EXPECT_EQ(simd::chosen(), before);
}

// Every set against every other, directly: a mistake that all sets share with the twin's tolerance in
// between could hide on either side of it.
TEST(InstructionSets, EachAgreesWithEachOther) {
  const std::vector<simd::Set>& sets = simd::available();
  for (uint64_t seed = 4000; seed < 4060; ++seed) {
    const unsigned terms = seed % 2 ? oracle::Rng(seed).bits() & kAllTerms : kSingleTerms[seed / 2 % 7];
    const oracle::ShapeLimits limits =
        seed % 3 ? oracle::ShapeLimits{2, 4, 40, 24} : oracle::ShapeLimits{2, 2, 200, 72};
    const Call<double> call = rounded(random_call(seed, terms, limits));
    SCOPED_TRACE(call.text());
    const Results<Sized> sized = run_twin(cast_call<Sized>(call));
    std::vector<Results<double>> got;
    for (simd::Set set : sets) got.push_back(run({true, set}, call));
    const int64_t chain = sum_length(call.shape);
    for (size_t a = 0; a < sets.size(); ++a) {
      for (size_t b = a + 1; b < sets.size(); ++b) {
        SCOPED_TRACE(std::string(simd::name(sets[a])) + " and " + std::string(simd::name(sets[b])));
        each_result(
            [&](const char* name, const auto& x, const auto& y, const auto& sized) {
              std::vector<double> size;
              for (const Sized& number : sized) size.push_back(number.size);
              oracle::expect_close(name, x, y, size, chain, oracle::kEpsFloat);
            },
            got[a], got[b], sized);
      }
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace locant::test
