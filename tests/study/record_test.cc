// Records: what is written is read back, whatever happened to the file's end.
#include "locant/study/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "locant/study/paired.h"
#include "locant/study/summary.h"

namespace locant::study {
namespace {

Record example() {
  Record r;
  r.scheme = "t5(buckets=32,max_distance=32)";
  r.name = "t5";
  r.seed = 7;
  r.settings.corpus = "a \"quoted\" text.txt";
  r.settings.corpus_fingerprint = "0123456789abcdef";
  r.losses[kWindows] = {{64, 1.9}, {96, 2}, {128, 2.5}, {1024, 1.0 / 3}};
  r.losses[kSliding] = {{64, 1.8}};
  r.test_schemes[128] = "rope(scaling=linear,factor=2)";
  r.repeated_rows = {96, 128};
  r.curve = {{7, 3.5}, {14, 2.25}};
  r.validation = {{70, 2.5}};
  r.tables = {{"layer 0: added to scores", {-1, 0}, {{.5, -.25}, {1, 2}}}};
  r.parameters = 812345;
  r.position_parameters = 128;
  r.tokens_per_second = 12345.678;
  r.peak_share = .61;
  r.threads = 2;
  r.machine = "a machine";
  return r;
}

std::string temporary(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / ("locant_record_test_" + name)).string();
}

TEST(Record, RoundTrip) {
  Record r = example();
  r.seed = ~uint64_t{0};
  r.losses[kSliding] = {{64, NAN}};
  r.diverged = true;
  const Record back = record_from_json(to_json(r), "test");
  EXPECT_EQ(to_json(back), to_json(r));
  EXPECT_EQ(back.seed, ~uint64_t{0});
  EXPECT_EQ(back.losses.at(kWindows).at(1024), 1.0 / 3);
  EXPECT_TRUE(std::isnan(back.losses.at(kSliding).at(64)));
  EXPECT_EQ(back.key(), r.key());
  EXPECT_EQ(back.settings.id(), r.settings.id());
  EXPECT_EQ(back.tables[0].heads, r.tables[0].heads);
}

Record task_example() {
  Record r = example();
  r.task = r.settings.task = "copy";
  r.settings.train_length = 20;
  r.settings.sequence = 41;
  r.settings.examples = 256;
  r.losses.clear();
  r.exact_match = {{20, .9921875}, {24, .5}, {40, 0}};
  r.symbol_match = {{20, .999}, {24, .75}, {40, 1.0 / 3}};
  r.repeated_rows = {24, 40};
  r.gate = .99;
  return r;
}

TEST(Record, TasksAndFineTuningRoundTrip) {
  Record r = task_example();
  const Record back = record_from_json(to_json(r), "test");
  EXPECT_EQ(to_json(back), to_json(r));
  EXPECT_EQ(back.exact_match, r.exact_match);
  EXPECT_EQ(back.symbol_match, r.symbol_match);
  EXPECT_EQ(back.settings.sequence, 41);
  EXPECT_TRUE(back.learned());
  r.exact_match[20] = .989;
  EXPECT_FALSE(r.learned());
  r.exact_match.erase(20);
  EXPECT_FALSE(r.learned()) << "not tested in range";

  Record tuned = example();
  tuned.task = kFineTuning;
  tuned.settings.tuned_steps = 70;
  tuned.settings.tuned_length = 128;
  const Record tuned_back = record_from_json(to_json(tuned), "test");
  EXPECT_EQ(tuned_back.settings.tuned_steps, 70);
  EXPECT_EQ(tuned_back.settings.tuned_length, 128);
  EXPECT_NE(tuned.settings.id(), example().settings.id());
}

// Records of language models keep their settings' names for good: runs go on over versions.
TEST(Record, SettingsOfALanguageModelNeverChangeTheirId) {
  Settings s;
  s.corpus = "kjv.txt";
  s.corpus_fingerprint = "2142d8695f8a9b7e";
  s.warmup = 35;
  s.targets_windows = 49152;
  s.targets_same = 8192;
  s.targets_sliding = 12288;
  EXPECT_EQ(s.id(), "55b9b8ba724188bd") << "as docs/results/quick-3-seeds.jsonl has it";
  EXPECT_EQ(to_json(example()).find("exact_match"), std::string::npos);
}

TEST(Record, DifferenceNamesFieldsOfEither) {
  const Settings model = example().settings, task = task_example().settings;
  EXPECT_NE(model.difference(task).find("sequence none, here 41"), std::string::npos);
  EXPECT_NE(task.difference(model).find("sequence 41, here none"), std::string::npos);
  EXPECT_EQ(model.difference(model), "");
}

TEST(Summary, TasksGoWithEveryComparison) {
  Record a = example(), b = example();
  b.settings.steps = 3;
  const auto summaries = summarize({task_example(), a, b});
  ASSERT_EQ(summaries.size(), 3u);
  EXPECT_EQ(summaries[0].task, "copy");
  for (size_t n : {1, 2}) {
    EXPECT_TRUE(summaries[n].is_text());
    EXPECT_EQ(summaries[n].records.size(), 1u);
    const std::vector<Record> judged = with_tasks(summaries[n], summaries);
    ASSERT_EQ(judged.size(), 2u);
    EXPECT_EQ(judged[0].task, kLanguageModel);
    EXPECT_EQ(judged[1].task, "copy");
  }
  EXPECT_EQ(summarize({task_example()}).size(), 1u);
}

TEST(Record, SettingsDecideTheId) {
  Settings a, b;
  EXPECT_EQ(a.id(), b.id());
  b.steps += 1;
  EXPECT_NE(a.id(), b.id());
}

TEST(Record, FileCutAtEveryByteKeepsTheLinesBefore) {
  const std::string path = temporary("cut.jsonl");
  std::filesystem::remove(path);
  append_records(path, {example()});
  const auto first = std::filesystem::file_size(path);
  Record second = example();
  second.seed = 8;
  append_records(path, {second});
  const auto whole = std::filesystem::file_size(path);
  std::string bytes(whole, '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(whole));
  for (size_t cut = first; cut < whole; cut += 7) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes.substr(0, cut);
    const RecordFile file = read_records(path);
    ASSERT_EQ(file.records.size(), cut + 1 >= whole ? 2u : 1u) << cut;
    EXPECT_EQ(file.notes.size(), cut == first || cut + 1 >= whole ? 0u : 1u) << cut;
    // Work goes on after the cut: the new record stands whole on a line of its own.
    append_records(path, {second});
    const RecordFile after = read_records(path);
    EXPECT_EQ(after.records.back().seed, 8u);
  }
  std::filesystem::remove(path);
}

RecordFile read_text(const std::string& text) {
  const std::string path = temporary("lines.jsonl");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return read_records(path);
}

std::string refusal_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing thrown";
}

