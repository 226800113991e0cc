// The tasks, each a rule that makes a question of a length; and how questions become training strings.
//
// Rules and names follow the length-generalisation literature (Kazemnejad et al. 2023, appendix), with an
// alphabet small enough for small models: 16 symbols a to p, '>' between prompt and answer, '.' at its end.
#include "locant/data/tasks.h"

#include <algorithm>
#include <array>

#include "locant/base/check.h"

namespace locant {
namespace {

constexpr int kSymbols = 16;
const std::string kStringBytes = ".>abcdefghijklmnop";

std::string random_symbols(Random& random, int64_t length) {
  std::string text(static_cast<size_t>(length), 'a');
  for (char& c : text) c = static_cast<char>('a' + random.below(kSymbols));
  return text;
}

std::string reversed(std::string text) {
  std::reverse(text.begin(), text.end());
  return text;
}

// A rule as text: from a random string of the length to prompt and answer.
struct Texts {
  std::string prompt, answer;
};
using Rule = std::function<Texts(Random&, int64_t)>;

Texts copy(Random& random, int64_t n) {
  const std::string text = random_symbols(random, n);
  return {text + '>', text + '.'};
}
Texts copy_twice(Random& random, int64_t n) {
  const std::string text = random_symbols(random, n);
  return {text + '>', text + text + '.'};
}
Texts copy_repeated(Random& random, int64_t n) {
  const std::string text(static_cast<size_t>(n), random_symbols(random, 1)[0]);
  return {text + '>', text + '.'};
}
// The symbol after it in the alphabet, as often.
Texts copy_replaced(Random& random, int64_t n) {
  const auto symbol = random.below(kSymbols);
  const auto other = static_cast<char>('a' + (symbol + 1) % kSymbols);
  const std::string text(static_cast<size_t>(n), static_cast<char>('a' + symbol));
  return {text + '>', std::string(text.size(), other) + '.'};
}
Texts reverse(Random& random, int64_t n) {
  const std::string text = random_symbols(random, n);
  return {text + '>', reversed(text) + '.'};
}
Texts reverse_twice(Random& random, int64_t n) {
  const std::string text = random_symbols(random, n);
  return {text + '>', reversed(text) + reversed(text) + '.'};
}
// How many a there are, in strokes.
Texts count(Random& random, int64_t n) {
  std::string text(static_cast<size_t>(n), 'b');
  for (char& c : text) c = random.below(2) ? 'a' : 'b';
  return {text + '>', std::string(static_cast<size_t>(std::count(text.begin(), text.end(), 'a')), '|') + '.'};
}
// Two numbers of n digits; the sum with its last digit first, so that carries go forward.
Texts addition(Random& random, int64_t n) {
  std::string a(static_cast<size_t>(n), '0'), b(a), sum;
  for (std::string* number : {&a, &b}) {
    for (char& digit : *number) digit = static_cast<char>('0' + random.below(10));
    number->front() = static_cast<char>('1' + random.below(9));
  }
  int carry = 0;
  for (size_t place = a.size(); place-- > 0;) {
    const int digit = a[place] - '0' + (b[place] - '0') + carry;
    sum += static_cast<char>('0' + digit % 10);
    carry = digit / 10;
  }
  if (carry) sum += '1';
  return {a + '+' + b + '>', sum + '.'};
}

std::vector<int32_t> tokens_of(const std::string& bytes, const std::string& text) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    const size_t token = bytes.find(c);
    if (token == std::string::npos) fail("task", "no byte '", std::string(1, c), "' in ", bytes);
    tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

// Reads prompt and answer, is asked for the answer.
TrainingString behind_the_prompt(const Question& question) {
  TrainingString string;
  string.inputs = question.prompt;
  string.inputs.insert(string.inputs.end(), question.answer.begin(), question.answer.end() - 1);
  string.targets.assign(question.prompt.size() - 1, kNothing);
  string.targets.insert(string.targets.end(), question.answer.begin(), question.answer.end());
  return string;
}

// A task of strings: prompt and answer by a rule. `read` tokens are read for a string of n symbols.
Task of_strings(std::string name, std::string title, std::string example, std::string bytes, Rule rule,
                int64_t longest, std::vector<int64_t> test_lengths, int64_t sequence) {
  Task task;
  task.name = std::move(name);
  task.title = std::move(title);
  task.example = std::move(example);
  task.bytes = std::move(bytes);
  task.longest = longest;
  task.test_lengths = std::move(test_lengths);
  task.sequence = sequence;
  task.question = [rule, alphabet = task.bytes](Random& random, int64_t length) {
    const Texts texts = rule(random, length);
    return Question{tokens_of(alphabet, texts.prompt), tokens_of(alphabet, texts.answer)};
  };
  task.training = [question = task.question, longest](Random& random) {
    const auto length = static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(longest)));
    return behind_the_prompt(question(random, length));
  };
  return task;
}

