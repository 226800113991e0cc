// The documents say what is true: README's code is the example's, links lead somewhere, and every
// scheme of the registry has its file, test, page and row.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "locant/position/registry.h"

namespace locant {
namespace {
namespace fs = std::filesystem;

const fs::path kRoot = LOCANT_SOURCE_DIR;

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> documents() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  for (const std::string folder : {"docs", "locant", "tests", "bench", "examples"}) {
    if (!fs::exists(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  return found;
}

// The text between ```cpp and ```.
std::vector<std::string> code_blocks(const std::string& text) {
  std::vector<std::string> blocks;
  const std::string open = "```cpp\n";
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

TEST(Documents, CodeInReadmeIsCompiledAsAnExample) {
  const std::string example = content_of(kRoot / "examples/hello_attention.cc");
  const auto blocks = code_blocks(content_of(kRoot / "README.md"));
  ASSERT_FALSE(blocks.empty());
  for (const std::string& block : blocks) {
    EXPECT_NE(example.find(block), std::string::npos)
        << "README.md shows code that is not, letter for letter, in examples/hello_attention.cc:\n"
        << block;
  }
}

TEST(Documents, LinksLeadSomewhere) {
  static const std::regex kLink(R"(\]\(([^)#: ]+)(#[^)]*)?\))");  // no scheme: a file of ours
  int seen = 0;
  for (const fs::path& document : documents()) {
    const std::string text = content_of(document);
    for (std::sregex_iterator it(text.begin(), text.end(), kLink), end; it != end; ++it) {
      const std::string target = it->str(1);
      EXPECT_TRUE(fs::exists(document.parent_path() / target))
          << fs::relative(document, kRoot) << " links to " << target;
      ++seen;
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(Documents, EverySchemeHasItsCompanions) {
  const std::string readme = content_of(kRoot / "README.md");
  ASSERT_FALSE(scheme_names().empty());
  for (const std::string& name : scheme_names()) {
    EXPECT_TRUE(fs::exists(kRoot / "locant/position" / (name + ".h"))) << name << " has no file";
    EXPECT_TRUE(fs::exists(kRoot / "tests/position" / (name + "_test.cc"))) << name << " has no test";
    EXPECT_TRUE(fs::exists(kRoot / "docs/schemes" / (name + ".md"))) << name << " has no page";
    EXPECT_NE(readme.find("| `" + name + "` |"), std::string::npos)
        << name << " has no row in README.md";
  }
}

}  // namespace
}  // namespace locant
