// Files of cases and goals: what is read, what is refused with its line, and who reached what.
#include "locant/measure/goals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

namespace locant::measure {
namespace {

class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("locant-goals-" + std::to_string(std::random_device{}()))) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Goals, AFileOfCases) {
  const File file("# a heading\n\n  b1 h2 q64 d16 t5 fwd  -> vs_plain <= 1.02, peak_share>=.5 # why\r\nq32\n");
  const std::vector<Wish> wishes = read_wishes(file.path());
  ASSERT_EQ(wishes.size(), 2u);
  EXPECT_EQ(wishes[0].wanted.text(), "b1 h2 q64 k64 d16 t5 f32 fwd t1");
  ASSERT_EQ(wishes[0].goals.size(), 2u);
  EXPECT_EQ(wishes[0].goals[0].field, "vs_plain");
  EXPECT_FALSE(wishes[0].goals[0].at_least);
  EXPECT_EQ(wishes[0].goals[1].value, 0.5);
  EXPECT_TRUE(wishes[0].goals[1].at_least);
  EXPECT_TRUE(wishes[1].goals.empty());
}

TEST(Goals, AnotherCaseBeside) {
  const Wish wish = parse_wish("h1 q64 t2 -> vs(t1) <= 0.53, vs(t1 shaw(k=4,heads=each)) <= 1, gflops >= 1");
  const std::vector<Case> cases = beside(wish);
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[0].text(), "b1 h1 q64 k64 d64 f32 fwd t1");
  EXPECT_EQ(cases[1].scheme.rfind("shaw(k=4", 0), 0u);
}

TEST(Goals, RefusalsNameFileAndLine) {
  const File wrong("q64\n\nq64 -> speed >= 3\n"), empty("# nothing\n");
  EXPECT_NE(refusal([&] { read_wishes(wrong.path()); }).find("line 3"), std::string::npos);
  EXPECT_NE(refusal([&] { read_wishes(wrong.path()); }).find("peak_share"), std::string::npos);
  EXPECT_NE(refusal([&] { read_wishes(empty.path()); }).find("no case"), std::string::npos);
  EXPECT_NE(refusal([&] { read_wishes(empty.path() + "x"); }).find("cannot be read"), std::string::npos);
  EXPECT_NE(refusal([] { parse_wish("q64 -> gflops > 3"); }).find(">="), std::string::npos);
  EXPECT_NE(refusal([] { parse_wish("q64 -> gflops >= 3x"); }).find("3x"), std::string::npos);
  EXPECT_NE(refusal([] { parse_wish("q64 -> vs(zz) <= 3"); }).find("zz"), std::string::npos);
  EXPECT_NE(refusal([] { parse_wish("q64 ->"); }).find("neither"), std::string::npos);
  EXPECT_NE(refusal([] { parse_wish("-> gflops >= 3"); }).find("empty"), std::string::npos);
}

TEST(Goals, Judgement) {
  const Wish wish = parse_wish("q64 t2 -> vs(t1) <= 0.5, peak_share >= 0.9, vs_plain <= 1.02, vs(t3) <= 0.5, extra_mb <= 4");
  Result result;
  result.peak_share = 0.9;
  result.vs_plain = std::numeric_limits<double>::quiet_NaN();
  result.extra_mb = 4.5;
  result.vs = {0.4, 0.6};
  const std::vector<Verdict> verdicts = judge(wish, result);
  ASSERT_EQ(verdicts.size(), 5u);
  EXPECT_TRUE(verdicts[0].reached);
  EXPECT_EQ(verdicts[0].got, 0.4);
  EXPECT_EQ(verdicts[0].goal, "vs(t1) <= 0.5");
  EXPECT_TRUE(verdicts[1].reached);
  EXPECT_FALSE(verdicts[2].reached);
  EXPECT_FALSE(verdicts[3].reached);
  EXPECT_EQ(verdicts[3].got, 0.6);
  EXPECT_FALSE(verdicts[4].reached);
}

}  // namespace
}  // namespace locant::measure
