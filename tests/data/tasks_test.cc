// Tasks: every rule against its own words, the same for every run, nothing asked but answers.
#include "locant/data/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace locant {
namespace {

class EveryTask : public testing::TestWithParam<std::string> {
 protected:
  const Task& task = task_named(GetParam());
};

TEST_P(EveryTask, AlphabetLengthsAndExample) {
  EXPECT_TRUE(std::is_sorted(task.bytes.begin(), task.bytes.end()));
  EXPECT_EQ(std::adjacent_find(task.bytes.begin(), task.bytes.end()), task.bytes.end());
  EXPECT_TRUE(std::is_sorted(task.test_lengths.begin(), task.test_lengths.end()));
  EXPECT_TRUE(std::count(task.test_lengths.begin(), task.test_lengths.end(), task.longest));
  EXPECT_GE(std::count_if(task.test_lengths.begin(), task.test_lengths.end(),
                          [&](int64_t n) { return n > task.longest; }), 3) << "several lengths beyond";
  for (const Task& other : tasks()) {
    if (&other != &task) {
      EXPECT_NE(other.name, task.name);
    }
  }
}

// What answer a prompt has, worked out here from the prompt alone.
std::string expected(const std::string& name, const std::string& prompt) {
  if (name == "recall") {
    const bool capital = prompt.back() == '!', digit = prompt.back() == '#';
    std::string found;
    for (const char c : prompt) {
      const auto byte = static_cast<unsigned char>(c);
      if (capital ? std::isupper(byte) : digit ? std::isdigit(byte) : std::islower(byte)) found += c;
    }
    EXPECT_EQ(found.size(), 1u) << "one of the kind: " << prompt;
    return found;
  }
  if (name == "reverse_encoder") {
    EXPECT_TRUE(prompt.starts_with('>') && prompt.ends_with('.')) << prompt << " needs both its ends marked";
    return ">" + std::string(prompt.rbegin() + 1, prompt.rend() - 1) + ".";
  }
  const std::string text = prompt.substr(0, prompt.size() - 1);  // without '>'
  const std::string backwards(text.rbegin(), text.rend());
  if (name == "copy" || name == "copy_repeated") return text + ".";
  if (name == "copy_twice") return text + text + ".";
  if (name == "copy_replaced") {
    return std::string(text.size(), text[0] == 'p' ? 'a' : static_cast<char>(text[0] + 1)) + ".";
  }
  if (name == "reverse") return backwards + ".";
  if (name == "reverse_twice") return backwards + backwards + ".";
  if (name == "count") {
    return std::string(static_cast<size_t>(std::count(text.begin(), text.end(), 'a')), '|') + ".";
  }
  if (name == "addition") {
    const size_t plus = text.find('+');
    const std::string sum = std::to_string(std::stoll(text.substr(0, plus)) + std::stoll(text.substr(plus + 1)));
    return std::string(sum.rbegin(), sum.rend()) + ".";
  }
  ADD_FAILURE() << "no rule for " << name;
  return "";
}

TEST_P(EveryTask, AnswersFollowTheRule) {
  for (const int64_t length : task.test_lengths) {
    const auto questions = test_questions(task, length, 40);
    ASSERT_EQ(questions.size(), 40u);
    std::set<std::string> different;
    for (const Question& q : questions) {
      const std::string prompt = task.text(q.prompt);
      EXPECT_EQ(q.prompt.size(), questions[0].prompt.size()) << "prompts of one length are read together";
      EXPECT_EQ(task.text(q.answer), expected(task.name, prompt)) << prompt;
      EXPECT_EQ(task.tokens(prompt), q.prompt);
      different.insert(prompt);
      if (task.name == "recall") {
        EXPECT_EQ(static_cast<int64_t>(prompt.size()), length);
        EXPECT_EQ(prompt.substr(0, 1), task.text(q.answer)) << "it stands at the beginning";
      }
    }
    EXPECT_GT(different.size(), 5u);
    const auto again = test_questions(task, length, 3);
    for (size_t n = 0; n < 3; ++n) EXPECT_EQ(again[n].prompt, questions[n].prompt);
  }
  EXPECT_THROW(test_questions(task, 0, 1), std::invalid_argument);
}

TEST_P(EveryTask, TrainingAsksForAnswersOnly) {
  const auto row = static_cast<size_t>(task.sequence);
  const int64_t batch = 64;
  std::vector<int32_t> inputs(static_cast<size_t>(batch) * row), targets(inputs.size());
  size_t longest = 0;
  for (uint64_t step = 0; step < 20; ++step) {
    fill_training(task, 5, step, batch, inputs, targets);
    for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
      const auto input = std::span(inputs).subspan(b * row, row);
      const auto target = std::span(targets).subspan(b * row, row);
      size_t last = row;
      while (last > 0 && target[last - 1] == kNothing) --last;
      ASSERT_GT(last, 0u) << "nothing is asked";
      longest = std::max(longest, last);
      const std::string text = task.text(input.first(last));
      if (task.encoder) {
        EXPECT_EQ(task.text(target.first(last)), expected(task.name, text));
        for (size_t t = last; t < row; ++t) EXPECT_EQ(input[t], kNothing) << "padding";
        continue;
      }
      for (size_t t = 0; t < last; ++t) {
        if (t + 1 < last && target[t] != kNothing) {
          EXPECT_EQ(target[t], input[t + 1]) << "is also read";
        }
      }
      if (task.name == "recall") {
        for (size_t t = 0; t < last; ++t) {
          if (target[t] == kNothing) continue;
          EXPECT_EQ(task.text(target.subspan(t, 1)), expected("recall", text.substr(0, t + 1))) << text;
        }
        EXPECT_EQ(last, row);
      } else {
        const size_t prompt = text.find('>') + 1;
        for (size_t t = 0; t + 1 < prompt; ++t) EXPECT_EQ(target[t], kNothing);
        EXPECT_EQ(task.text(target.subspan(prompt - 1, last - prompt + 1)),
                  expected(task.name, text.substr(0, prompt)));
      }
    }
  }
  // A string of nothing but a is rare.
  if (task.name != "count") {
    EXPECT_EQ(longest, row) << "the sequence is as long as the longest string";
  }
}

TEST_P(EveryTask, TrainingFollowsSeedAndStep) {
  const auto row = static_cast<size_t>(task.sequence);
  const auto strings = [&](uint64_t seed, uint64_t step) {
    std::vector<int32_t> inputs(8 * row), targets(8 * row);
    fill_training(task, seed, step, 8, inputs, targets);
    return inputs;
  };
  EXPECT_EQ(strings(1, 7), strings(1, 7));
  EXPECT_NE(strings(1, 7), strings(1, 8));
  EXPECT_NE(strings(1, 7), strings(2, 7));
  std::vector<int32_t> small(3);
  EXPECT_THROW(fill_training(task, 1, 1, 8, small, small), std::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Tasks, EveryTask, testing::ValuesIn(task_names()));

TEST(Tasks, UnknownNamesAreRefused) {
  try {
    task_named("copie");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("copy_twice"), std::string::npos) << error.what();
  }
  EXPECT_THROW(task_named("copy").tokens("copy!"), std::invalid_argument);
}

}  // namespace
}  // namespace locant
