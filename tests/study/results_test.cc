// What docs/ says of the records kept there is what they say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "locant/position/registry.h"
#include "locant/study/paired.h"
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

// "0.36 (RoPE by 0.47)": how much the losses of two schemes rise from L to 8 L.
std::string rises(const std::string& file, const std::string& a, const std::string& b, const std::string& by) {
  std::string text;
  const std::vector<Summary> all = summarize(read_records(kDocs + "results/" + file).records);
  for (const std::string& name : {a, b}) {
    for (const SchemeSummary& s : all.at(0).schemes) {
      if (s.name != name || s.test_scaling != "none") continue;
      const double rise = change(s, kWindows, 64, 512).mean;
      text += text.empty() ? fmt::format("{:.2f} ({}", rise, by) : fmt::format("{:.2f})", rise);
    }
  }
  return text;
}

TEST(Results, NopesPageSaysWhatTheRecordsSay) {
  const std::string page = content_of(kDocs + "schemes/nope.md");
  for (const std::string& part : {"by " + rises("quick-3-seeds.jsonl", "nope", "rope", "RoPE by ") + " after 700",
                                  "by " + rises("full-3-seeds.jsonl", "nope", "rope", "") + " after 3000"}) {
    EXPECT_NE(page.find(part), std::string::npos) << "docs/schemes/nope.md does not say " << part;
  }
}

// `locant schemes` tells a cost that docs/results/speed.md has as measured.
TEST(Results, DebertasCostIsTheMeasuredOne) {
  const std::string page = content_of(kDocs + "results/speed.md");
  const auto measured = [&](const std::string& row) {
    const size_t at = page.find("| " + row + ", forward; backward | ");
    return at == std::string::npos ? 0 : std::stod(page.substr(page.find("| ", at + 2) + 2));
  };
  const double long_text = measured("DeBERTa 512 rows, 2048 tokens"), short_text = measured("DeBERTa 512 rows, 512 tokens");
  EXPECT_NE(make_scheme("deberta")->describe().cost.find(fmt::format("{}x, {}x in short texts", long_text, short_text)),
            std::string::npos)
      << make_scheme("deberta")->describe().cost << "; measured: " << long_text << ", " << short_text;
}

}  // namespace
}  // namespace locant::study
