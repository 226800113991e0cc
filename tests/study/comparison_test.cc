// The main job on a small scale: complete records, the same for any threads, nothing trained twice.
#include "locant/study/comparison.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "locant/base/random.h"
#include "locant/study/protocol.h"

namespace locant::study {
namespace {

// A text with some order in it: a few words in random sequence.
Corpus small_corpus() {
  const char* words[] = {"in ", "the ", "beginning ", "was ", "a ", "word ", "and ", "then ", "another\n"};
  Random random(5);
  std::string text;
  while (text.size() < 24000) text += words[random.below(std::size(words))];
  return corpus_from_text(text, "small.txt");
}

ComparisonOptions small_options(const std::string& out) {
  ComparisonOptions options;
  options.schemes = {"alibi", "rope", "learned"};
  Settings& s = options.settings;
  s.train_length = 16;
  s.steps = 6;
  s.batch = 4;
  s.layers = 2;
  s.width = 16;
  s.heads = 2;
  s.feed_forward = 32;
  s.warmup = 2;
  s.targets_windows = 768;
  s.targets_same = 64;
  s.targets_sliding = 384;
  options.out = out;
  return options;
}

std::string folder(const std::string& name) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("locant_comparison_test_" + name);
  std::filesystem::remove_all(path);
  return path.string();
}

struct Counting : Watcher {
  int begun = 0, kept = 0, steps = 0, stop_after = -1;
  void run_begins(size_t, size_t, const std::string&, uint64_t) override { ++begun; }
  void run_kept(const std::vector<Record>&) override { ++kept; }
  void step_done(int64_t, int64_t, double, double) override { ++steps; }
  bool stop() override { return stop_after >= 0 && steps >= stop_after; }
};

struct Noting : Counting {
  std::string notes;
  void note(const std::string& text) override { notes += text + "\n"; }
};

// What must not depend on threads, machine or time.
std::string numbers_of(std::vector<Record> records) {
  std::string text;
  for (Record& r : records) {
    r.tokens_per_second = r.gflops = r.peak_share = r.train_seconds = r.evaluate_seconds = 0;
    r.memory_mb = 0;
    r.threads = 1;
    r.started.clear();
    text += to_json(r) + "\n";
  }
  return text;
}

TEST(Comparison, LeavesCompleteRecordsAndNeverTrainsTwice) {
  const std::string out = folder("complete");
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Counting first;
  const ComparisonResult result = compare(small_options(out), corpus, executor, first);
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(first.begun, 3);
  ASSERT_EQ(result.records.size(), 6u) << "three schemes, and rope under three scalings";
  for (const Record& r : result.records) {
    const size_t lengths = r.test_scaling == "none" ? 6 : 5;
    for (const char* protocol : {kWindows, kSameTargets, kSliding}) {
      ASSERT_EQ(r.losses.at(protocol).size(), lengths) << r.name << " " << r.test_scaling;
      for (const auto& [length, loss] : r.losses.at(protocol)) EXPECT_TRUE(std::isfinite(loss));
    }
    EXPECT_FALSE(r.diverged);
    EXPECT_EQ(r.repeated_rows.size(), r.name == "learned" ? 5u : 0u);
    EXPECT_GT(r.tokens_per_second, 0);
    if (r.test_scaling == "none") {
      EXPECT_EQ(r.curve.size(), 6u);
      EXPECT_TRUE(std::filesystem::exists(model_path(out, r)));
      // A window of the training length: with one window per end, protocols (i) and (iii) agree at L
      // only in kind; the same targets at L are windows too.
      EXPECT_NEAR(r.losses.at(kWindows).at(16), r.losses.at(kSameTargets).at(16), .5);
    }
  }
  Counting second;
  const ComparisonResult again = compare(small_options(out), corpus, executor, second);
  EXPECT_EQ(second.begun, 0);
  EXPECT_EQ(second.kept, 3);
  EXPECT_EQ(numbers_of(again.records), numbers_of(result.records));
}

ComparisonOptions task_options(const std::string& out) {
  ComparisonOptions options = small_options(out);
  options.schemes = {"rope", "music_transformer"};
  options.tasks = {kLanguageModel, kFineTuning, "recall", "copy", "reverse_encoder"};
  options.effort = {.steps = 4, .batch = 4, .layers = 1, .width = 16, .examples = 3};
  return options;
}

TEST(Comparison, TasksAndFineTuningLeaveRecords) {
  const std::string out = folder("tasks");
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Noting first;
  const ComparisonResult result = compare(task_options(out), corpus, executor, first);
  EXPECT_TRUE(result.finished);
  EXPECT_NE(first.notes.find("fine_tuning: left out for music_transformer: "), std::string::npos) << first.notes;
  EXPECT_NE(first.notes.find("reverse_encoder music_transformer: left out: "), std::string::npos) << first.notes;
  std::map<std::string, int> counts;
  for (const Record& r : result.records) {
    ++counts[r.task + " " + r.name];
    EXPECT_FALSE(r.diverged) << r.error;
    if (r.test_scaling == "none" || r.task == kFineTuning) {
      EXPECT_TRUE(std::filesystem::exists(model_path(out, r))) << r.task;
    }
    if (r.task == kFineTuning) {
      EXPECT_EQ(r.test_scaling, "pi");
      EXPECT_EQ(r.settings.tuned_length, 32);
      ASSERT_EQ(r.losses.at(kWindows).size(), 1u);
      EXPECT_TRUE(std::isfinite(r.losses.at(kWindows).at(32)));
    }
    if (!r.is_task()) continue;
    EXPECT_EQ(r.settings.steps, 4);
    EXPECT_EQ(r.exact_match.size(), task_named(r.task).test_lengths.size());
    EXPECT_FALSE(r.learned()) << "after four steps";
  }
  const std::map<std::string, int> expected{
      {"language_model rope", 4},       {"language_model music_transformer", 1}, {"fine_tuning rope", 1},
      {"recall rope", 1},               {"recall music_transformer", 1},         {"copy rope", 1},
      {"copy music_transformer", 1},    {"reverse_encoder rope", 1}};
  EXPECT_EQ(counts, expected) << "Music Transformer has no encoder and is left out";
  EXPECT_EQ(first.begun, 8);
  Counting second;
  const ComparisonResult again = compare(task_options(out), corpus, executor, second);
  EXPECT_EQ(second.begun, 0);
  EXPECT_EQ(numbers_of(again.records), numbers_of(result.records));
  // Language models alone, and tasks without a text, find their records in the same folder.
  ComparisonOptions some = task_options(out);
  some.tasks = {"copy", "recall"};
  Counting third;
  EXPECT_EQ(compare(some, Corpus(), executor, third).records.size(), 4u);
  EXPECT_EQ(third.begun, 0);
}

TEST(Comparison, TasksStoppedAndResumedOnOtherThreadsEqualOneGo) {
  const Corpus corpus = small_corpus();
  SerialExecutor one;
  ThreadPool three(3);
  Watcher watcher;
  const auto whole = compare(task_options(folder("tasks_whole")), corpus, one, watcher);
  const std::string out = folder("tasks_stopped");
  for (int stop_after : {7, 3, 5, 2, 6, 3}) {
    Counting counting;
    counting.stop_after = stop_after;
    compare(task_options(out), corpus, three, counting);
  }
  const auto rest = compare(task_options(out), corpus, three, watcher);
  EXPECT_EQ(numbers_of(rest.records), numbers_of(whole.records));
}

TEST(Comparison, SameNumbersForAnyThreads) {
  const Corpus corpus = small_corpus();
  SerialExecutor one;
  ThreadPool two(2), three(3);
  Watcher watcher;
  const auto a = compare(small_options(folder("one")), corpus, one, watcher);
  const auto b = compare(small_options(folder("two")), corpus, two, watcher);
  const auto c = compare(small_options(folder("three")), corpus, three, watcher);
  EXPECT_EQ(numbers_of(a.records), numbers_of(b.records));
  EXPECT_EQ(numbers_of(a.records), numbers_of(c.records));
}

TEST(Comparison, StoppedAndResumedEqualsOneGo) {
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Watcher watcher;
  const auto whole = compare(small_options(folder("whole")), corpus, executor, watcher);
  const std::string out = folder("stopped");
  for (int stop_after : {3, 4, 2, 5}) {
    Counting counting;
    counting.stop_after = stop_after;
    compare(small_options(out), corpus, executor, counting);
  }
  const auto rest = compare(small_options(out), corpus, executor, watcher);
  EXPECT_EQ(numbers_of(rest.records), numbers_of(whole.records));
}

// Every piece of work takes at least so long.
class SlowExecutor final : public Executor {
 public:
  explicit SlowExecutor(double seconds) : seconds_(seconds) {}
  int threads() const override { return 1; }
  void run(int64_t count, TaskRef work) override {
    if (seconds_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    for (int64_t n = 0; n < count; ++n) work(n, 0);
  }
  double seconds_;
};

TEST(Comparison, TheFirstStepIsNoPartOfTheRate) {
  struct FirstIsSlow : Watcher {
    explicit FirstIsSlow(SlowExecutor& executor) : executor(executor) {}
    void step_done(int64_t, int64_t, double, double) override { executor.seconds_ = 0; }
    SlowExecutor& executor;
  };
  constexpr double kStart = .2;
  const Corpus corpus = small_corpus();
  for (const int64_t steps : {6, 1}) {
    ComparisonOptions options = small_options(folder("first_step"));
    options.schemes = {"nope"};
    options.settings.steps = steps;
    options.settings.warmup = 0;
    SlowExecutor executor(kStart);
    FirstIsSlow watcher(executor);
    const Record r = compare(options, corpus, executor, watcher).records.front();
    const double tokens = double(options.settings.batch * options.settings.train_length);
    EXPECT_GE(r.train_seconds, kStart);
    // The others took what the first did not.
    if (steps > 1) {
      EXPECT_GE(r.tokens_per_second, tokens * double(steps - 1) / (r.train_seconds - kStart));
    } else {
      EXPECT_NEAR(r.tokens_per_second, tokens / r.train_seconds, 1e-9 * r.tokens_per_second) << "there is no other";
    }
  }
}

// The slow steps before a stop count in the rate after it.
TEST(Comparison, AResumedRunsRateIsOfAllItsTime) {
  constexpr double kSlow = .05;
  const Corpus corpus = small_corpus();
  ComparisonOptions options = small_options(folder("rate"));
  options.schemes = {"nope"};
  SlowExecutor slow(kSlow), quick(0);
  Counting counting;
  counting.stop_after = 3;
  EXPECT_FALSE(compare(options, corpus, slow, counting).finished);
  Watcher watcher;
  const Record r = compare(options, corpus, quick, watcher).records.front();
  const double tokens = double(options.settings.batch * options.settings.train_length);
  EXPECT_GE(r.train_seconds, 3 * kSlow);
  // Two of three slow steps and two of three quick ones are rated.
  EXPECT_LE(r.tokens_per_second, 4 * tokens / (2 * kSlow));
}

// What a kill between the records of a run leaves: the first, or more and a piece of the next. With and
// without the unfinished training, which goes only after the last.
TEST(Comparison, AKillBetweenARunsRecordsLosesNone) {
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  ComparisonOptions options = small_options(folder("between"));
  options.schemes = {"rope", "alibi"};
  Watcher watcher;
  const auto whole = compare(options, corpus, executor, watcher);
  std::ifstream in(records_path(options.out));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<size_t> ends;  // of the lines
  for (size_t n = 0; n < text.size(); ++n) {
    if (text[n] == '\n') ends.push_back(n + 1);
  }
  ASSERT_EQ(ends.size(), 5u) << "rope and its three scalings, alibi";
  struct Case {
    size_t kept;
    bool unfinished;
    int trained_steps;
  };
  for (const Case& c : {Case{ends[0], false, 12}, {ends[2], false, 12}, {ends[2] + 100, true, 6}}) {
    if (c.unfinished) {
      // Stopped after its last step, rope's training is kept.
      ComparisonOptions elsewhere = options;
      elsewhere.out = folder("between_unfinished");
      Counting stopped;
      stopped.stop_after = 6;
      compare(elsewhere, corpus, executor, stopped);
      std::filesystem::copy_file(elsewhere.out + "/unfinished.safetensors",
                                 options.out + "/unfinished.safetensors");
    }
    std::ofstream(records_path(options.out), std::ios::trunc) << text.substr(0, c.kept);
    Counting counting;
    const auto again = compare(options, corpus, executor, counting);
    EXPECT_EQ(counting.begun, 2);
    EXPECT_EQ(counting.steps, c.trained_steps);
    EXPECT_EQ(numbers_of(again.records), numbers_of(whole.records));
    std::map<std::string, int> found;
    for (const Record& record : read_records(records_path(options.out)).records) ++found[record.key()];
    EXPECT_EQ(found.size(), 5u);
    for (const auto& [key, count] : found) EXPECT_EQ(count, 1) << key;
    Counting done;
    compare(options, corpus, executor, done);
    EXPECT_EQ(done.begun, 0);
  }
}

TEST(Comparison, RefusesAFolderOfOtherSettings) {
  const std::string out = folder("other");
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Watcher watcher;
  ComparisonOptions options = small_options(out);
  options.schemes = {"nope"};
  compare(options, corpus, executor, watcher);
  options.settings.steps += 1;
  EXPECT_THROW(compare(options, corpus, executor, watcher), std::invalid_argument);
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Stopped before its first record, there is only a training.
TEST(Comparison, RefusesAFolderWithATrainingOfOtherSettings) {
  const std::string out = folder("other_training"), kept = out + "/unfinished.safetensors";
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Counting stopped, watcher;
  stopped.stop_after = 3;
  compare(small_options(out), corpus, executor, stopped);
  const std::string before = bytes_of(kept);
  ASSERT_FALSE(before.empty());
  ComparisonOptions more_steps = small_options(out);
  more_steps.settings.steps += 1;
  more_steps.schemes = {"nope"};
  EXPECT_THROW(compare(more_steps, corpus, executor, watcher), std::invalid_argument);
  EXPECT_THROW(compare(small_options(out), corpus_from_text(bytes_of(__FILE__), "other.txt"), executor, watcher),
               std::invalid_argument);
  EXPECT_EQ(watcher.begun, 0);
  EXPECT_EQ(bytes_of(kept), before);
  // A task has settings of its own.
  ComparisonOptions task = task_options(out);
  task.tasks = {"recall"};
  compare(task, Corpus(), executor, watcher);
  compare(small_options(out), corpus, executor, watcher);
  EXPECT_EQ(watcher.steps, 2 * 4 + 3 + 2 * 6) << "two of recall; the rest of the one that was stopped, and two more";
}

TEST(Comparison, AStoppedTrainingWaitsForOthersThatAreAskedMeanwhile) {
  const std::string out = folder("aside");
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  const auto with = [&](const std::string& scheme) {
    ComparisonOptions options = small_options(out);
    options.schemes = {scheme};
    return options;
  };
  Counting first, second, through, rest;
  first.stop_after = 3;
  second.stop_after = 2;
  compare(with("alibi"), corpus, executor, first);
  compare(with("nope"), corpus, executor, second);
  compare(with("learned"), corpus, executor, through);
  EXPECT_EQ(through.steps, 6);
  ComparisonOptions other = with("alibi");  // its own training waits, of other settings
  other.out = folder("aside_alone");
  std::filesystem::create_directories(other.out);
  for (const auto& file : std::filesystem::directory_iterator(out)) {
    if (file.path().filename().string().starts_with("unfinished-alibi")) {
      std::filesystem::copy_file(file, std::filesystem::path(other.out) / file.path().filename());
    }
  }
  other.settings.steps += 1;
  EXPECT_THROW(compare(other, corpus, executor, rest), std::invalid_argument);
  compare(with("alibi"), corpus, executor, rest);
  compare(with("nope"), corpus, executor, rest);
  EXPECT_EQ(rest.steps, 3 + 4);
  for (const auto& file : std::filesystem::directory_iterator(out)) {
    EXPECT_FALSE(file.path().filename().string().starts_with("unfinished")) << file.path();
  }
}

TEST(Comparison, AKeptTrainingWithNumbersThatAreNotFiniteBeginsAgain) {
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Watcher watcher;
  const auto whole = compare(small_options(folder("finite")), corpus, executor, watcher);
  const std::string nans(160, '\xff');
  for (const bool front : {true, false}) {  // the weights; the moments
    const std::string out = folder("not_finite"), kept = out + "/unfinished.safetensors";
    Counting stopped;
    stopped.stop_after = 3;
    compare(small_options(out), corpus, executor, stopped);
    std::string bytes = bytes_of(kept);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    bytes.replace(front ? 8 + header : bytes.size() - nans.size(), nans.size(), nans);
    std::ofstream(kept, std::ios::binary) << bytes;
    Noting again;
    const auto result = compare(small_options(out), corpus, executor, again);
    EXPECT_NE(again.notes.find("begun again: [load training] " + kept + " is damaged"), std::string::npos) << again.notes;
    EXPECT_EQ(again.steps, 3 * 6);
    EXPECT_EQ(numbers_of(result.records), numbers_of(whole.records));
  }
}

TEST(Comparison, AModelThatIsGoneLeavesOutWhatNeedsIt) {
  const std::string out = folder("gone");
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Watcher watcher;
  ComparisonOptions options = task_options(out);
  options.tasks = {kLanguageModel};
  const auto trained = compare(options, corpus, executor, watcher);
  const std::string path = model_path(out, trained.records.front()), model = bytes_of(path);
  options.tasks = {kLanguageModel, kFineTuning, "recall"};
  for (const std::string& damage : {std::string(), std::string("no model")}) {
    std::filesystem::remove(path);
    if (!damage.empty()) std::ofstream(path) << damage;
    Noting noting;
    const auto rest = compare(options, corpus, executor, noting);
    EXPECT_TRUE(rest.finished);
    EXPECT_EQ(rest.left_out, 1);
    EXPECT_EQ(rest.records.size(), 4u + 1 + 2) << "language models, recall of both";
    EXPECT_NE(noting.notes.find("rope fine-tuned under pi seed 0: left out: the trained model " + path), std::string::npos)
        << noting.notes;
  }
  // What the note advises.
  std::string lines = bytes_of(records_path(out));
  lines.erase(0, lines.find('\n') + 1);
  std::ofstream(records_path(out), std::ios::trunc) << lines;
  const auto again = compare(options, corpus, executor, watcher);
  EXPECT_EQ(again.left_out, 0);
  EXPECT_EQ(again.records.size(), 4u + 1 + 1 + 2);
  EXPECT_EQ(bytes_of(path), model);
}

TEST(Comparison, OptionsAreFittedUnlessGiven) {
  const std::string fitted = fitted_specification("t5", 64, .02);
  EXPECT_NE(fitted.find("max_distance=32"), std::string::npos) << fitted;
  const std::string given = fitted_specification("t5(max_distance=128)", 64, .02);
  EXPECT_NE(given.find("max_distance=128"), std::string::npos) << given;
  const std::string both = fitted_specification("t5(buckets=32)", 32, .02);
  EXPECT_NE(both.find("buckets=32,max_distance=17"), std::string::npos) << "what was named has its room: " << both;
  EXPECT_NE(fitted_specification("scalar_table", 64, .02).find("clip=63"), std::string::npos);
  EXPECT_NE(fitted_specification("shaw", 64, .02).find("k=16"), std::string::npos);
}

TEST(Comparison, PlanSaysWhatIsWrongBeforeAnythingIsWritten) {
  const Corpus corpus = small_corpus();
  const auto refused = [&](const std::function<void(ComparisonOptions&)>& change) {
    ComparisonOptions options = small_options("/nonexistent/folder");
    change(options);
    EXPECT_THROW(plan(options, corpus), std::invalid_argument);
  };
  refused([](auto& o) { o.schemes = {}; });
  refused([](auto& o) { o.schemes = {"alibi", "alibi"}; });
  refused([](auto& o) { o.schemes = {"no_such_scheme"}; });
  refused([](auto& o) { o.settings.heads = 3; });
  refused([](auto& o) { o.tasks = {"copie"}; });
  refused([](auto& o) { o.tasks = {}; });
  refused([](auto& o) { o.tasks = {kFineTuning, "copy"}; });
  refused([](auto& o) { o.settings.train_length = 4096; });
  refused([](auto& o) { o.schemes = {"rope(width=7)"}; });
}

}  // namespace
}  // namespace locant::study
