// main() of the attention tests: says which instruction set they run on. With LOCANT_ISA set, tests
// that would run on every engine run on that one alone; a set that this machine or build lacks is
// said and skipped (exit code 77, which ctest knows).
// Aligned memory, which scratch is, comes filled (new_memory.h).
//   --say-set   only print the set in use and, on a second line, why LOCANT_ISA was not followed
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "locant/simd/dispatch.h"
#include "tests/attention/engines.h"
#include "tests/attention/new_memory.h"

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + step - 1) / step * step;
  void* memory = std::aligned_alloc(step, rounded);
  if (!memory) throw std::bad_alloc();
  return std::memset(memory, locant::test::new_memory, rounded);
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  namespace simd = locant::simd;
  const std::string set(simd::name(simd::chosen()));
  const std::string& problem = simd::override_problem();
  if (argc > 1 && std::strcmp(argv[1], "--say-set") == 0) {
    std::printf("%s\n%s\n", set.c_str(), problem.c_str());
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  if (!problem.empty()) {
    std::printf("skipped: %s\n", problem.c_str());
    return 77;
  }
  if (locant::test::one_set_asked_for()) {
    std::printf("instruction set: %s alone\n", set.c_str());
  } else {
    std::printf("instruction sets:");
    for (simd::Set one : simd::available()) std::printf(" %s", std::string(simd::name(one)).c_str());
    std::printf("\n");
  }
  return RUN_ALL_TESTS();
}
