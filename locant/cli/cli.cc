#include "locant/cli/cli.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/command.h"
#include "locant/cli/memory.h"
#include "locant/cli/say.h"
#include "locant/data/tasks.h"
#include "locant/simd/dispatch.h"
#include "locant/study/version.h"
#include "locant/train/model.h"

namespace locant::cli {
namespace {

std::atomic<bool> stop_flag{false};
std::function<std::string()> said_at_end;  // set before the thread that reads it is made

// The signals that ask for an end. No thread that computes may take one: a signal is put on the stack
// of the thread that takes it, and generated code (oneDNN's) uses the stack pointer for other things.
sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

// `timeout` sends its signal to the process and to its group, and a finger may bounce.
constexpr std::chrono::seconds kOneRequest{1};

void wait_for_signals() {
  const sigset_t set = stop_signals();
  std::chrono::steady_clock::time_point asked_at;
  for (int number = 0; sigwait(&set, &number) == 0;) {
    if (said_at_end) {
      say("{}", said_at_end());
      _exit(kStopped);
    }
    const auto now = std::chrono::steady_clock::now();
    if (!stop_flag.exchange(true)) {
      asked_at = now;
      say("{}locant: stopping, what is done is kept; once more ends it at once\n", isatty(STDERR_FILENO) ? "\n" : "");
      continue;
    }
    if (now - asked_at < kOneRequest) continue;
    std::signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    kill(getpid(), number);
  }
}

int available_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return 1;
}

// How many letters to change, add or leave out from one word to the other.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = corner + (a[i] != b[j]);
      corner = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// The first word must be a command; CLI11 would only say that one is required.
bool knows_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return true;
  const std::string word = argv[1];
  std::string near;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    if (name == word) return true;
    if (edits(word, name) <= 2 && (near.empty() || edits(word, name) < edits(word, near))) near = name;
  }
  say("locant: there is no command \"{}\"{}; `locant --help` lists the commands\n", word,
      near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near));
  return false;
}

// As our own errors are said: "locant: [command] what is wrong".
void say_refused(const CLI::App& app, const std::string& what) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen.front()->get_name();
  say("locant: {}{}\n`locant {}--help` tells more.\n", command.empty() ? "" : "[" + command + "] ", what,
      command.empty() ? "" : command + " ");
}

void say_no_memory() {
  say("locant: not enough memory; {} are free\n", bytes_text(measure::free_memory()));
}

}  // namespace

void catch_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    const sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    // A shell's background job begins with Ctrl-C ignored.
    for (int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, SIG_DFL);
    std::thread(wait_for_signals).detach();
  });
}

void end_on_signals(std::function<std::string()> last_words) {
  said_at_end = std::move(last_words);
  catch_signals();
}

bool stop_requested() { return stop_flag.load(std::memory_order_relaxed); }

std::unique_ptr<Executor> make_executor(int64_t threads) {
  if (threads == 0) threads = available_threads();
  if (threads < 0 || threads > 1024) fail("threads", "must be 0 (all) or 1 to 1024, got ", threads);
  if (threads == 1) return std::make_unique<SerialExecutor>();
  return std::make_unique<ThreadPool>(static_cast<int>(threads));
}

std::vector<std::string> tasks_learned(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Task& task : tasks()) {
    if (task.bytes == config.bytes && task.encoder == config.encoder && task.sequence == config.length) {
      names.push_back(task.name);
    }
  }
  return names;
}

std::string machine_name() {
  std::ifstream in("/proc/cpuinfo");
  std::string line;
  while (std::getline(in, line)) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown";
}

int run(int argc, char** argv) {
  CLI::App app{"Locant: position-aware attention for CPUs. Every way of telling a Transformer where a "
               "token stands, trained short and tested long."};
  app.set_version_flag("--version", study::version());
  app.require_subcommand(1);
  app.footer("Begin with `locant schemes`, then `locant compare`. Exit codes: 0 done, 1 something inside failed, "
             "2 bad input, 130 stopped (all results kept).");
  Action action;
  add_schemes(app, action);
  add_show(app, action);
  add_compare(app, action);
  add_train(app, action);
  add_eval(app, action);
  add_sample(app, action);
  add_report(app, action);
  add_bench(app, action);
  if (!knows_command(app, argc, argv)) return kBadInput;
  // A file that may not grow is then an error with a message, as a full disk is, and leaves no piece behind.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    say_refused(app, error.what());
    return kBadInput;
  }
  if (!simd::override_problem().empty()) {
    say("locant: {}; using {}\n", simd::override_problem(), simd::name(simd::chosen()));
  }
  try {
    const int code = action();
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      say("locant: standard output could not be written: {}\n", std::strerror(errno));
      return kBadInput;
    }
    return code;
  } catch (const std::invalid_argument& error) {
    say("locant: {}\n", error.what());
    return kBadInput;
  } catch (const FileError& error) {
    say("locant: {}\n", error.what());
    return kBadInput;
  } catch (const std::out_of_range& error) {
    say("locant: {}\n", error.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    say_no_memory();
    return kFailed;
  } catch (const std::length_error&) {  // of a container that no memory could hold
    say_no_memory();
    return kFailed;
  } catch (const std::system_error& error) {  // standard output, closed or full
    say("locant: {}\n", error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    say("locant: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace locant::cli
