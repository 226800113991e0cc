// The tree keeps the rules of tests/layout/layout.cc, and each rule is seen to complain when broken.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/layout/layout.h"

namespace locant::layout {
namespace {
namespace fs = std::filesystem;

std::string joined(const std::vector<std::string>& complaints) {
  std::string text;
  for (const std::string& one : complaints) text += "\n  " + one;
  return text;
}

// A small tree of our own to break rules in.
class BrokenTree : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("locant-layout-" + std::to_string(std::random_device{}()));
    write("locant/base/view.h", "#include <vector>\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  // True if a file with this text draws exactly one complaint, on its second line.
  ::testing::AssertionResult is_refused(const std::string& path, const std::string& line) {
    write(path, "// first line\n" + line + "\n");
    const auto found = complaints_about_includes(root_);
    fs::remove(root_ / path);
    if (found.size() == 1 && found[0].rfind(path + ":2: ", 0) == 0) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << line << " in " << path << " drew:" << joined(found);
  }

  ::testing::AssertionResult is_accepted(const std::string& path, const std::string& line) {
    write(path, line + "\n");
    const auto found = complaints_about_includes(root_);
    fs::remove(root_ / path);
    if (found.empty()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << joined(found);
  }

  fs::path root_;
};

TEST(Layout, DependenciesPointOneWay) {
  const auto found = complaints_about_includes(LOCANT_SOURCE_DIR);
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Layout, NoLibraryCodeIsCompiledForOneInstructionSet) {
  const auto found = complaints_about_instruction_set_code(LOCANT_SOURCE_DIR);
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST(Layout, NoForeignWords) {
  const auto found = complaints_about_words(LOCANT_SOURCE_DIR);
  EXPECT_TRUE(found.empty()) << joined(found);
}

TEST_F(BrokenTree, DependencyTheWrongWayIsRefused) {
  EXPECT_TRUE(is_refused("locant/base/a.h", "#include \"locant/simd/vec.h\""));
  EXPECT_TRUE(is_refused("locant/simd/a.h", "#include \"locant/position/scheme.h\""));
  EXPECT_TRUE(is_refused("locant/position/a.h", "#include \"locant/simd/vec.h\""));
  EXPECT_TRUE(is_refused("locant/position/a.cc", "#include \"locant/attention/attention.h\""));
  EXPECT_TRUE(is_refused("locant/position/a.cc", "  #  include <locant/attention/attention.h>"));
  EXPECT_TRUE(is_refused("locant/attention/a.cc", "#include \"locant/train/model.h\""));
  EXPECT_TRUE(is_refused("locant/checkpoint/a.cc", "#include \"locant/train/model.h\""));
  EXPECT_TRUE(is_refused("locant/train/a.cc", "#include \"locant/study/record.h\""));
  EXPECT_TRUE(is_refused("locant/train/a.cc", "#include \"locant/data/corpus.h\""));
  EXPECT_TRUE(is_refused("locant/data/a.cc", "#include \"locant/study/record.h\""));
  EXPECT_TRUE(is_refused("locant/study/a.cc", "#include \"locant/cli/main.h\""));
  EXPECT_TRUE(is_refused("tests/oracle/a.h", "#include \"locant/position/alibi.h\""));
}

TEST_F(BrokenTree, DependencyTheRightWayIsAccepted) {
  EXPECT_TRUE(is_accepted("locant/attention/a.cc", "#include \"locant/position/scheme.h\""));
  EXPECT_TRUE(is_accepted("locant/train/a.cc", "#include \"locant/checkpoint/safetensors.h\""));
  EXPECT_TRUE(is_accepted("locant/simd/a-inl.h", "#include <immintrin.h>"));
  EXPECT_TRUE(is_accepted("locant/study/a.cc", "#include <simdjson.h>"));
}

TEST_F(BrokenTree, ThirdPartyHeadersStayOutOfTheCore) {
  for (const std::string folder : {"base", "simd", "position", "attention"}) {
    EXPECT_TRUE(is_refused("locant/" + folder + "/a.cc", "#include <fmt/format.h>"));
    EXPECT_TRUE(is_refused("locant/" + folder + "/a.cc", "#include <dnnl.hpp>"));
    EXPECT_TRUE(is_refused("locant/" + folder + "/a.cc", "#include <omp.h>"));
  }
}

TEST_F(BrokenTree, InstructionSetsStayInSimd) {
  EXPECT_TRUE(is_refused("locant/attention/a-inl.h", "#include <immintrin.h>"));
  EXPECT_TRUE(is_refused("locant/base/a.cc", "#include <arm_neon.h>"));
  EXPECT_TRUE(is_refused("locant/train/a.cc", "#include <immintrin.h>"));
}

TEST_F(BrokenTree, LibraryCodeForOneInstructionSetIsSeen) {
  const auto complaints_of = [&](const std::string& path, const std::string& line) {
    write(path, line + "\n");
    return complaints_about_instruction_set_code(root_).size();
  };
  EXPECT_EQ(complaints_of("locant/simd/a-inl.h", "float x = std::max(1.0f, y);"), 1u);
  EXPECT_EQ(complaints_of("locant/simd/a-inl.h", "#include <algorithm>"), 1u);
  EXPECT_EQ(complaints_of("locant/simd/a-inl.h", "auto one = vdupq_n_bf16(1);"), 1u);
  EXPECT_EQ(complaints_of("locant/simd/a-inl.h", "std::conditional_t<true, int, float> x;  // std::max"), 0u);
  // What it includes is compiled with it; other files are not.
  EXPECT_EQ(complaints_of("locant/base/b.h", "inline float f() { return std::max(1.0f, 2.0f); }"), 0u);
  EXPECT_EQ(complaints_of("locant/simd/a-inl.h", "#include \"locant/base/b.h\""), 1u);
}

TEST_F(BrokenTree, RelativeIncludesAndUnknownFoldersAreRefused) {
  EXPECT_TRUE(is_refused("locant/position/a.cc", "#include \"alibi.h\""));
  write("locant/extras/a.h", "");
  EXPECT_EQ(complaints_about_includes(root_).size(), 1u);
}

TEST_F(BrokenTree, ForeignWordsAreSeen) {
  EXPECT_TRUE(complaints_about_words(root_).empty());
  write("docs/a.md", std::string("see /ho") + "me/someone/notes and 1/2\n");
  EXPECT_EQ(complaints_about_words(root_).size(), 1u);
  write("docs/a.md", std::string(7, '<') + " HEAD\n");
  EXPECT_EQ(complaints_about_words(root_).size(), 1u);
  write("docs/a.md", "https://example.org/wo" "rk/x and $root/home and network/rooted/ are fine\n");
  EXPECT_TRUE(complaints_about_words(root_).empty());
}

}  // namespace
}  // namespace locant::layout