// The encoder's: the answer stands where the string stands, between two marks. Without them a scheme that only
// weighs by distance cannot know where a string ends: weights that sum to one do not tell what was missing.
Task reverse_encoder(std::vector<int64_t> test_lengths) {
  Task task;
  task.name = "reverse_encoder";
  task.title = "reverse a string in its place, all of it seen at once";
  task.example = ">abcd. -> >dcba.";
  task.bytes = kStringBytes;
  task.encoder = true;
  task.steps = 4000;
  task.learning_rate = 2e-3;
  task.sequence = task.longest + 2;
  task.test_lengths = std::move(test_lengths);
  task.question = [bytes = task.bytes](Random& random, int64_t length) {
    const std::string text = random_symbols(random, length);
    return Question{tokens_of(bytes, '>' + text + '.'), tokens_of(bytes, '>' + reversed(text) + '.')};
  };
  task.training = [question = task.question, longest = task.longest](Random& random) {
    const auto length = static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(longest)));
    Question q = question(random, length);
    return TrainingString{std::move(q.prompt), std::move(q.answer)};
  };
  return task;
}

// Recall at a distance: a small letter, a capital and a digit stand somewhere among points and commas; at
// the end a mark asks for one of them (the kind is the key, which of the ten the value). In a test what
// is asked for stands first, so that the length is the distance over which it must be recalled.
constexpr int kKinds = 3, kValues = 10;
constexpr char kFirstOfKind[kKinds] = {'a', 'A', '0'}, kMark[kKinds] = {'?', '!', '#'};
const std::string kFillers = ".,:;";

std::string fillers(Random& random, size_t size) {
  std::string text(size, '.');
  for (char& c : text) c = kFillers[random.below(kFillers.size())];
  return text;
}

char random_value(Random& random, size_t kind) {
  return static_cast<char>(kFirstOfKind[kind] + random.below(kValues));
}

// Different random places in [first, end), one for each kind.
std::array<size_t, kKinds> random_places(Random& random, size_t first, size_t end) {
  std::array<size_t, kKinds> places{};
  for (size_t k = 0; k < kKinds; ++k) {
    do {
      places[k] = first + random.below(end - first);
    } while (std::find(places.begin(), places.begin() + k, places[k]) != places.begin() + k);
  }
  return places;
}

Texts recall_question(Random& random, int64_t length) {
  const size_t asked = random.below(kKinds), size = static_cast<size_t>(length);
  std::string text = fillers(random, size);
  const auto places = random_places(random, 1, size - 1);
  for (size_t kind = 0; kind < kKinds; ++kind) {
    if (kind != asked) text[places[kind]] = random_value(random, kind);
  }
  text.front() = random_value(random, asked);
  text.back() = kMark[asked];
  return {text, text.substr(0, 1)};
}

Task recall(int64_t longest, std::vector<int64_t> test_lengths) {
  Task task;
  task.name = "recall";
  task.title = "recall a letter, a capital or a digit from so many tokens ago";
  task.example = "f.,;7:.B,? -> f";
  task.bytes = "!#,.0123456789:;?ABCDEFGHIJabcdefghij";
  task.shortest = kKinds + 2;
  task.longest = task.sequence = longest;
  task.test_lengths = std::move(test_lengths);
  task.steps = 400;
  task.learning_rate = 3e-3;
  task.question = [bytes = task.bytes](Random& random, int64_t length) {
    const Texts texts = recall_question(random, length);
    return Question{tokens_of(bytes, texts.prompt), tokens_of(bytes, texts.answer)};
  };
  // Values anywhere, then all three asked for in any order: every distance up to the longest is trained.
  task.training = [bytes = task.bytes, longest](Random& random) {
    const size_t size = static_cast<size_t>(longest) - (2 * kKinds - 1);
    std::string text = fillers(random, size);
    const auto places = random_places(random, 0, size);
    for (size_t kind = 0; kind < kKinds; ++kind) text[places[kind]] = random_value(random, kind);
    TrainingString string;
    std::array<size_t, kKinds> order{0, 1, 2};
    for (size_t n = kKinds; n > 1; --n) std::swap(order[n - 1], order[random.below(n)]);
    std::string asked(size, ' ');
    for (const size_t kind : order) {
      const char value = text[places[kind]];
      asked += {value, ' '};
      text += {kMark[kind], value};
    }
    text.pop_back();  // the last answer is not read
    string.inputs = tokens_of(bytes, text);
    for (size_t n = 0; n < text.size(); ++n) {
      string.targets.push_back(asked[n] == ' ' ? kNothing : tokens_of(bytes, asked.substr(n, 1))[0]);
    }
    return string;
  };
  return task;
}

