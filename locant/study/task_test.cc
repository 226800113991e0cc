#include "locant/study/task_test.h"

#include <algorithm>
#include <vector>

#include "locant/train/generate.h"

namespace locant::study {
namespace {

constexpr int64_t kTogether = 32;  // questions answered by one thread at a time

using Questions = std::span<const Question>;

// Writes behind the prompts until the longest answer could be complete.
std::vector<std::vector<int32_t>> written(const Model& model, Questions questions) {
  const auto batch = static_cast<int64_t>(questions.size());
  const auto prompt = static_cast<int64_t>(questions[0].prompt.size());
  int64_t longest = 0;
  std::vector<int32_t> tokens;
  for (const Question& q : questions) {
    longest = std::max(longest, static_cast<int64_t>(q.answer.size()));
    tokens.insert(tokens.end(), q.prompt.begin(), q.prompt.end());
  }
  Generator generator(model, batch, prompt + longest, {.reading = {.scheme = "", .repeat_last_row = true}});
  std::vector<std::vector<int32_t>> answers(questions.size());
  Random unused(0);
  for (int64_t n = 0; n < longest; ++n) {
    const std::span<const float> logits = generator.read(tokens);
    const size_t vocabulary = logits.size() / questions.size();
    tokens.clear();
    for (size_t b = 0; b < questions.size(); ++b) {
      tokens.push_back(choose(logits.subspan(b * vocabulary, vocabulary), {.temperature = 0}, unused));
      answers[b].push_back(tokens.back());
    }
  }
  return answers;
}

std::vector<std::vector<int32_t>> read_at_once(const Model& model, Questions questions) {
  const size_t length = questions[0].prompt.size();
  std::vector<int32_t> tokens;
  for (const Question& q : questions) tokens.insert(tokens.end(), q.prompt.begin(), q.prompt.end());
  const std::vector<int32_t> all = answer_everywhere(model, static_cast<int64_t>(questions.size()), tokens,
                                                     {.scheme = "", .repeat_last_row = true});
  std::vector<std::vector<int32_t>> answers;
  for (auto at = all.begin(); at != all.end(); at += static_cast<std::ptrdiff_t>(length)) {
    answers.emplace_back(at, at + static_cast<std::ptrdiff_t>(length));
  }
  return answers;
}

}  // namespace

bool test_task(const Model& model, const Task& task, Executor& executor,
               const std::function<bool(size_t)>& progress, Record& record) {
  const int64_t rows = model.scheme().embeds() ? model.scheme().table_length() : -1;
  size_t done = 0;
  for (const int64_t length : task.test_lengths) {
    const std::vector<Question> questions = test_questions(task, length, record.settings.examples);
    const auto count = static_cast<int64_t>(questions.size());
    const int64_t groups = (count + kTogether - 1) / kTogether;
    std::vector<int64_t> exact(static_cast<size_t>(groups)), right(exact.size()), symbols(exact.size());
    executor.run(groups, [&](int64_t index, int) {
      const auto first = static_cast<size_t>(index * kTogether);
      const auto size = std::min(static_cast<size_t>(kTogether), questions.size() - first);
      const Questions group = Questions(questions).subspan(first, size);
      const auto answers = task.encoder ? read_at_once(model, group) : written(model, group);
      const auto g = static_cast<size_t>(index);
      for (size_t q = 0; q < group.size(); ++q) {
        const std::vector<int32_t>& want = group[q].answer;
        int64_t same = 0;
        for (size_t t = 0; t < want.size(); ++t) same += answers[q][t] == want[t];
        right[g] += same;
        symbols[g] += static_cast<int64_t>(want.size());
        exact[g] += same == static_cast<int64_t>(want.size());
      }
    });
    int64_t all_exact = 0, all_right = 0, all_symbols = 0;
    for (size_t g = 0; g < exact.size(); ++g) {
      all_exact += exact[g];
      all_right += right[g];
      all_symbols += symbols[g];
    }
    record.exact_match[length] = double(all_exact) / double(std::max<int64_t>(1, count));
    record.symbol_match[length] = double(all_right) / double(std::max<int64_t>(1, all_symbols));
    for (const Question& q : questions) {
      // The last token of an answer is written, not read.
      const size_t read = q.prompt.size() + (task.encoder ? 0 : q.answer.size() - 1);
      if (rows >= 0 && static_cast<int64_t>(read) > rows) {
        record.repeated_rows.push_back(length);
        break;
      }
    }
    if (!progress(++done)) return false;
  }
  return true;
}

}  // namespace locant::study
