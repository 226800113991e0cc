#include "locant/cli/asked.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <tuple>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/checkpoint/json.h"
#include "locant/data/tasks.h"
#include "locant/position/options.h"
#include "locant/position/registry.h"
#include "locant/study/json.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

// "0,1,2" or "3" = seeds 0, 1, 2. A single number is a count.
std::vector<uint64_t> parse_seeds(const std::string& text) {
  std::vector<uint64_t> numbers;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string piece = text.substr(begin, end - begin);
    if (piece.empty() || piece.size() > 9 || piece.find_first_not_of("0123456789") != std::string::npos) {
      fail("compare", "--seeds takes a count from 1 to 1000, as in 3, or seeds from 0 to 999999999, as in 4,5,6; got \"",
           text, "\"");
    }
    numbers.push_back(std::stoull(piece));
    begin = end + 1;
  }
  if (numbers.size() > 1) return numbers;
  if (numbers[0] < 1 || numbers[0] > 1000) {
    fail("compare", "--seeds: one number is a count, expected 1 to 1000, got ", text);
  }
  std::vector<uint64_t> seeds;
  for (uint64_t seed = 0; seed < numbers[0]; ++seed) seeds.push_back(seed);
  return seeds;
}

std::vector<std::string> parse_schemes(const std::string& text, const Preset& preset) {
  if (text.empty()) return preset.schemes;
  if (text == "all") return scheme_names();
  std::vector<std::string> list = split_specifications(text);
  if (list.size() > 1 && std::count(list.begin(), list.end(), "all")) {
    fail("compare", "--schemes: all is every scheme and stands alone, got ", text);
  }
  if (list.empty()) fail("compare", "--schemes is empty; there are: all, or ", join(scheme_names()));
  return list;
}

std::vector<std::string> parse_tasks(const std::string& text, const Preset& preset) {
  if (text.empty()) return preset.tasks;
  const std::vector<std::string> known = all_tasks();
  std::vector<std::string> list;
  std::istringstream words(text + ',');
  for (std::string word; std::getline(words, word, ',');) {
    if (std::count(known.begin(), known.end(), word) == 0) {
      fail("compare", "--tasks: ", word.empty() ? "an empty name" : "there is no task " + word, " in \"", text,
           "\"; there are: ", join(known));
    }
    if (std::count(list.begin(), list.end(), word)) fail("compare", "--tasks names ", word, " twice");
    list.push_back(word);
  }
  return list;
}

template <class T>
bool within(const std::vector<T>& part, const std::vector<T>& whole) {
  return std::all_of(part.begin(), part.end(),
                     [&](const T& x) { return std::find(whole.begin(), whole.end(), x) != whole.end(); });
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return within(a, b) && within(b, a);
}

template <class T>
void add(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& x : from) {
    if (std::find(to.begin(), to.end(), x) == to.end()) to.push_back(x);
  }
}

bool within(const Asked& part, const Asked& whole) {
  return within(part.schemes, whole.schemes) && within(part.seeds, whole.seeds) && within(part.tasks, whole.tasks);
}

std::string list_text(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(json_string(word));
  return fmt::format("[{}]", fmt::join(quoted, ","));
}

std::string text_of(const Asked& asked) {
  study::JsonObject json;
  json.raw("schemes", list_text(asked.schemes)).text("corpus", asked.corpus).text("preset", asked.preset);
  json.raw("seeds", fmt::format("[{}]", fmt::join(asked.seeds, ",")));
  json.integer("length", asked.length).integer("steps", asked.steps);
  json.raw("tasks", list_text(asked.tasks)).integer("task_steps", asked.task_steps);
  return json.str();
}

// The field of a request; `path` is the file.
template <class T>
T field(element json, const char* name, const std::string& path) {
  T value;
  if (json[name].get(value)) fail("compare", path, ": field ", name, " is missing or of another type");
  return value;
}

template <class T, class From>
std::vector<T> list_field(element json, const char* name, const std::string& path) {
  std::vector<T> list;
  for (element item : field<simdjson::dom::array>(json, name, path)) {
    From value;
    if (item.get(value)) fail("compare", path, ": field ", name, " holds ", std::string(simdjson::minify(item)));
    list.emplace_back(value);
  }
  return list;
}

Asked request_from(element json, const std::string& path) {
  Asked asked;
  asked.corpus = field<std::string_view>(json, "corpus", path);
  asked.preset = field<std::string_view>(json, "preset", path);
  asked.schemes = list_field<std::string, std::string_view>(json, "schemes", path);
  asked.seeds = list_field<uint64_t, uint64_t>(json, "seeds", path);
  asked.tasks = list_field<std::string, std::string_view>(json, "tasks", path);
  asked.length = field<int64_t>(json, "length", path);
  asked.steps = field<int64_t>(json, "steps", path);
  asked.task_steps = field<int64_t>(json, "task_steps", path);
  return asked;
}

