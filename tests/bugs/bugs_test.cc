// tests/bugs.md and the tests agree: every id once, every named test exists and carries the id,
// every test that carries an id is named.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace locant {
namespace {

constexpr int kBugs = 62;

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// "Suite.Name" of every test in the sources, "file.name" of those in Python.
std::set<std::string> tests_in_sources() {
  static const std::regex kTest(R"(\bTEST(?:_P|_F)?\(\s*(\w+)\s*,\s*(\w+)\s*\))");
  static const std::regex kPythonTest(R"(\ndef (test_\w+)\()");
  std::set<std::string> tests;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(LOCANT_SOURCE_DIR "/tests")) {
    if (entry.path().extension() == ".py") {
      const std::string text = text_of_file(entry.path());
      for (std::sregex_iterator match(text.begin(), text.end(), kPythonTest), end; match != end;
           ++match) {
        tests.insert(entry.path().stem().string() + "." + (*match)[1].str());
      }
    }
    if (entry.path().extension() != ".cc") continue;
    const std::string text = text_of_file(entry.path());
    for (std::sregex_iterator match(text.begin(), text.end(), kTest), end; match != end; ++match) {
      tests.insert((*match)[1].str() + "." + (*match)[2].str());
    }
  }
  return tests;
}

// The last column of the table by id: D01 ... D62.
std::map<std::string, std::string> map_of_bugs() {
  std::istringstream lines(text_of_file(LOCANT_SOURCE_DIR "/tests/bugs.md"));
  static const std::regex kRow(R"(\| (D\d\d) \|[^|]*\|[^|]*\| (.*) \|)");
  std::map<std::string, std::string> bugs;
  std::string line;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (!std::regex_match(line, match, kRow)) continue;
    EXPECT_TRUE(bugs.emplace(match[1], match[2]).second) << match[1] << " stands there twice";
  }
  return bugs;
}

std::set<std::string> named_tests(const std::string& cell) {
  static const std::regex kName(R"(`(\w+\.\w+)`)");
  std::set<std::string> names;
  for (std::sregex_iterator match(cell.begin(), cell.end(), kName), end; match != end; ++match) {
    names.insert((*match)[1]);
  }
  return names;
}

std::string id(int number) { return (number < 10 ? "D0" : "D") + std::to_string(number); }

TEST(Bugs, EveryIdHasATestAPlaceOrAReason) {
  const auto bugs = map_of_bugs();
  const std::regex place_or_reason("(later|out of scope): .{4,}");
  for (int number = 1; number <= kBugs; ++number) {
    const auto found = bugs.find(id(number));
    ASSERT_NE(found, bugs.end()) << id(number) << " is missing in tests/bugs.md";
    EXPECT_TRUE(!named_tests(found->second).empty() ||
                std::regex_match(found->second, place_or_reason))
        << id(number)
        << ": neither a test nor \"later: ...\" nor \"out of scope: ...\": " << found->second;
  }
  EXPECT_EQ(bugs.size(), size_t(kBugs)) << "an id beyond " << id(kBugs);
}

TEST(Bugs, NamedTestsExistAndCarryTheId) {
  const std::set<std::string> tests = tests_in_sources();
  for (const auto& [id, cell] : map_of_bugs()) {
    for (const std::string& name : named_tests(cell)) {
      EXPECT_TRUE(tests.count(name)) << id << ": there is no test " << name;
      EXPECT_NE(name.find(id + "_"), std::string::npos)
          << id << " is not part of the name " << name;
    }
  }
}

TEST(Bugs, TestsWithAnIdAreNamed) {
  const auto bugs = map_of_bugs();
  static const std::regex kId("(D\\d\\d)_");
  int found = 0;
  for (const std::string& test : tests_in_sources()) {
    const std::string name = test.substr(test.find('.') + 1);
    for (std::sregex_iterator match(name.begin(), name.end(), kId), end; match != end; ++match) {
      ++found;
      const auto bug = bugs.find((*match)[1]);
      ASSERT_NE(bug, bugs.end()) << test << " carries an unknown id";
      EXPECT_TRUE(named_tests(bug->second).count(test)) << test << " is not named in tests/bugs.md";
    }
  }
  EXPECT_GT(found, 50) << "the search for tests finds too few";
}

}  // namespace
}  // namespace locant