// What a file system leaves of a write that was lost with the power.
TEST(Records, NulsAtTheEndAreACutLine) {
  const std::string line = to_json(example());
  for (const std::string& rest : {std::string(4000, '\0'), line.substr(0, 90) + std::string(100, '\0')}) {
    const RecordFile file = read_text(line + "\n" + rest);
    EXPECT_EQ(file.records.size(), 1u);
    ASSERT_EQ(file.notes.size(), 1u);
    EXPECT_NE(file.notes[0].find("line 2: cut off"), std::string::npos) << file.notes[0];
  }
}

// Files merged by `cat`: a cut line may stand anywhere, by itself. With the next record behind it, it is refused,
// wherever it was cut.
TEST(Record, ACutLineIsSaidAndOneThatSwallowedTheNextIsRefused) {
  Record r = example();
  r.machine = "a \\ \"machine\" of Jürgen's, 64€, 𝄞";
  const std::string line = to_json(r), next = to_json(task_example());
  for (size_t cut = 1; cut < line.size(); ++cut) {
    const std::string begin = line.substr(0, cut);
    const RecordFile file = read_text(next + "\n" + begin + (cut % 2 ? "\n" : "\r\n") + next + "\n");
    ASSERT_EQ(file.records.size(), 2u) << begin;
    ASSERT_EQ(file.notes.size(), 1u) << begin;
    EXPECT_NE(file.notes[0].find("line 2: cut off"), std::string::npos) << file.notes[0];
    if (cut % 7 && cut > 25) continue;
    const std::string message = refusal_of(next + "\n" + begin + next + "\n");
    ASSERT_NE(message.find("line 2: a record that was cut off, and another one behind it on the same line"), std::string::npos)
        << begin << "\n" << message;
    EXPECT_NE(message.find(std::to_string(cut + 1)), std::string::npos) << message;
  }
}

