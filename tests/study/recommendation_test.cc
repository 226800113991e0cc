// The advice follows from the records: other numbers, other advice; no numbers, none.
#include "locant/study/recommendation.h"

#include <gtest/gtest.h>

namespace locant::study {
namespace {

Record record(const std::string& name, uint64_t seed, double at_l, double at_16l,
              const std::string& scaling = "none") {
  Record r;
  r.name = r.scheme = name;
  r.seed = seed;
  r.test_scaling = scaling;
  if (scaling == "none") r.losses[kWindows][64] = at_l;
  r.losses[kWindows][1024] = at_16l;
  return r;
}

std::vector<Advice> advised(const std::vector<Record>& records) {
  const std::vector<Summary> all = summarize(records);
  return recommend(all.at(0), all);
}

const Advice& advice_for(const std::vector<Advice>& all, const std::string& word) {
  for (const Advice& a : all) {
    if (a.use.find(word) != std::string::npos) return a;
  }
  static const Advice none;
  ADD_FAILURE() << "no advice for " << word;
  return none;
}

std::string text_of(const Advice& advice) {
  std::string text;
  for (const std::string& reason : advice.reasons) text += reason + " ";
  return text;
}

TEST(Recommendation, LongReadingTakesTheLowestLossFarOut) {
  std::vector<Record> records;
  for (uint64_t seed : {0, 1, 2}) {
    const double shift = .01 * double(seed);
    records.push_back(record("alibi", seed, 1.80 + shift, 1.790 + shift));
    // Lower at L, higher far out; not told apart in one, apart in the other.
    records.push_back(record("t5", seed, 1.70 + shift, 1.795 + shift + (seed == 1 ? -.02 : 0)));
    records.push_back(record("rope", seed, 1.60 + shift, 2.600 + shift));
    records.back().position_parameters = 0;
  }
  const Advice a = advice_for(advised(records), "long reading");
  EXPECT_EQ(a.choice, "t5");
  EXPECT_NE(text_of(a).find("not tell apart from it: alibi +0.002 ("), std::string::npos) << text_of(a);
  EXPECT_NE(text_of(a).find("rope +1.00"), std::string::npos) << text_of(a);

  for (Record& r : records) {
    if (r.name == "t5") r.losses[kWindows][1024] = 1.9 + .01 * double(r.seed);
  }
  const Advice b = advice_for(advised(records), "long reading");
  EXPECT_EQ(b.choice, "alibi");
  EXPECT_EQ(text_of(b).find("not tell apart"), std::string::npos) << text_of(b);
}

TEST(Recommendation, TheCheaperOfThoseNotToldApartIsNamed) {
  std::vector<Record> records{record("t5", 0, 1.7, 1.700), record("alibi", 0, 1.7, 1.710)};
  records[0].position_parameters = 128;
  const Advice a = advice_for(advised(records), "long reading");
  EXPECT_EQ(a.choice, "t5");
  EXPECT_NE(text_of(a).find("fewest position parameters among these: alibi (0; t5 has 128)"), std::string::npos)
      << text_of(a);
}

TEST(Recommendation, StretchingComparesTheScalings) {
  std::vector<Record> records{record("rope", 0, 1.8, 2.6), record("rope", 0, 0, 2.4, "ntk"),
                              record("rope", 0, 0, 3.5, "pi")};
  const Advice a = advice_for(advised(records), "RoPE");
  EXPECT_EQ(a.choice, "ntk");
  EXPECT_NE(text_of(a).find("At 16 L ntk: 2.400, -0.200 from none."), std::string::npos) << text_of(a);
  EXPECT_NE(text_of(a).find("None stays within 0.05"), std::string::npos) << text_of(a);
  records[1].losses[kWindows][1024] = 1.82;
  EXPECT_NE(text_of(advice_for(advised(records), "RoPE")).find("up to 16 L"), std::string::npos);
  records[0].losses[kWindows][1024] = 1.81;
  EXPECT_EQ(advice_for(advised(records), "RoPE").choice, "none");
}

TEST(Recommendation, WhatIsNotThereIsNotAdvised) {
  const auto all = advised({record("alibi", 0, 1.8, 1.8)});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(advice_for(all, "Retrieval").choice, "");
  EXPECT_NE(text_of(advice_for(all, "Retrieval")).find("recall"), std::string::npos);
  EXPECT_EQ(advice_for(all, "encoder").choice, "");
  EXPECT_EQ(advice_for(all, "RoPE").choice, "");

  Record diverged = record("rope", 0, 0, 0);
  diverged.losses.clear();
  diverged.diverged = true;
  diverged.settings.steps = 1000;
  for (const Advice& a : advised({diverged})) {
    EXPECT_EQ(a.choice, "") << a.use;
    EXPECT_EQ(text_of(a).find("700"), std::string::npos) << "1000 steps are enough: " << text_of(a);
  }
  EXPECT_EQ(text_of(advice_for(advised({diverged}), "long reading")), "Every run diverged. ");
}

Record answers(const std::string& task, const std::string& name, uint64_t seed, double in_range, double beyond) {
  Record r;
  r.task = r.settings.task = task;
  r.settings.encoder = task == "reverse_encoder";
  r.settings.train_length = 20;
  r.name = r.scheme = name;
  r.seed = seed;
  r.gate = .99;
  r.exact_match = {{20, in_range}, {24, beyond}};
  return r;
}

TEST(Recommendation, RetrievalAsksTheRecallTask) {
  std::vector<Record> records{record("alibi", 0, 1.8, 1.7), record("rope", 0, 1.8, 2.7)};
  for (uint64_t seed : {0, 1}) {
    records.push_back(answers("recall", "alibi", seed, 1, .2));
    records.push_back(answers("recall", "rope", seed, 1, .9));
    records.push_back(answers("recall", "t5", seed, .5, .95));  // far out right, but the gate was missed
    records.push_back(answers("reverse_encoder", "nope", seed, .1, 0));
    records.push_back(answers("reverse_encoder", "shaw", seed, 1, .1));
  }
  const auto all = advised(records);
  const Advice& far = advice_for(all, "Retrieval");
  EXPECT_EQ(far.choice, "rope");
  EXPECT_NE(text_of(far).find("0.900 ± 0.000 at 24"), std::string::npos) << text_of(far);
  EXPECT_NE(text_of(far).find("Not learned in range, so nothing is said of: t5"), std::string::npos) << text_of(far);
  const Advice& encoder = advice_for(all, "encoder");
  EXPECT_EQ(encoder.choice, "shaw");
  EXPECT_NE(text_of(encoder).find("less than half"), std::string::npos) << text_of(encoder);
  EXPECT_EQ(advice_for(all, "long reading").choice, "alibi") << "tasks do not disturb the losses";
}

// Many schemes may answer everything: none of them is the choice, but their losses differ.
TEST(Recommendation, RetrievalNamesAllThatAnswerAlike) {
  std::vector<Record> records;
  double far_loss = 2.5;
  for (const char* name : {"sinusoidal", "nope", "t5", "shaw"}) {
    records.push_back(record(name, 0, 1.8, far_loss -= .2));
    records.push_back(answers("recall", name, 0, 1, 1));
  }
  records.push_back(record("alibi", 0, 1.8, 1.7));
  records.push_back(answers("recall", "alibi", 0, 1, .5));
  const Advice all = advice_for(advised(records), "Retrieval");
  EXPECT_EQ(all.choice, "4 of 5 schemes alike");
  for (const char* part : {"each of: sinusoidal, nope, t5, shaw.", "Of these shaw has the lowest loss",
                           "Worse at 24: alibi 0.500"}) {
    EXPECT_NE(text_of(all).find(part), std::string::npos) << part << " in " << text_of(all);
  }
  records[3].exact_match[24] = records[5].exact_match[24] = .9;
  EXPECT_EQ(advice_for(advised(records), "Retrieval").choice, "sinusoidal or shaw");
}

// The others are paired with the best: of those that answer alike the one with most seeds, or too few pairs hide
// what the numbers show.
TEST(Recommendation, OfEqualsTheOneThatLearnedItInMostSeedsIsPaired) {
  std::vector<Record> records{record("learned", 0, 1.8, 2.7), record("deberta", 0, 1.8, 1.7), record("rope", 0, 1.8, 2.5)};
  const double rope[] = {.3, .17, .4};
  for (uint64_t seed : {0, 1, 2}) {
    records.push_back(answers("recall", "learned", seed, seed == 1 ? .5 : 1, 1));
    records.push_back(answers("recall", "deberta", seed, 1, 1));
    records.push_back(answers("recall", "rope", seed, 1, rope[seed]));
  }
  const Advice a = advice_for(advised(records), "Retrieval");
  EXPECT_EQ(a.choice, "deberta");
  for (const char* part : {"1.000 ± 0.000 at 24 (3 seeds)", "Worse at 24: rope 0.290 ± 0.115.",
                           "Learned in fewer seeds, with the same numbers there: learned (2 of 3 seeds)."}) {
    EXPECT_NE(text_of(a).find(part), std::string::npos) << part << " in " << text_of(a);
  }
  EXPECT_EQ(text_of(a).find("tell"), std::string::npos) << text_of(a);
}

TEST(Recommendation, TooFewSeedsAreNoEquality) {
  std::vector<Record> records{record("deberta", 0, 1.8, 1.7)};
  const double t5[] = {.9, .9, 1}, shaw[] = {.99, 1, 1}, nope[] = {.2, .7, .9};
  for (uint64_t seed : {0, 1, 2}) {
    records.push_back(answers("recall", "deberta", seed, 1, 1));
    records.push_back(answers("recall", "rope", seed, seed == 1 ? .5 : 1, seed ? .4 : .2));
    records.push_back(answers("recall", "t5", seed, seed == 2 ? 1 : .5, t5[seed]));
    records.push_back(answers("recall", "shaw", seed, 1, shaw[seed]));
    records.push_back(answers("recall", "nope", seed, 1, nope[seed]));
  }
  records.push_back(answers("recall", "alibi", 7, 1, .5));
  const Advice a = advice_for(advised(records), "Retrieval");
  for (const char* part : {"these runs do not tell apart from it: shaw -0.003 (-0.018 to +0.011).",
                           "At 24 so few seeds leave open whether these are worse: "
                           "nope 0.600 ± 0.361, -0.400 (-1.296 to +0.496); alibi 0.500, no seed in common; "
                           "rope 0.300 ± 0.141, -0.700 (-1.971 to +0.571) on 2 of 3 seeds."}) {
    EXPECT_NE(text_of(a).find(part), std::string::npos) << part << " in " << text_of(a);
  }
  EXPECT_EQ(text_of(a).find("Worse"), std::string::npos) << text_of(a);
  EXPECT_NE(text_of(a).find("Learned in fewer seeds, with the same numbers there: t5 (1 of 3 seeds)."), std::string::npos) << text_of(a);
}

TEST(Recommendation, NothingLearnedNothingAdvised) {
  const auto all = advised({record("alibi", 0, 1.8, 1.7), answers("recall", "alibi", 0, .4, .1)});
  EXPECT_EQ(advice_for(all, "Retrieval").choice, "");
  EXPECT_NE(text_of(advice_for(all, "Retrieval")).find("No scheme learned recall"), std::string::npos);
}

TEST(Recommendation, FewStepsAdviseNothing) {
  std::vector<Record> records{record("alibi", 0, 1.8, 1.8), record("rope", 0, 1.8, 2.6),
                              record("rope", 0, 0, 2.4, "ntk")};
  for (Record& r : records) r.settings.steps = 60;
  for (const Advice& a : advised(records)) EXPECT_EQ(a.choice, "") << a.use;
}

}  // namespace
}  // namespace locant::study
