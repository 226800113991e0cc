// The report: self-contained, complete, and safe with whatever text the records hold.
#include "locant/study/report.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "locant/position/options.h"
#include "locant/study/comparison.h"
#include "locant/study/heatmap.h"
#include "locant/study/permuted_sentence.h"
#include "locant/study/plot.h"
#include "locant/study/report_markdown.h"
#include "locant/study/report_page.h"
#include "locant/study/summary.h"
#include "locant/study/worked_example.h"

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
                           "Differences, seed by seed", "speed and memory", "How it was made", "cannot show",
                           "What these numbers advise", "1.880"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(count(html, "<tr><th title"), 18u) << "three schemes in six tables";
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

// Silent for ever, writing for ever, or going on with its output closed.
TEST(Report, AGnuplotThatDoesNotEndIsEnded) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "locant_report_test_slow";
  std::filesystem::create_directories(folder);
  const std::string path = getenv("PATH") ? getenv("PATH") : "";
  const Plot plot{"x", "y", {{"line", {{1, 2}, {2, 3}}, false}}, false, {}, 0, 0, 400, 300};
  for (const char* work : {"exec sleep 1000", "while :; do echo '<svg'; sleep .01; done", "exec sleep 1000 >&-"}) {
    SCOPED_TRACE(work);
    std::ofstream(folder / "gnuplot") << "#!/bin/sh\n" << work << "\n";
    std::filesystem::permissions(folder / "gnuplot", std::filesystem::perms::owner_all);
    setenv("PATH", (folder.string() + ":" + path).c_str(), 1);
    errno = EINTR;  // of some call before
    const Drawing drawing = draw(plot, .3);
    setenv("PATH", path.c_str(), 1);
    EXPECT_EQ(drawing.svg, "");
    EXPECT_NE(drawing.reason.find("did not end within 0.3 s"), std::string::npos) << drawing.reason;
  }
  std::filesystem::remove_all(folder);
}

TEST(Report, WithoutGnuplotThereAreTablesAndAReason) {
  const std::string path = getenv("PATH") ? getenv("PATH") : "";
  setenv("PATH", "/nonexistent", 1);
  const std::string html = report_html(some_records(), "a test");
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(html.find("gnuplot is not installed"), std::string::npos);
  EXPECT_EQ(count(html, "<tr><th title"), 18u);
}

// Several machines: copies of a run count once, its other seeds join it, and what diverged is counted.
TEST(Report, MergesMachinesAndSeeds) {
  std::vector<Record> records = some_records();
  for (Record& r : records) r.machine = "one", r.settings.corpus = "text";
  std::vector<Record> others = records;
  for (Record& r : others) r.machine = "two";
  records.insert(records.end(), others.begin(), others.end());
  for (Record& r : others) {
    r.seed = 1;
    for (auto& [protocol, by_length] : r.losses) {
      for (auto& [length, loss] : by_length) loss += length == 128 ? .04 : .02;
    }
  }
  others[1].diverged = true;
  records.insert(records.end(), others.begin(), others.end());
  const std::string html = report_html(records, "a test");
  EXPECT_NE(html.find("6 runs trained, 1 of them diverged"), std::string::npos);
  EXPECT_NE(html.find("one, two"), std::string::npos) << "both machines are named";
  EXPECT_NE(html.find("1.910 ± 0.014"), std::string::npos);
  EXPECT_NE(html.find("+0.020<br><small>-0.107 to +0.147"), std::string::npos) << "alibi at 2 L, two seeds";
}

TEST(Report, WhereEveryRunDivergedItsRowsSaySo) {
  std::vector<Record> records = some_records();
  for (Record& r : records) r.diverged = true, r.losses.clear();
  EXPECT_EQ(count(table(summarize(records).front()), "diverged"), 3u * 6) << table(summarize(records).front());
  EXPECT_NE(report_html(records, "a test").find("<td>diverged</td>"), std::string::npos);
  EXPECT_NE(report_markdown(records, {"a"}).find("| alibi | diverged |"), std::string::npos);
  for (Record& r : records) r.task = kFineTuning, r.settings.tuned_steps = 70, r.settings.tuned_length = 128;
  EXPECT_EQ(count(table(summarize(records).front()), "diverged"), 3u);
}