// One request in the words it was made with, as it was kept at first.
Asked old_request_from(element json, const std::string& path) {
  AskedWords words;
  words.schemes = field<std::string_view>(json, "schemes", path);
  words.corpus = field<std::string_view>(json, "corpus", path);
  words.preset = field<std::string_view>(json, "preset", path);
  words.seeds = field<std::string_view>(json, "seeds", path);
  words.length = field<int64_t>(json, "length", path);
  words.steps = field<int64_t>(json, "steps", path);
  if (std::string_view tasks; !json["tasks"].get(tasks)) {
    words.tasks = tasks;
    words.task_steps = field<int64_t>(json, "task_steps", path);
  }
  return asked_from(words);
}

}  // namespace

std::vector<std::string> all_tasks() {
  std::vector<std::string> names{study::kLanguageModel, study::kFineTuning};
  for (const std::string& name : task_names()) names.push_back(name);
  return names;
}

Asked asked_from(const AskedWords& words) {
  const Preset preset = preset_named(words.preset);
  Asked asked;
  fs::path corpus = words.corpus.empty() ? fs::path() : fs::absolute(words.corpus).lexically_normal();
  if (corpus.has_relative_path() && !corpus.has_filename()) corpus = corpus.parent_path();  // "texts/" is "texts"
  asked.corpus = corpus.string();
  asked.preset = words.preset;
  asked.tasks = parse_tasks(words.tasks, preset);
  asked.schemes = parse_schemes(words.schemes, preset);
  asked.seeds = words.seeds.empty() ? preset.seeds : parse_seeds(words.seeds);
  asked.length = words.length ? words.length : preset.settings.train_length;
  asked.steps = words.steps ? words.steps : preset.settings.steps;
  asked.task_steps = words.task_steps ? words.task_steps : preset.effort.steps;
  return asked;
}

study::ComparisonOptions options_of(const Asked& asked, const std::string& out) {
  const Preset preset = preset_named(asked.preset);
  study::ComparisonOptions options;
  options.tasks = asked.tasks;
  options.schemes = asked.schemes;
  options.seeds = asked.seeds;
  options.effort = preset.effort;
  options.effort.steps = asked.task_steps;
  options.settings = preset.settings;
  scale_to_length(options.settings, asked.length);
  set_steps(options.settings, asked.steps);
  options.out = out;
  return options;
}

std::string difference(const Asked& before, const Corpus& its_corpus, const Asked& now, const Corpus& corpus) {
  for (const std::string& task : now.tasks) {
    // A fine-tuned model has the settings of the one it tunes.
    if (task == study::kFineTuning || !within({task}, before.tasks)) continue;
    const study::Settings theirs = study::settings_of(options_of(before, ""), its_corpus, task);
    const std::string parts = theirs.difference(study::settings_of(options_of(now, ""), corpus, task));
    if (!parts.empty()) return task == study::kLanguageModel ? parts : task + ": " + parts;
  }
  return {};
}

std::optional<Asked> joined(const Asked& a, const Asked& b) {
  const auto frame = [](const Asked& x) { return std::tie(x.corpus, x.preset, x.length, x.steps, x.task_steps); };
  if (frame(a) != frame(b)) return std::nullopt;
  if (within(b, a)) return a;
  if (within(a, b)) return b;
  const int differ = !same(a.schemes, b.schemes) + !same(a.seeds, b.seeds) + !same(a.tasks, b.tasks);
  if (differ > 1) return std::nullopt;
  Asked both = a;
  add(both.schemes, b.schemes);
  add(both.seeds, b.seeds);
  add(both.tasks, b.tasks);
  return both;
}

std::vector<Asked> with(std::vector<Asked> list, Asked asked, const std::function<bool(const Asked&)>& can_run) {
  for (size_t n = 0; n < list.size();) {
    const std::optional<Asked> both = joined(list[n], asked);
    if (!both || (*both != list[n] && *both != asked && !can_run(*both))) {
      ++n;
      continue;
    }
    asked = *both;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(n));
    n = 0;  // what it became may take in others
  }
  list.push_back(std::move(asked));
  return list;
}

std::string asked_path(const std::string& out) { return out + "/asked.json"; }

void save_asked(const std::string& out, const std::vector<Asked>& list) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) fail("compare", out, ": cannot be made a folder: ", error.message());
  std::vector<std::string> texts;
  for (const Asked& asked : list) texts.push_back(text_of(asked));
  write_atomically(asked_path(out), fmt::format("{{\"asked\":[{}]}}\n", fmt::join(texts, ",\n")));
}

std::vector<Asked> load_asked(const std::string& out) {
  const std::string path = asked_path(out);
  if (!fs::exists(path)) return {};
  simdjson::dom::parser parser;
  element json;
  if (const auto error = parser.load(path).get(json)) {
    fail("compare", path, ", which holds what was asked for in this folder, is damaged: ", simdjson::error_message(error),
         "; remove it and give the whole command again: nothing that is recorded is trained again");
  }
  simdjson::dom::array requests;
  if (json["asked"].get(requests)) return {old_request_from(json, path)};
  std::vector<Asked> list;
  for (element request : requests) list.push_back(request_from(request, path));
  return list;
}

}  // namespace locant::cli
