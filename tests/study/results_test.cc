// What docs/ says of the records kept there is what they say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "locant/study/record.h"
#include "locant/study/report_markdown.h"

namespace locant::study {
namespace {

const std::string kDocs = LOCANT_SOURCE_DIR "/docs/";

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Results, ThePageOfTheFullComparisonIsMadeOfItsRecords) {
  const std::vector<Record> records = read_records(kDocs + "results/full-3-seeds.jsonl").records;
  EXPECT_EQ(content_of(kDocs + "results/full-3-seeds.md"), report_markdown(records, {"full-3-seeds.jsonl"}))
      << "make it again: locant report docs/results/full-3-seeds.jsonl --markdown docs/results/full-3-seeds.md";
}

}  // namespace
}  // namespace locant::study