// Options that were fitted to a task's length are no part of a variant's name.
TEST(Report, AVariantHasOneNameInEveryTask) {
  for (const auto& [scheme, label] : {std::pair("t5(buckets=8)", "t5(buckets=8)"), {"t5", "t5"}, {"shaw(k=5)", "shaw(k=5)"},
                                      {"t5(max_distance=100)", "t5(max_distance=100)"}, {"learned(rows=40)", "learned(rows=40)"},
                                      {"rope(base=500)", "rope(base=500)"}}) {
    for (const int64_t length : {32, 64, 20}) {
      Record r;
      r.name = parse_specification(scheme).name;
      r.scheme = fitted_specification(scheme, length, .02);
      r.settings.train_length = length;
      EXPECT_EQ(label_of(r, true), label) << r.scheme;
      r.task = r.settings.task = "copy";
      r.settings.sequence = length;
      r.settings.train_length = length / 2;
      EXPECT_EQ(label_of(r, true), label) << r.scheme;
    }
  }
}

// Records come from other machines: nothing in them may be run, by a browser or by gnuplot.
TEST(Report, SpeedIsThatOfMostRuns) {
  std::vector<Record> records;
  const double speeds[] = {36000, 800, 38000};
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Record r = some_records().front();
    r.seed = seed;
    r.tokens_per_second = speeds[seed];  // other work on the machine disturbed the second
    r.peak_share = seed == 2 ? 0 : 0.5;  // and nobody measured the peak beside the third
    r.threads = seed == 0 ? 2 : 1;
    records.push_back(r);
  }
  const std::string html = report_html(records, "a test");
  EXPECT_NE(html.find("<td>1 to 2</td><td>36000</td><td>50 %</td>"), std::string::npos);
  records[0].peak_share = records[1].peak_share = 0;
  EXPECT_NE(report_html(records, "").find("<td>36000</td><td>not measured</td>"), std::string::npos);
  const std::string line = table(summarize(records).front());
  EXPECT_NE(line.find("     36000        -\n"), std::string::npos) << line;
}

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
  const std::string markdown = report_markdown(records, {hostile});
  EXPECT_EQ(markdown.find('<'), std::string::npos);
  EXPECT_NE(markdown.find("&lt;script>"), std::string::npos) << "the text is there";
}

// Tasks: loss and recall side by side; what was not learned is in no mean.
TEST(Report, LossBesideRecall) {
  std::vector<Record> records = some_records();
  for (const auto& [name, in_range, beyond] : std::initializer_list<std::tuple<const char*, double, double>>{
           {"alibi", 1, .25}, {"rope", 1, .75}, {"t5", .5, .625}}) {
    Record r;
    r.task = r.settings.task = "recall";
    r.settings.train_length = 16;
    r.name = r.scheme = name;
    r.gate = .99;
    r.exact_match = {{16, in_range}, {32, beyond}};
    records.push_back(r);
  }
  const std::string html = report_html(records, "a test");
  EXPECT_NE(html.find("Loss beside recall"), std::string::npos);
  EXPECT_NE(html.find("Task: recall"), std::string::npos);
  EXPECT_EQ(count(html, "<td>0.250</td>"), 2u) << "beside the loss and in the task's own table";
  EXPECT_EQ(html.find("0.625"), std::string::npos) << "a run that missed the gate";
  EXPECT_NE(html.find("not learned</td>"), std::string::npos);
  EXPECT_EQ(count(html, "Loss against length"), 1u) << "a task is no second comparison";
}

TEST(Report, WhatWasNotMeasuredIsNoNumber) {
  std::vector<Record> records = some_records();
  for (Record& r : records) r.tokens_per_second = 12345, r.peak_share = NAN;
  for (const Summary& summary : summarize(records)) {
    EXPECT_EQ(table(summary).find("nan"), std::string::npos) << table(summary);
    EXPECT_NE(table(summary).find("12345        -\n"), std::string::npos) << table(summary);
  }
  EXPECT_NE(report_html(records, "a test").find("<td>12345</td><td>not measured</td>"), std::string::npos);
}

