// locant compare: the main job.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "locant/base/check.h"
#include "locant/base/utf8.h"
#include "locant/cli/asked.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/memory.h"
#include "locant/cli/output_path.h"
#include "locant/cli/preset.h"
#include "locant/cli/progress.h"
#include "locant/cli/say.h"
#include "locant/cli/whole.h"
#include "locant/data/tasks.h"
#include "locant/position/registry.h"
#include "locant/simd/peak.h"
#include "locant/study/claims.h"
#include "locant/study/comparison.h"
#include "locant/study/protocol.h"
#include "locant/study/report.h"
#include "locant/study/summary.h"
#include "locant/study/words.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;
using study::Record;

// What is asked, beside what a resumed comparison repeats.
struct CompareArguments : AskedWords {
  std::string out = "locant-compare";
  int64_t threads = 0;
  bool resume = false, json = false, no_report = false;
};

// Prints the table row by row as schemes finish, and the bar in between.
class Printer final : public study::Watcher {
 public:
  Printer(const study::ComparisonOptions& options, bool json, std::function<void()> on_begin)
      : settings_(options.settings), lengths_(study::test_lengths(settings_.train_length)), json_(json),
        show_seeds_(options.seeds.size() > 1), on_begin_(std::move(on_begin)) {
    for (const std::string& scheme : options.schemes) ++variants_[parse_specification(scheme).name];
    for (const std::string& scheme : options.schemes) {
      Record record;
      record.name = parse_specification(scheme).name;
      record.scheme = study::fitted_specification(scheme, settings_.train_length, ModelConfig().initial_deviation);
      record.test_scaling = "yarn";  // the longest there is
      if (variants_[record.name] > 1) label_width_ = std::max(label_width_, int(label(record).size()) + 1);
    }
  }

  void comparison_begins() override { on_begin_(); }

  void run_begins(size_t number, size_t count, const std::string& label, uint64_t seed) override {
    progress_ = std::make_unique<Progress>(fmt::format("{}/{} {} seed {}", number, count, label, seed));
  }
  void run_kept(const std::vector<Record>& records) override {
    if (!kept_++) note("runs already recorded are kept");
    run_ends(records);
  }
  void step_done(int64_t step, int64_t steps, double loss, double rate) override {
    if (progress_) {
      progress_->update(step, steps, fmt::format("training, loss {:.3f}, {:.0f} tokens/s", loss, rate));
    }
  }
  void evaluation(size_t done, size_t count) override {
    if (!evaluating_) {
      evaluating_ = std::make_unique<Progress>("   testing");
      if (progress_) progress_->clear();
    }
    evaluating_->update(int64_t(done), int64_t(count), fmt::format("{} of {} lengths", done, count));
    if (done == count) evaluating_.reset();
  }
  void run_ends(const std::vector<Record>& records) override {
    evaluating_.reset();
    progress_.reset();
    if (!json_) print(records);
    for (const Record& record : records) {
      if (json_) fmt::print("{}\n", study::to_json(record));
      if (record.diverged) note(label(record) + " diverged: " + record.error);
    }
    std::fflush(stdout);
  }
  void note(const std::string& text) override {
    if (progress_) progress_->clear();
    say("{}\n", text);
  }
  bool stop() override { return stop_requested(); }