// At 1e-3 9000 steps are not enough for every scheme (docs/protocol.md).
Task copy_task(const std::string& bytes, const std::vector<int64_t>& lengths) {
  Task task = of_strings("copy", "copy a string of random symbols", "abca>abca.", bytes, copy, 20, lengths, 41);
  task.steps = 6000;
  task.learning_rate = 3e-3;
  return task;
}

std::vector<Task> make_tasks() {
  const std::vector<int64_t> lengths{10, 20, 22, 24, 28, 32, 40};
  const std::string strings = kStringBytes;
  return {
      recall(64, {16, 32, 64, 96, 128, 256, 512}),
      copy_task(strings, lengths),
      of_strings("copy_twice", "copy a string of random symbols twice", "abc>abcabc.", strings, copy_twice, 20,
                 lengths, 61),
      of_strings("copy_repeated", "copy a repeated symbol: only its number matters", "ccc>ccc.", strings,
                 copy_repeated, 20, lengths, 41),
      of_strings("copy_replaced", "as often the next symbol of the alphabet", "ccc>ddd.", strings, copy_replaced,
                 20, lengths, 41),
      of_strings("reverse", "reverse a string of random symbols", "abcd>dcba.", strings, reverse, 20, lengths, 41),
      of_strings("reverse_twice", "reverse a string of random symbols twice", "abc>cbacba.", strings,
                 reverse_twice, 20, lengths, 61),
      of_strings("count", "count the a, in strokes", "abba>||.", ".>ab|", count, 20, lengths, 41),
      of_strings("addition", "add two numbers; the sum begins with its last digit", "57+68>521.",
                 "+.0123456789>", addition, 6, {3, 6, 7, 8, 10, 12}, 21),
      reverse_encoder(lengths),
  };
}

}  // namespace

std::string Task::text(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) text += bytes.at(static_cast<size_t>(token));
  return text;
}

std::vector<int32_t> Task::tokens(const std::string& text) const { return tokens_of(bytes, text); }

const std::vector<Task>& tasks() {
  static const std::vector<Task> all = make_tasks();
  return all;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Task& task : tasks()) names.push_back(task.name);
  return names;
}

const Task& task_named(const std::string& name) {
  std::string known;
  for (const Task& task : tasks()) {
    if (task.name == name) return task;
    known += (known.empty() ? "" : ", ") + task.name;
  }
  fail("task", "unknown task ", name, "; there are: ", known);
}

void fill_training(const Task& task, uint64_t seed, uint64_t step, int64_t batch,
                   std::span<int32_t> inputs, std::span<int32_t> targets) {
  const auto row = static_cast<size_t>(task.sequence);
  const size_t expected = static_cast<size_t>(batch) * row;
  Check check("task");
  check.require(batch >= 1 && inputs.size() == expected && targets.size() == expected,
                "inputs and targets must be ", batch, " x ", task.sequence, " tokens, got ", inputs.size(),
                " and ", targets.size());
  check.done();
  // The streams of text batches (data/batches.cc): a run has either.
  Random random(seed, (uint64_t{1} << 63) | step);
  std::fill(inputs.begin(), inputs.end(), task.encoder ? kNothing : 0);
  std::fill(targets.begin(), targets.end(), kNothing);
  for (size_t b = 0; b < static_cast<size_t>(batch); ++b) {
    const TrainingString string = task.training(random);
    if (string.inputs.size() > row) {
      fail("task", task.name, ": a string has ", string.inputs.size(), " tokens, room is for ", row);
    }
    std::copy(string.inputs.begin(), string.inputs.end(), inputs.data() + b * row);
    std::copy(string.targets.begin(), string.targets.end(), targets.data() + b * row);
  }
}

std::vector<Question> test_questions(const Task& task, int64_t length, int64_t count) {
  Check check("task");
  check.require(length >= task.shortest && length <= 1 << 20, task.name, ": a length must be ", task.shortest,
                " to 1048576, got ", length);
  check.require(count >= 0, "the number of questions must not be negative, got ", count);
  check.done();
  Random random(stream_of(task.name), static_cast<uint64_t>(length));
  std::vector<Question> questions;
  for (int64_t n = 0; n < count; ++n) questions.push_back(task.question(random, length));
  return questions;
}

}  // namespace locant
