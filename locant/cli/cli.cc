#include "locant/cli/cli.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/command.h"
#include "locant/cli/say.h"
#include "locant/simd/dispatch.h"
#include "locant/study/version.h"

namespace locant::cli {
namespace {

std::atomic<bool> stop_flag{false};

// The signals that ask for an end. No thread that computes may take one: a signal is put on the stack
// of the thread that takes it, and generated code (oneDNN's) uses the stack pointer for other things.
sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
  return set;
}

void wait_for_signals() {
  const sigset_t set = stop_signals();
  for (int number = 0; sigwait(&set, &number) == 0;) {
    if (!stop_flag.exchange(true)) continue;
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

bool stop_requested() { return stop_flag.load(std::memory_order_relaxed); }

std::unique_ptr<Executor> make_executor(int64_t threads) {
  if (threads == 0) threads = available_threads();
  if (threads < 0 || threads > 1024) fail("threads", "must be 0 (all) or 1 to 1024, got ", threads);
  if (threads == 1) return std::make_unique<SerialExecutor>();
  return std::make_unique<ThreadPool>(static_cast<int>(threads));
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    app.exit(error);
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
    say("locant: not enough memory\n");
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
