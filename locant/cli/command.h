// What the subcommands share. Each has a file of its own with one function add_NAME.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "locant/base/executor.h"

namespace locant {
struct ModelConfig;
}

namespace locant::cli {

// Set by the callback of the subcommand that was chosen; run() executes it and returns its code.
using Action = std::function<int()>;

void add_schemes(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_compare(CLI::App& app, Action& action);
void add_train(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_sample(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

// Threads for --threads: 0 means all the process may use. Throws std::invalid_argument.
std::unique_ptr<Executor> make_executor(int64_t threads);

// Ctrl-C and termination set a flag that long work asks for, and say so; another signal a second later or more
// ends the process at once.
// To be called before any other thread is made: they inherit that they take no signal.
void catch_signals();
bool stop_requested();
// For work that keeps nothing: the first signal already ends the process with kStopped, whatever is at work;
// `last_words` is said then. Called from another thread.
void end_on_signals(std::function<std::string()> last_words);

// Tasks that a model of this configuration may have learned; none: it learned a text.
std::vector<std::string> tasks_learned(const ModelConfig& config);

// "AMD EPYC 9R14", from the system; "unknown" where it does not say.
std::string machine_name();

}  // namespace locant::cli
