// Claims: each must be able to hold and to fail, on numbers made for it.
#include "locant/study/claims.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "locant/study/comparison.h"

namespace locant::study {
namespace {

using Losses = std::map<int64_t, double>;

Record record(const std::string& name, uint64_t seed, const Losses& windows,
              const Losses& same = {}, const std::string& scaling = "none") {
  Record r;
  r.name = name;
  r.scheme = name;
  r.seed = seed;
  r.test_scaling = scaling;
  r.losses[kWindows] = windows;
  if (!same.empty()) r.losses[kSameTargets] = same;
  return r;
}

// Losses at 64, 128, 256, 512, 1024 (training length 64) from the loss at 64 and the deltas.
Losses losses(double at, double d2, double d4, double d8, double d16) {
  return {{64, at}, {128, at + d2}, {256, at + d4}, {512, at + d8}, {1024, at + d16}};
}

// A run in which every claim a language model can test holds.
std::map<std::string, Record> good_run(uint64_t seed) {
  std::map<std::string, Record> run;
  const auto add = [&](const Record& r) {
    run[r.test_scaling == "none" ? r.name : r.name + "+" + r.test_scaling] = r;
  };
  add(record("sinusoidal", seed, losses(1.98, .6, .8, 1.0, 1.1)));
  add(record("learned", seed, losses(1.97, .4, .7, .9, 1.0)));
  add(record("alibi", seed, losses(1.88, -.01, -.015, -.02, -.02), {{96, 1.86}, {1024, 1.865}}));
  add(record("rope", seed, losses(1.82, .1, .5, .95, 1.3)));
  add(record("rope", seed, losses(1.82, .03, .2, .6, .9), {}, "ntk"));
  Record tuned = record("rope", seed, {{128, 1.9}}, {}, "pi");
  tuned.task = kFineTuning;
  run["rope tuned"] = tuned;
  add(record("t5", seed, losses(1.75, -.02, -.02, -.02, 0)));
  add(record("shaw", seed, losses(1.88, 0, .02, .08, .2)));
  add(record("nope", seed, losses(2.11, .07, .2, .34, .43)));
  return run;
}

std::vector<ClaimResult> judged(const std::vector<std::map<std::string, Record>>& runs) {
  std::vector<Record> records;
  for (const auto& run : runs) {
    for (const auto& [name, r] : run) records.push_back(r);
  }
  return judge_claims(records);
}

Verdict verdict(const std::vector<ClaimResult>& results, int number) {
  for (const ClaimResult& result : results) {
    if (result.number == number) return result.verdict;
  }
  ADD_FAILURE() << "no claim " << number;
  return Verdict::kNotTested;
}

TEST(Claims, AllHoldOnARunMadeForThem) {
  const auto results = judged({good_run(0), good_run(1), good_run(2)});
  ASSERT_EQ(results.size(), 13u);
  for (int number : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13}) {
    EXPECT_EQ(verdict(results, number), Verdict::kHolds) << "claim " << number;
    EXPECT_EQ(results[static_cast<size_t>(number - 1)].seeds, 3);
  }
  for (int number : {10, 11}) EXPECT_EQ(verdict(results, number), Verdict::kNotTested);
}

// For each claim one change that must turn it, and in how many of three seeds it is made.
TEST(Claims, EachFailsWhenItsBarIsMissed) {
  using Change = std::function<void(std::map<std::string, Record>&)>;
  const auto set = [](const char* name, int64_t length, double value) {
    return [=](std::map<std::string, Record>& run) {
      run[name].losses[kWindows][length] = value;
    };
  };
  const std::vector<std::tuple<int, int, Change>> changes{
      {1, 1, set("sinusoidal", 128, 1.98 + .29)},  // every seed: one is enough
      {2, 3, set("alibi", 1024, 1.88 + .04)},
      {2, 3, set("alibi", 1024, 1.88 - .16)},
      {3, 3, set("rope", 128, 1.81)},
      {3, 3, set("rope", 128, 1.82 + .61)},
      {3, 3, set("rope", 512, 1.82 + .29)},
      {4, 3, set("t5", 128, 1.76)},
      {4, 3, set("t5", 1024, 1.72)},
      {5, 1, set("shaw", 512, 1.88 - .03)},
      {5, 1, set("nope", 512, 2.11 + .97)},
      {5, 1, set("sinusoidal", 128, 1.98 + .09)},
      {6, 3, [](auto& run) { run["alibi"].losses[kSameTargets][1024] = 1.9; }},
      {6, 3, set("alibi", 1024, 1.89)},
      {7, 3, set("nope", 64, 1.92)},
      {8, 1, [](auto& run) { run["rope+ntk"].losses[kWindows][256] = 3; }},
      {9, 3, [](auto& run) { run["rope tuned"].losses[kWindows][128] = 1.93; }},
      {12, 3, set("learned", 64, 2.01)},
      {13, 3, set("nope", 512, 2.11 + .07)},
  };
  for (const auto& [number, seeds, change] : changes) {
    std::vector<std::map<std::string, Record>> runs{good_run(0), good_run(1), good_run(2)};
    for (int n = 0; n < seeds; ++n) change(runs[static_cast<size_t>(n)]);
    EXPECT_EQ(verdict(judged(runs), number), Verdict::kFails) << "claim " << number;
  }
}

Record task_record(const std::string& task, const std::string& name, uint64_t seed, double at_20, double at_24) {
  Record r;
  r.task = r.settings.task = task;
  r.name = r.scheme = name;
  r.seed = seed;
  r.settings.train_length = 20;
  r.gate = .99;
  r.exact_match = {{20, at_20}, {24, at_24}};
  return r;
}

std::map<std::string, Record> copies(uint64_t seed) {
  std::map<std::string, Record> run;
  for (const char* name : {"alibi", "t5", "nope"}) run[name] = task_record("copy", name, seed, 1, .5);
  for (const char* name : {"rope", "sinusoidal"}) run[name] = task_record("copy", name, seed, .995, .02);
  return run;
}

TEST(Claims, CopyingAmongRunsThatLearned) {
  EXPECT_EQ(verdict(judged({copies(0), copies(1)}), 10), Verdict::kHolds);
  // A run that did not learn says nothing, whatever it does further out; without any it is not tested.
  auto other = copies(1);
  other["rope"] = task_record("copy", "rope", 1, .98, .9);
  auto results = judged({copies(0), other});
  EXPECT_EQ(verdict(results, 10), Verdict::kHolds);
  EXPECT_NE(results[9].evidence.find("1 of 2 not learned"), std::string::npos) << results[9].evidence;
  EXPECT_EQ(results[9].seeds, 1);
  EXPECT_EQ(verdict(judged({other}), 10), Verdict::kNotTested);
  other = copies(1);
  other["rope"].exact_match[24] = .5;
  EXPECT_EQ(verdict(judged({copies(0), other}), 10), Verdict::kFails) << "mean .26";
  other = copies(1);
  other["nope"].exact_match[24] = .05;
  EXPECT_EQ(verdict(judged({other}), 10), Verdict::kFails);
  other.erase("nope");
  EXPECT_EQ(verdict(judged({other}), 10), Verdict::kNotTested);
}

TEST(Claims, EncoderWithoutPositions) {
  const auto run = [](double nope, double rope) {
    return std::map<std::string, Record>{{"nope", task_record("reverse_encoder", "nope", 0, nope, 0)},
                                         {"rope", task_record("reverse_encoder", "rope", 0, rope, 0)}};
  };
  EXPECT_EQ(verdict(judged({run(.01, 1)}), 11), Verdict::kHolds);
  EXPECT_EQ(verdict(judged({run(.06, 1)}), 11), Verdict::kFails);
  auto other = run(.01, 1);
  other["alibi"] = task_record("reverse_encoder", "alibi", 0, .98, 0);
  EXPECT_EQ(verdict(judged({other}), 11), Verdict::kFails) << "alibi has not learned, rope has";
  // A training in which nothing was learned tells nothing; one in which NoPE alone learned does.
  const auto short_run = judged({run(0, .98)});
  EXPECT_EQ(verdict(short_run, 11), Verdict::kNotTested);
  EXPECT_NE(short_run[10].evidence.find("no run of reverse_encoder was learned"), std::string::npos) << short_run[10].evidence;
  EXPECT_EQ(verdict(judged({run(1, .5)}), 11), Verdict::kFails);
  auto alone = run(.01, 1);
  alone.erase("rope");
  EXPECT_EQ(verdict(judged({alone}), 11), Verdict::kNotTested);
}

TEST(Claims, NopeOnTasksJoinsTheLanguageModel) {
  auto run = good_run(0);
  run["copy"] = task_record("copy", "nope", 0, 1, .5);
  EXPECT_EQ(verdict(judged({run}), 13), Verdict::kHolds);
  run["copy"] = task_record("copy", "nope", 0, 1, .2);
  EXPECT_EQ(verdict(judged({run}), 13), Verdict::kFails);
  run["copy"] = task_record("copy", "nope", 0, .9, .2);
  EXPECT_EQ(verdict(judged({run}), 13), Verdict::kHolds) << "not learned: the language model decides";
}

TEST(Claims, MeansAreJudgedWhereTheBarDoesNotAskForEverySeed) {
  std::vector<std::map<std::string, Record>> runs{good_run(0), good_run(1), good_run(2)};
  runs[0]["alibi"].losses[kWindows][1024] = 1.88 + .05;  // the mean stays below +0.03
  EXPECT_EQ(verdict(judged(runs), 2), Verdict::kHolds);
}

TEST(Claims, OfSeveralVariantsTheProtocolsIsJudged) {
  auto run = good_run(0);
  run["alibi"].scheme = fitted_specification("alibi", 64, ModelConfig().initial_deviation);
  Record bad = record("alibi", 0, losses(1.88, .5, .6, .7, .8));
  bad.scheme = fitted_specification("alibi(max_exponent=2)", 64, ModelConfig().initial_deviation);
  for (const char* before_and_behind : {"a", "z"}) {
    auto both = run;
    both[before_and_behind] = bad;
    const auto results = judged({both});
    EXPECT_EQ(verdict(results, 2), Verdict::kHolds) << "where the other comes " << before_and_behind;
    EXPECT_EQ(results[1].evidence.find("judged"), std::string::npos) << results[1].evidence;
  }
  // Neither is the protocol's: the first, and the evidence says which.
  run["alibi"].scheme = fitted_specification("alibi(max_exponent=4)", 64, ModelConfig().initial_deviation);
  run["a"] = bad;
  const auto results = judged({run});
  EXPECT_EQ(verdict(results, 2), Verdict::kFails);
  EXPECT_NE(results[1].evidence.find("alibi is judged as alibi(max_exponent=2)"), std::string::npos)
      << results[1].evidence;
  EXPECT_EQ(results[0].evidence.find("judged"), std::string::npos) << results[0].evidence;
}

TEST(Claims, WhereEveryRunDivergedTheySaySo) {
  auto run = good_run(0);
  for (auto& [name, record] : run) record.diverged = true;
  for (const ClaimResult& result : judged({run})) {
    EXPECT_EQ(result.verdict, Verdict::kNotTested);
    if (result.number == 1) {
      EXPECT_EQ(result.evidence, "every run diverged");
    }
    EXPECT_FALSE(result.evidence.ends_with(": ")) << result.number << ": " << result.evidence;
  }
}

TEST(Claims, MissingOrDivergedRunsAreNotTested) {
  auto run = good_run(0);
  run.erase("sinusoidal");
  EXPECT_EQ(verdict(judged({run}), 1), Verdict::kNotTested);
  EXPECT_EQ(verdict(judged({run}), 2), Verdict::kHolds);
  run = good_run(0);
  run["alibi"].diverged = true;
  EXPECT_EQ(verdict(judged({run}), 2), Verdict::kNotTested);
  const auto results = judged({run, good_run(1)});
  EXPECT_EQ(verdict(results, 2), Verdict::kHolds);
  EXPECT_NE(results[1].evidence.find("1 of 2 seeds"), std::string::npos) << results[1].evidence;
}

}  // namespace
}  // namespace locant::study