 private:
  // Rows of a table for each thing that is learned; it begins again where another begins.
  void print(const std::vector<Record>& records) {
    const Record& first = records.front();
    if (first.task == study::kFineTuning && first.diverged) return;
    if (first.task == study::kFineTuning) {
      const auto& losses = first.losses.at(study::kWindows);
      Record trained = first;
      trained.task = study::kLanguageModel;
      trained.test_scaling = "none";
      fmt::print("{} after {} at {} under {}: {:.3f} there{}\n", label(trained),
                 study::counted(first.settings.tuned_steps, "more step"), first.settings.tuned_length,
                 first.test_scaling, losses.begin()->second, seed_text(first));
      return;
    }
    begin_table(first);
    if (first.is_task()) {
      fmt::print("{}{}\n", task_row(first), seed_text(first));
      return;
    }
    for (const study::Summary& summary : study::summarize(records)) {
      for (study::SchemeSummary scheme : summary.schemes) {
        for (const Record& record : records) {
          if (record.scheme == scheme.scheme && record.test_scaling == scheme.test_scaling) scheme.label = label(record);
        }
        fmt::print("{}{}\n", study::table_row(scheme, lengths_, false, label_width_), seed_text(first));
      }
    }
  }
  // With its options where several of its name are compared.
  std::string label(const Record& record) const {
    const auto named = variants_.find(record.name);
    return study::label_of(record, named != variants_.end() && named->second > 1);
  }
  std::string seed_text(const Record& record) const {
    return show_seeds_ ? fmt::format("  seed {}", record.seed) : "";
  }
  std::string task_row(const Record& record) const {
    std::string row = fmt::format("{:<{}}", label(record), label_width_);
    if (record.diverged) return row + "diverged";
    for (const auto& [length, share] : record.exact_match) row += fmt::format("{:>8.3f}", share);
    return row + (record.learned() ? "" : "  not learned");
  }
  void begin_table(const Record& first) {
    if (table_ == first.task) return;
    if (!table_.empty()) fmt::print("\n");
    table_ = first.task;
    if (first.is_task()) {
      const Task& task = task_named(first.task);
      fmt::print("{}: {}. Share of strings answered without a fault, trained up to length {}, {}.\n"
                 "{:<{}}", task.name, task.title, task.longest, study::counted(first.settings.steps, "step"), "scheme",
                 label_width_);
      for (int64_t length : task.test_lengths) fmt::print("{:>8}", length);
      fmt::print("\n");
      return;
    }
    fmt::print("Loss in nats per byte on the test part, read in windows of 1 to 16 L that do not overlap; "
               "trained at L = {}, {}.\n", settings_.train_length, study::counted(settings_.steps, "step"));
    fmt::print("{}\n", study::table_header(settings_, lengths_, false, label_width_));
  }

  study::Settings settings_;
  std::vector<int64_t> lengths_;
  bool json_, show_seeds_;
  std::function<void()> on_begin_;
  std::map<std::string, int> variants_;  // of each name
  int label_width_ = study::kLabelWidth;
  std::string table_;  // the task whose rows are printed
  int kept_ = 0;
  std::unique_ptr<Progress> progress_, evaluating_;
};

void print_claims(const std::vector<Record>& records) {
  const std::vector<study::ClaimResult> claims = study::judge_claims(records);
  const auto tested = [](const study::ClaimResult& c) { return c.verdict != study::Verdict::kNotTested; };
  if (std::none_of(claims.begin(), claims.end(), tested)) {
    // Of sinusoidal alone and of ALiBi alone: one lack for all, or each its own.
    const bool one = claims[0].evidence == claims[1].evidence;
    fmt::print("\nClaims: none is tested by this run ({}).\n",
               one ? claims[0].evidence : "each needs schemes or tasks that it lacks; the report's claims name them");
    return;
  }
  fmt::print("\nClaims (bars frozen before the runs):\n");
  for (const study::ClaimResult& claim : claims) {
    if (!tested(claim)) continue;
    fmt::print("{:>3}  {:<14} {}\n     {}\n", claim.number, study::verdict_text(claim.verdict), claim.claim,
               claim.evidence);
  }
}

// Of equal keys the first.
void add_records(const std::vector<Record>& from, std::vector<Record>& to) {
  for (const Record& record : from) {
    const auto equal = [&](const Record& other) { return other.key() == record.key(); };
    if (std::none_of(to.begin(), to.end(), equal)) to.push_back(record);
  }
}

bool has_text(const Asked& asked) {
  return std::count(asked.tasks.begin(), asked.tasks.end(), study::kLanguageModel) > 0;
}