TEST(Markdown, HasTheTablesAndMarksWhatIsNotLearned) {
  std::vector<Record> records = some_records();
  for (Record& r : records) r.settings.corpus = "a | b";
  Record task;
  task.task = task.settings.task = "copy";
  task.settings.train_length = 20;
  task.gate = .99;
  task.name = task.scheme = "alibi";
  task.exact_match = {{20, 1}, {24, .25}};
  records.push_back(task);
  task.name = task.scheme = "t5";
  task.exact_match = {{20, .5}, {24, .625}};
  records.push_back(task);
  const std::string text = report_markdown(records, {"some.jsonl"});
  for (const char* part : {"[some.jsonl](some.jsonl)", "a \\| b", "| scheme | 1 L | 1.5 L | 2 L |", "| rope | 1.900 | 1.880 | 1.910 |",
                           "3 runs trained, 0 of them diverged", "| scheme | 20 | 24 | not learned |",
                           "| alibi | 1.000 | 0.250 | 0 |", "| t5 | not learned | not learned | 1 |", "## Claims",
                           "Retrieval from far away: **these records cannot say**"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_EQ(text.find("0.625"), std::string::npos) << "a run that missed the gate";
  // Every line of a table has as many cells as its head.
  size_t cells = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') {
      cells = 0;
      continue;
    }
    const size_t here = count(line, "|") - count(line, "\\|");
    EXPECT_EQ(here, cells ? cells : here) << line;
    cells = here;
  }
}

TEST(Pages, OfOneStepAndOfAPermutedSentence) {
  const std::string step = page_of(worked_example("alibi"));
  EXPECT_NE(step.find("<strong>7</strong>"), std::string::npos) << "the textbook's 10 - 0.5 x 6";
  EXPECT_NE(step.find("<td>-3.0000</td>"), std::string::npos);
  EXPECT_EQ(step.find("turned"), std::string::npos);
  EXPECT_NE(page_of(worked_example("rope")).find("<th>turned</th>"), std::string::npos);
  const std::string words = page_of(permuted_sentence("nope", "the <dog> bit the man"));
  EXPECT_NE(words.find("<th>&lt;dog&gt;</th>"), std::string::npos);
  EXPECT_EQ(count(words, "<td>same</td>"), 6u) << "without a mask all five words, under it the first";
  EXPECT_NE(page_of(permuted_sentence("music_transformer", "the dog bit the man")).find("<td>refused</td>"), std::string::npos);
}

TEST(Report, EmptyIsAPageToo) {
  EXPECT_NE(report_html({}, "nothing").find("no records"), std::string::npos);
}

TEST(Report, EscapesAndPictures) {
  EXPECT_EQ(escaped("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
  // Base64 of one, two and three bytes.
  EXPECT_NE(picture("f", "", "").find("base64,Zg==\""), std::string::npos);
  EXPECT_NE(picture("fo", "", "").find("base64,Zm8=\""), std::string::npos);
  EXPECT_NE(picture("foo", "", "").find("base64,Zm9v\""), std::string::npos);
}

TEST(Heatmap, DrawsEveryPair) {
  const std::string svg = heatmap_svg({{"head 0", 2, 3, {0, 1, -1, 0, .5, 0}}}, "<x>");
  EXPECT_EQ(count(svg, "<rect"), 7u);  // the ground and six squares
  EXPECT_NE(svg.find("#b2182b"), std::string::npos);
  EXPECT_NE(svg.find("#2166ac"), std::string::npos);
  EXPECT_NE(svg.find("&lt;x&gt;"), std::string::npos);
}

// Distances: one strip, a shifted copy of it for each row.
TEST(Heatmap, OfDistancesIsSmall) {
  Matrix m{"head 0", 256, 256, {}};
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) m.values.push_back(j > i ? NAN : double(j - i));
  }
  const std::string svg = heatmap_svg({m}, "");
  EXPECT_EQ(count(svg, "<use"), 256u);
  EXPECT_NE(svg.find("<use href=\"#strip0\" x=\"0\" y=\"255\"/>"), std::string::npos) << "the last row";
  EXPECT_EQ(count(svg, "fill=\"#c8c8c8\""), 1u) << "what is masked is one run";
  EXPECT_NE(svg.find("<rect x=\"256\" width=\"255\" height=\"1\" fill=\"#c8c8c8\"/>"), std::string::npos);
  EXPECT_LT(svg.size(), 40000u);
}

}  // namespace
}  // namespace locant::study
