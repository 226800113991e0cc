// locant bench: the speed of attention calls, and whether they are right.
#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/memory.h"
#include "locant/cli/say.h"
#include "locant/cli/whole.h"
#include "locant/measure/arrays.h"
#include "locant/measure/goals.h"
#include "locant/measure/measure.h"
#include "locant/measure/oracle.h"
#include "locant/measure/probe.h"
#include "locant/study/json.h"
#include "locant/study/words.h"

namespace locant::cli {
namespace {

using measure::Case;
using measure::Wish;

struct BenchArguments {
  std::vector<std::string> cases;
  int64_t rounds = 7;
  bool json = false, check = false, no_plain = false;
};

const std::vector<std::string> kDefaultCases{
    "b1 h8 q2048 d64 fwd",         "b1 h8 q2048 d64 causal fwd",         "b1 h8 q2048 d64 fwd+bwd",
    "b1 h8 q2048 d64 causal fwd+bwd", "b1 h8 q2048 d64 causal t5 fwd+bwd",
};

// Multiply-adds of the oracle that take about a minute.
constexpr double kMuchOracle = 2e10;

// "cases.txt" or "folder/cases", which no case looks like.
bool names_file(const std::string& text) {
  if (std::filesystem::is_regular_file(text)) return true;
  if (text.find_first_of(" =(") != std::string::npos) return false;
  const std::string extension = std::filesystem::path(text).extension();
  return text.find('/') != std::string::npos || extension.find_first_not_of(".0123456789") != std::string::npos;
}

// What is wrong with any is said before the work. An instruction set that is not here is refused in a case of the
// command line; a file may be meant for several machines, so its case is left out and that is said.
std::vector<Wish> wishes_of(const std::vector<std::string>& arguments, bool goals) {
  std::vector<Wish> wishes;
  std::vector<std::string> left_out;
  for (const std::string& text : arguments.empty() ? kDefaultCases : arguments) {
    const bool marked = !text.empty() && text[0] == '@', file = marked || names_file(text);
    for (Wish& wish : file ? measure::read_wishes(text.substr(marked)) : std::vector{measure::parse_wish(text)}) {
      const std::optional<Case> strange = measure::not_here(wish, goals);
      if (!strange) {
        wishes.push_back(std::move(wish));
        continue;
      }
      const std::string problem = fmt::format("case \"{}\": isa={}: this machine and build have {}",
                                              wish.wanted.text(), strange->isa, simd::available_names());
      if (!file) fail("bench", problem);
      left_out.push_back(problem);
    }
  }
  for (const std::string& problem : left_out) say("locant: {}: left out\n", problem);
  if (wishes.empty()) fail("bench", "no case is left: all are for instruction sets of other machines");
  return wishes;
}

// Cases that are through; read by the thread that takes a signal.
std::atomic<size_t> cases_done{0};

// Does a case, unless the memory for it is not there: that is said, and the next case goes on.
template <class Work>
bool with_memory(const Case& c, double bytes, const Work& work) {
  const double free = measure::free_memory();
  std::string have = bytes_text(free) + " are free";
  if (bytes <= free) {
    try {
      work();
      return true;
    } catch (const std::bad_alloc&) {
      have = "the system gave less";
    } catch (const std::length_error&) {
      have = "the system gave less";
    } catch (const std::invalid_argument& error) {
      fail("bench", "case \"", c.text(), "\": ", error.what());
    }
  }
  say("locant: case \"{}\" needs at least {}, {}: left out\n", c.text(), bytes_text(bytes), have);
  return false;
}

// --- speed ----------------------------------------------------------------------------------------

std::string json_of(const Wish& wish, const measure::Result& result) {
  study::JsonObject json;
  json.text("case", result.measured.text());
  for (const char* field : {"median_ms", "best_ms", "gflops", "peak_share", "extra_mb", "vs_plain"}) {
    json.real(field, measure::field_of(result, field));
  }
  if (wish.wanted.decode) json.real("bandwidth_share", result.bandwidth_share);
  std::vector<std::string> goals;
  for (const measure::Verdict& verdict : measure::judge(wish, result)) {
    study::JsonObject goal;
    goal.text("goal", verdict.goal).real("got", verdict.got).raw("reached", verdict.reached ? "true" : "false");
    goals.push_back(goal.str());
  }
  if (!goals.empty()) json.raw("goals", fmt::format("[{}]", fmt::join(goals, ",")));
  return json.str();
}

void print_result(const Wish& wish, const measure::Result& result, int width) {
  const std::string plain = std::isnan(result.vs_plain) ? "-" : fmt::format("{:.3f}", result.vs_plain);
  fmt::print("{:<{}} {:>10.3f} {:>10.3f} {:>8.1f} {:>6.1f} {:>9.1f} {:>8}\n", result.measured.text(), width,
             result.median_ms, result.best_ms, result.gflops, 100 * result.peak_share, result.extra_mb, plain);
  if (wish.wanted.decode) fmt::print("    {:.1f} % of the read bandwidth\n", 100 * result.bandwidth_share);
  for (const measure::Verdict& verdict : measure::judge(wish, result)) {
    fmt::print("    goal {}: got {:.4g}{}\n", verdict.goal, verdict.got, verdict.reached ? "" : "  MISSED");
  }
}

int measure_all(const std::vector<Wish>& wishes, const BenchArguments& args) {
  int width = 4;
  for (const Wish& wish : wishes) width = std::max(width, static_cast<int>(wish.wanted.text().size()));
  if (!args.json) {
    SerialExecutor serial;
    fmt::print("{}, {}, multiply-add peak {:.1f} GFLOP/s a thread; {}\n", machine_name(),
               simd::name(simd::chosen()), measure::fma_peak(serial, 0.1), study::counted(args.rounds, "round"));
    fmt::print("{:<{}} {:>10} {:>10} {:>8} {:>6} {:>9} {:>8}\n", "case", width, "median ms", "best ms", "GFLOP/s",
               "peak %", "extra MB", "vs plain");
  }
  size_t goals = 0, reached = 0;
  bool all = true;
  for (const Wish& wish : wishes) {
    measure::Settings settings;
    settings.rounds = static_cast<int>(args.rounds);
    settings.plain = !args.no_plain;
    settings.beside = measure::beside(wish);
    double bytes = measure::bytes_needed(wish.wanted);
    for (const Case& other : settings.beside) bytes += measure::bytes_needed(other);
    measure::Result result;
    if (!with_memory(wish.wanted, bytes, [&] { result = measure::measure(wish.wanted, settings); })) {
      all = false;
      continue;
    }
    for (const measure::Verdict& verdict : measure::judge(wish, result)) ++goals, reached += verdict.reached;
    if (args.json) {
      fmt::print("{}\n", json_of(wish, result));
    } else {
      print_result(wish, result, width);
    }
    std::fflush(stdout);
    ++cases_done;
  }
  if (goals && !args.json) fmt::print("{} of {} reached\n", reached, study::counted(int64_t(goals), "goal"));
  return all ? kDone : kFailed;
}

// --- correctness ----------------------------------------------------------------------------------

int check_all(const std::vector<Wish>& wishes, const BenchArguments& args) {
  bool right = true;
  for (const Wish& wish : wishes) {
    const Case& c = wish.wanted;
    if (measure::check_cost(c) > kMuchOracle) {
      say("locant: the oracle takes about {} for \"{}\"; a shorter length tells as much\n",
          study::counted(std::llround(std::ceil(measure::check_cost(c) / kMuchOracle)), "minute"), c.text());
    }
    std::vector<measure::Difference> differences;
    if (!with_memory(c, measure::bytes_needed(c, true), [&] { differences = measure::check(c); })) {
      right = false;
      continue;
    }
    const auto worst = std::max_element(differences.begin(), differences.end(),
                                        [](const auto& a, const auto& b) { return a.ratio < b.ratio; });
    const bool fits = worst->ratio <= 1;
    right &= fits;
    if (args.json) {
      std::vector<std::string> arrays;
      for (const measure::Difference& d : differences) {
        study::JsonObject one;
        one.text("name", d.name).real("error", d.error).real("allowed", d.allowed).real("ratio", d.ratio);
        arrays.push_back(one.str());
      }
      study::JsonObject json;
      json.text("case", c.text()).raw("right", fits ? "true" : "false").real("worst_ratio", worst->ratio);
      json.raw("arrays", fmt::format("[{}]", fmt::join(arrays, ",")));
      fmt::print("{}\n", json.str());
    } else {
      fmt::print("{}: {}\n", c.text(), fits ? "right" : "WRONG");
      for (const measure::Difference& d : differences) {
        fmt::print("    {:<28} at worst {:.2e} off where rounding allows {:.2e} ({:.4f})\n", d.name, d.error, d.allowed,
                   d.ratio);
      }
    }
    std::fflush(stdout);
    ++cases_done;
  }
  return right ? kDone : kFailed;
}

int bench_action(const BenchArguments& args) {
  const std::vector<Wish> wishes = wishes_of(args.cases, !args.check);  // whatever is wrong is said before the work
  end_on_signals([count = wishes.size()] {
    return fmt::format("Stopped. {} of {} cases are done.\n", cases_done.load(), count);
  });
  return args.check ? check_all(wishes, args) : measure_all(wishes, args);
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto args = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure attention calls as shares of this machine's peak, or check them against the oracle.");
  command->add_option("case", args->cases, "Cases, each in quotes; or files of them, FILE or @FILE");
  command->add_flag("--check", args->check,
                    "Do not measure: compare each case with the scalar twin in double; exit code 1 when one is wrong "
                    "or left out for want of memory");
  add_whole(command, "--rounds", args->rounds, 1, 100000, "Measurements of each case; the median counts")
      ->capture_default_str();
  command->add_flag("--no-plain", args->no_plain, "Leave the plain case of the same shape out");
  command->add_flag("--json", args->json, "A line of JSON for each case");
  command->footer(
      "A case is a list of words in any order:\n"
      "  b1 h8 q2048 d64  batch, heads, queries, head size; also g key heads, k keys, v value size, t threads\n"
      "  causal  window=W (causal, W keys)  softcap=C  dropout=R\n"
      "  packed (cumulative lengths)  hook (a penalty by tile hook)\n"
      "  decode (over a cache of k tokens; q1 unless it says more)  pages=P (the cache in pages)\n"
      "  t5, shaw(k=16), ...  a scheme of `locant schemes` with its options (five threads are threads=5)\n"
      "  fwd, bwd or fwd+bwd; f32 or bf16; isa=avx2 (an instruction set)\n"
      "Left out, they are b1 h8 q2048 d64, full, no scheme, fwd, one thread.\n"
      "FLOPs are 4 B H Q K D forward, half when causal, backward 2.5 times that; terms are not counted. Shares refer\n"
      "to the multiply-add peak (for bf16 the bf16 dot product's), measured between the rounds. \"vs plain\" is the time against the same shape with\n"
      "nothing added to the scores, interleaved. \"extra MB\" is what a call takes beyond its arguments and results.\n"
      "One thread is measured by its processor time, several by the clock: leave the machine alone then.\n"
      "A line of a file may end in goals: b1 h8 q2048 d64 t5 fwd -> vs_plain <= 1.02 (see bench/goals.txt). Lines with an\n"
      "instruction set that is not here are left out.\n"
      "Examples:\n"
      "  locant bench 'b1 h8 q2048 d64 causal t5 fwd+bwd'\n"
      "  locant bench --json @bench/goals.txt >goals.jsonl\n"
      "  locant bench --check 'b2 h4 g2 q300 d80 causal transformer_xl fwd+bwd'");
  command->callback([args, &action] { action = [args] { return bench_action(*args); }; });
}

}  // namespace locant::cli