// What is to be run; it is checked whole before the first step.
std::vector<Asked> requests(const CompareArguments& args) {
  std::vector<Asked> list;
  if (args.resume) {
    list = load_asked(args.out);
    if (list.empty()) {
      fail("compare", "--resume: there is no comparison in ", args.out, " (", asked_path(args.out), " is missing)");
    }
  } else {
    list = {asked_from(args)};
  }
  for (const Asked& asked : list) {
    if (has_text(asked) && asked.corpus.empty()) {
      fail("compare", "--corpus PATH is needed (but for tasks alone): a UTF-8 text file or a folder of them "
           "(`./run compare` brings a default text)");
    }
    // What --resume needs is kept as JSON.
    if (first_invalid_utf8(asked.corpus) != std::string_view::npos) {
      fail("compare", "the path of --corpus must be UTF-8: --resume could not name it; give it another name");
    }
  }
  return list;
}

// A folder is one comparison, from the first request made in it.
void require_one_comparison(const CompareArguments& args, const std::vector<Asked>& list,
                            const std::function<const Corpus&(const Asked&)>& corpus_of) {
  const std::vector<Asked> all = load_asked(args.out);
  for (const Asked& now : list) {
    for (size_t n = 0; n < all.size() && all[n] != now; ++n) {
      const Corpus* corpus = &corpus_of(now);
      try {
        corpus = &corpus_of(all[n]);
      } catch (const std::invalid_argument&) {  // its text is gone; the rest tells
      }
      const std::string parts = difference(all[n], *corpus, now, corpus_of(now));
      if (parts.empty()) continue;
      fail("compare", asked_path(args.out), ": request ", n + 1, " asks for other settings (", parts, "); ",
           args.resume ? "take one of the two out of this file, and ask for it with another --out" : "choose another --out");
    }
  }
}

// Under the tables: what holds for all of them.
void print_end(const std::vector<Record>& records, bool several_seeds) {
  const auto repeats = [](const Record& record) { return !record.repeated_rows.empty(); };
  if (std::any_of(records.begin(), records.end(), repeats)) {
    fmt::print("* the table has no rows there; its last row was repeated\n");
  }
  if (several_seeds) {
    fmt::print("\nMeans over seeds:\n");
    for (const study::Summary& summary : study::summarize(records)) {
      if (!summary.lengths.empty()) fmt::print("{}", study::table(summary));
    }
  }
  print_claims(records);
}

