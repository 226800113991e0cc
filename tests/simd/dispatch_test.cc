// Which instruction set runs. ctest starts this program once for each value of LOCANT_ISA
// (CMakeLists.txt), since the variable is read once.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "locant/simd/dispatch.h"
#include "locant/simd/peak.h"

namespace locant::simd {
namespace {

std::string wish() {
  const char* value = std::getenv("LOCANT_ISA");
  return value ? value : "";
}
bool is_there(const std::string& set) {
  return std::any_of(available().begin(), available().end(), [&](Set one) { return name(one) == set; });
}

TEST(Dispatch, TheWishIsFollowedOrTheReasonIsSaid) {
  if (wish().empty()) {
    EXPECT_EQ(chosen(), available().back());
    EXPECT_EQ(override_problem(), "");
  } else if (is_there(wish())) {
    EXPECT_EQ(name(chosen()), wish());
    EXPECT_EQ(override_problem(), "");
  } else {
    EXPECT_EQ(chosen(), available().back());
    const std::string& problem = override_problem();
    EXPECT_NE(problem.find("LOCANT_ISA=" + wish()), std::string::npos) << problem;
    for (Set set : available()) {
      EXPECT_NE(problem.find(name(set)), std::string::npos) << problem;
    }
  }
  std::string sets;
  for (Set set : available()) sets += " " + std::string(name(set));
  std::printf("available:%s; chosen: %s\n", sets.c_str(), std::string(name(chosen())).c_str());
}

TEST(Dispatch, PortableCodeComesFirstAndEveryNameIsItsOwn) {
  EXPECT_EQ(available().front(), Set::kScalar);
#if defined(__aarch64__)
  EXPECT_TRUE(is_there("neon"));
  EXPECT_FALSE(is_there("avx2"));
#else
  EXPECT_FALSE(is_there("neon"));
#endif
  for (Set a : available()) {
    for (Set b : available()) EXPECT_EQ(name(a) == name(b), a == b);
  }
}

TEST(Dispatch, ChoosesOnlyWhatIsThere) {
  const Set before = chosen();
  for (Set set : {Set::kScalar, Set::kNeon, Set::kAvx2, Set::kAvx512, Set::kAvx512Bf16}) {
    const bool there = is_there(std::string(name(set)));
    EXPECT_EQ(choose(set), there) << name(set);
    if (there) {
      EXPECT_EQ(chosen(), set);
    }
    EXPECT_EQ(choose(name(set)), there) << name(set);
  }
  EXPECT_TRUE(choose(before));
  EXPECT_FALSE(choose("sse9"));
  EXPECT_EQ(chosen(), before);
}

// The probe of every set runs here: an illegal instruction would end the program.
TEST(Dispatch, ThePeakOfEverySetIsMeasured) {
  for (Set set : available()) EXPECT_GT(measure_fma_peak(set, 1e-3), 0) << name(set);
}

}  // namespace
}  // namespace locant::simd