// Whole lines that are no record are never left out.
TEST(Record, WrongLinesAreRefused) {
  const std::string good = to_json(example());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    line.replace(line.find(from), from.size(), to);
    return line;
  };
  const struct {
    std::string line, expected;
  } kinds[] = {
      {changed("\"seed\":7", "\"seed\":18446744073709551616"), "number that has no room in 64 bits"},
      {changed("\"seed\":7", "\"seed\":07"), "not JSON from byte"},
      {changed("\"64\":1.9", "\"64\":NaN"), "on: \"NaN,"},
      {changed("\"64\":1.9", "\"64\":Infinity"), "on: \"Infinity,"},
      {changed("\"64\":1.9", "\"64\":-Infinity"), "on: \"Infinity,"},
      {changed("a machine", "a\xff machine"), "not UTF-8 from byte"},
      {changed("a machine", "a\tmachine"), "not JSON from byte"},
      {changed("a machine", "a\\machine"), "not JSON from byte"},
      {changed("\"threads\"", "threads"), "not JSON from byte"},
      {good + "x", "nothing behind the record, which ends at byte " + std::to_string(good.size()) + ", got \"x\""},
      {good + ",", "nothing behind the record"},
      {good + "}", "nothing behind the record"},
      {good + good, "two records on one line; expected a newline before byte " + std::to_string(good.size() + 1)},
      {good + " " + good, "two records on one line"},
      {good.substr(0, 200) + "\xff", "not UTF-8 from byte"},
      {"[" + good, "got something else"},
      {"\xEF\xBB\xBF" + good, "begins with a byte order mark"},
      {"{\"name\":", "got something else"},
  };
  for (const auto& kind : kinds) {
    for (const char* behind : {"", "\n", "\r\n", "\n{\"rec"}) {
      const std::string message = refusal_of(good + "\n" + kind.line + behind);
      EXPECT_NE(message.find("lines.jsonl, line 2: "), std::string::npos) << kind.line << "\n" << message;
      EXPECT_NE(message.find(kind.expected), std::string::npos) << kind.line << "\n" << message;
    }
  }
  EXPECT_EQ(read_text(good + "\r\n\r\n" + good).records.size(), 2u);
}

// Scalings are those the scheme has.
TEST(Record, ScalingsAreTheSchemesOwn) {
  Record r = example();
  r.scheme = r.name = "rope";
  for (const char* label : {"none", "pi", "ntk", "yarn"}) {
    r.test_scaling = label;
    EXPECT_EQ(record_from_json(to_json(r), "test").test_scaling, label);
  }
  r.scheme = r.name = "alibi";
  EXPECT_THROW(record_from_json(to_json(r), "test"), std::invalid_argument) << "ALiBi has no yarn";
}