int compare_action(const CompareArguments& args) {
  check_output_folder("compare", {"--out", args.out}, {{"--corpus", args.corpus}});
  const std::vector<Asked> list = requests(args);
  catch_signals();
  const std::unique_ptr<Executor> executor = make_executor(args.threads);
  std::map<std::string, Corpus> corpora{{"", Corpus()}};
  const auto corpus_of = [&](const Asked& asked) -> const Corpus& {
    const std::string path = has_text(asked) ? asked.corpus : "";
    if (!corpora.count(path)) corpora[path] = load_corpus(path);
    return corpora[path];
  };
  require_one_comparison(args, list, corpus_of);
  for (const Asked& asked : list) {
    const Corpus& corpus = corpus_of(asked);
    for (const study::Run& run : study::plan(options_of(asked, args.out), corpus)) {
      if (run.refusal.empty()) require_memory_to_train("compare", run.model_config(corpus));
    }
  }
  const auto can_run = [&](const Asked& asked) {
    try {
      study::plan(options_of(asked, args.out), corpus_of(asked));
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  const double peak = simd::measure_fma_peak(simd::chosen());

  const auto begin = std::chrono::steady_clock::now();
  std::vector<Record> records;
  bool finished = true, several_seeds = false;
  int left_out = 0;
  for (size_t n = 0; n < list.size() && finished; ++n) {
    const Asked& asked = list[n];
    if (list.size() > 1) say("Request {} of {} made in {}\n", n + 1, list.size(), args.out);
    study::ComparisonOptions options = options_of(asked, args.out);
    options.machine = machine_name();
    options.peak_gflops = peak;
    several_seeds |= options.seeds.size() > 1;
    Printer printer(options, args.json, [&] {
      if (!args.resume) save_asked(args.out, with(load_asked(args.out), asked, can_run));
    });
    const study::ComparisonResult result = study::compare(options, corpus_of(asked), *executor, printer);
    add_records(result.records, records);
    finished = result.finished;
    left_out += result.left_out;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  if (!args.json && finished) print_end(records, several_seeds);
  const std::string path = study::records_path(args.out), report = args.out + "/report.html";
  if (!args.no_report && !records.empty()) {
    // Of all that is in the folder, asked for now or before.
    study::write_report(report, study::read_records(path).records, "records.jsonl");
    say("\nReport: {}\nRecords: {}\n", fs::absolute(report).string(), fs::absolute(path).string());
  }
  if (!finished) {
    say("Stopped. Everything finished is kept; go on with: locant compare --resume --out {}\n", args.out);
    return kStopped;
  }
  say("Took {}.\n", duration_text(seconds));
  if (left_out > 0) {
    say("locant: {} left out, as said above\n", left_out == 1 ? "a run was" : fmt::format("{} runs were", left_out));
    return kFailed;
  }
  return kDone;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  auto args = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand(
      "compare", "Train schemes short on a text, test them long, leave a table, records and a report.");
  command->add_option("--schemes", args->schemes,
                      "Comma-separated schemes with options, as in alibi,t5(buckets=32),rope; or all. "
                      "Options you do not name are fitted to the training length.");
  command->add_option("--corpus", args->corpus, "UTF-8 text file, or a folder of them");
  command->add_option("--preset", args->preset, preset_help())->capture_default_str();
  add_whole(command, "--length", args->length, 2, 65536, "Training length L in bytes, tested to 16 L");
  add_whole(command, "--steps", args->steps, 1, 1000000000, "Training steps");
  command->add_option("--tasks", args->tasks,
                      "What is learned, comma-separated: " + join(all_tasks()) +
                          ". Without it, what the preset brings.");
  add_whole(command, "--task-steps", args->task_steps, 1, 1000000000, "Training steps of each task");
  command->add_option("--seeds", args->seeds, "How many (3; 1 to 1000), or which (4,5,6; each 0 to 999999999)");
  add_whole(command, "--threads", args->threads, 0, 1024, "Threads, 0 = all; results do not depend on it");
  command->add_option("--out", args->out, "Folder for records, weights and report")->capture_default_str();
  CLI::Option* resume = command->add_flag("--resume", args->resume, "Go on with everything asked for in --out so far");
  for (const char* name : {"--schemes", "--corpus", "--preset", "--length", "--steps", "--seeds", "--tasks",
                           "--task-steps"}) {
    resume->excludes(command->get_option(name));
  }
  command->add_flag("--json", args->json, "Print each record as a line of JSON instead of the table");
  command->add_flag("--no-report", args->no_report, "Do not write report.html");
  command->footer("Examples:\n  locant compare --corpus book.txt\n"
                  "  locant compare --corpus texts/ --schemes alibi,rope,nope --steps 300 --seeds 3\n"
                  "A comparison that was stopped continues when the same command is given again, or with --resume. What is\n"
                  "asked in the same --out later is added to it: other schemes, seeds or tasks, under the same settings.");
  command->callback([args, command, &action] {
    if (command->count("--schemes") && args->schemes.empty()) {
      throw CLI::ValidationError("--schemes", "is empty; there are: all, or " + join(scheme_names()));
    }
    if (command->count("--tasks") && args->tasks.empty()) {
      throw CLI::ValidationError("--tasks", "is empty; there are: " + join(all_tasks()));
    }
    if (command->count("--seeds") && args->seeds.empty()) throw CLI::ValidationError("--seeds", "is empty; expected a count from 1 to 1000, or seeds, as in 4,5,6");
    action = [args] { return compare_action(*args); };
  });
}

}  // namespace locant::cli