TEST(Record, WrongRecordsSayWhereAndWhat) {
  const auto message = [](const std::string& line) {
    try {
      record_from_json(line, "file, line 3");
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  EXPECT_NE(message("{").find("file, line 3"), std::string::npos);
  EXPECT_NE(message("[]").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(message("{\"record_version\":99}").find("expected record_version 1, got 99"), std::string::npos);
  std::string json = to_json(example());
  json.replace(json.find("\"seed\""), 6, "\"sead\"");
  EXPECT_NE(message(json).find("field seed"), std::string::npos) << message(json);
}

// One field of a good record changed: the message names the place, the field, what was expected and what came.
TEST(Record, EveryFieldIsHeldAgainstWhatItMayBe) {
  const std::string model = to_json(example()), task = to_json(task_example());
  const struct {
    std::string from, to, field, expected, got;
  } kinds[] = {
      {R"~("64":1.9)~", R"~("64":-5)~", "losses.windows.64", "a loss of 0 or more", "-5"},
      {R"~("64":1.9)~", R"~("64":null)~", "losses.windows.64", "loss of 0 or more", "null"},
      {R"~("64":1.9)~", R"~("64":"x")~", "losses.windows.64", "a loss", "\"x\""},
      {R"~("64":1.9)~", R"~("-7":1.9)~", "losses.windows.-7", "test length", "1.9"},
      {R"~("64":1.9)~", R"~("64k":1.9)~", "losses.windows.64k", "test length", "1.9"},
      {R"~("64":1.9)~", R"~("":1.9)~", "losses.windows.", "test length", "1.9"},
      {R"~("64":1.9)~", R"~("064":1.9)~", "losses.windows.064", "test length", "1.9"},
      {R"~({"64":1.9)~", R"~([{"64":1.9)~", "", "not a JSON", ""},
      {R"~("seed":7)~", R"~("seed":-1)~", "seed", "0 to 2^64 - 1", "-1"},
      {R"~("seed":7)~", R"~("seed":1.5)~", "seed", "an integer", "1.5"},
      {R"~("seed":7)~", R"~("seed":"7")~", "seed", "an integer", "\"7\""},
      {R"~("seed":7,)~", "", "seed", "an integer", "nothing"},
      {R"~("scheme":"t5(buckets=32,max_distance=32)")~", R"~("scheme":"t6")~", "scheme", "there is no scheme 't6'", "\"t6\""},
      {R"~("scheme":"t5(buckets=32,max_distance=32)")~", R"~("scheme":"t5(buckets=32")~", "scheme", "expected ')'", "\"t5(buckets"},
      {R"~("scheme":"t5(buckets=32,max_distance=32)")~", R"~("scheme":"t5(x=1)")~", "scheme", "no option 'x'", "\"t5(x=1)"},
      {R"~("scheme":"t5(buckets=32,max_distance=32)")~", R"~("scheme":["t5"])~", "scheme", "a text", "[\"t5\"]"},
      {R"~("name":"t5")~", R"~("name":"rope")~", "name", "\"t5\"", "\"rope\""},
      {R"~("task":"language_model")~", R"~("task":"poetry")~", "task", "one of language_model, fine_tuning, recall", "\"poetry"},
      {R"~("128":"rope(scaling=linear,factor=2)")~", R"~("128":"rope(scaling=x)")~", "test_schemes.128", "one of", "\"rope(scaling=x)"},
      {R"~("128":"rope)~", R"~("0":"rope)~", "test_schemes.0", "test length", "\"rope"},
      {R"~("repeated_rows":[96)~", R"~("repeated_rows":[-96)~", "repeated_rows[0]", "from 1", "-96"},
      {R"~("curve":[[7,3.5])~", R"~("curve":[[7,3.5,1])~", "curve[0]", "[step, loss]", "[7,3.5,1]"},
      {R"~([14,2.25])~", R"~([7,2.25])~", "curve[1][0]", "a step above 7", "7"},
      {R"~("repeated_rows":[96)~", R"~("repeated_rows":[97)~", "repeated_rows[0]", "a length that was tested", "97"},
      {R"~("train_length":64,"test_scaling")~", R"~("train_length":63,"test_scaling")~", "train_length", "64, as in field settings.train_length", "63"},
      {R"~("steps":700)~", R"~("steps":701)~", "settings_id", "which these settings give", "\""},
      {R"~("test_scaling":"none")~", R"~("test_scaling":"foo")~", "test_scaling", "one of none", "\"foo\""},
      {R"~("error":"")~", R"~("error":"loss <b>")~", "error", "as the run did not diverge", "\"loss <b>\""},
      {R"~("corpus_fingerprint":"01)~", R"~("corpus_fingerprint":"<b>)~", "settings.corpus_fingerprint", "16 hexadecimal digits", "\"<b>"},
      {R"~("curve":[[7,3.5])~", R"~("curve":[[7,"3.5"])~", "curve[0][1]", "a loss", "\"3.5\""},
      {R"~("curve":[[7,3.5])~", R"~("curve":[[7.5,3.5])~", "curve[0][0]", "an integer", "7.5"},
      {R"~("heads":[[0.5,-0.25])~", R"~("heads":[[0.5])~", "tables[0].heads[0]", "2 numbers", "[0.5]"},
      {R"~("train_length":64,"steps")~", R"~("train_length":0,"steps")~", "settings.train_length", "from 1", "0"},
      {R"~("clip":1)~", R"~("clip":"1")~", "settings.clip", "a number", "\"1\""},
      {R"~("diverged":false)~", R"~("diverged":0)~", "diverged", "true or false", "0"},
      {R"~("parameters":812345)~", R"~("parameters":-1)~", "parameters", "at least 0", "-1"},
      {R"~("peak_share":0.61)~", R"~("peak_share":-0.61)~", "peak_share", "at least 0", "-0.61"},
      {R"~("threads":2)~", R"~("threads":0)~", "threads", "from 1", "0"},
      {R"~("losses":{)~", R"~("losses":5,"others":{)~", "losses", "an object", "5"},
      {R"~("20":0.9921875)~", R"~("20":1.5)~", "exact_match.20", "from 0 to 1", "1.5"},
      {R"~("gate":0.99)~", R"~("gate":null)~", "gate", "from 0 to 1", "null"},
  };
  for (const auto& kind : kinds) {
    SCOPED_TRACE(kind.from + " -> " + kind.to);
    std::string json = model.find(kind.from) == std::string::npos ? task : model;
    const size_t at = json.find(kind.from);
    ASSERT_NE(at, std::string::npos);
    json.replace(at, kind.from.size(), kind.to);
    std::string message = "nothing thrown";
    try {
      record_from_json(json, "file, line 3");
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("file, line 3"), std::string::npos) << message;
    const std::string field = kind.field.empty() ? "" : "field " + kind.field + ": expected";
    EXPECT_NE(message.find(field), std::string::npos) << message;
    EXPECT_NE(message.find(kind.expected), std::string::npos) << message;
    EXPECT_NE(message.rfind(kind.got.empty() ? "" : ", got " + kind.got), std::string::npos) << message;
  }
}

TEST(Summary, MeansDeviationsAndOrder) {
  std::vector<Record> records;
  for (uint64_t seed : {0u, 1u, 2u}) {
    Record r = example();
    r.seed = seed;
    r.losses[kWindows] = {{64, 1.0 + double(seed)}};
    records.push_back(r);
    r.test_scaling = "ntk";
    records.push_back(r);
    Record other = r;
    other.test_scaling = "none";
    other.scheme = other.name = "nope";
    other.diverged = seed == 1;
    records.push_back(other);
  }
  records.push_back(records.front());  // merged twice: counts once
  const auto summaries = summarize(records);
  ASSERT_EQ(summaries.size(), 1u);
  ASSERT_EQ(summaries[0].schemes.size(), 3u);
  const SchemeSummary& t5 = summaries[0].schemes[0];
  EXPECT_EQ(t5.label, "t5");
  EXPECT_EQ(summaries[0].schemes[1].label, "t5 + ntk at test");
  EXPECT_EQ(t5.losses.at(kWindows).at(64).mean, 2);
  EXPECT_EQ(t5.losses.at(kWindows).at(64).deviation, 1);
  EXPECT_EQ(t5.losses.at(kWindows).at(64).count, 3);
  EXPECT_EQ(loss_text(t5, kWindows, 64), "2.000 ± 1.000");
  EXPECT_EQ(summaries[0].schemes[2].diverged, 1);
  EXPECT_EQ(summaries[0].schemes[2].losses.at(kWindows).at(64).count, 2);
}

TEST(Summary, VariantsHaveOneNameInEveryTable) {
  std::vector<Record> records;
  for (const char* scheme : {"rope(base=500)", "rope"}) {
    Record r = example();
    r.name = "rope";
    r.scheme = scheme;
    records.push_back(r);
  }
  Record task = records.front();  // of one variant alone
  task.task = task.settings.task = "recall";
  records.push_back(task);
  const auto summaries = summarize(records);
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_EQ(summaries[0].schemes[0].label, "rope(base=500)");
  EXPECT_EQ(summaries[1].schemes[0].label, "rope(base=500)");
}

TEST(Summary, NoNumberFillsALine) {
  Record r = example();
  r.losses[kWindows] = {{64, 1e300}, {128, -0.0}, {256, 999999}};
  const SchemeSummary s = summarize({r}).at(0).schemes.at(0);
  EXPECT_EQ(loss_text(s, kWindows, 64), "1.00e+300");
  EXPECT_EQ(loss_text(s, kWindows, 256), "999999.000");
  EXPECT_EQ(interval_text({-1e300, 2e300, 3}), "-1.00e+300 (-3.00e+300 to +1.00e+300)");
  EXPECT_EQ(interval_text({-0.0, 0, 1}), "-0.000");
}

TEST(Summary, OtherSettingsAreAnotherComparison) {
  Record a = example(), b = example();
  b.settings.steps = 3;
  EXPECT_EQ(summarize({a, b}).size(), 2u);
}

}  // namespace
}  // namespace locant::study
