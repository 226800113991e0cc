// The command `locant`, callable from another program that brings schemes of its own:
//   int main(int argc, char** argv) {
//     locant::register_scheme<MyScheme>();
//     return locant::cli::run(argc, argv);
//   }
#pragma once

namespace locant::cli {

// Exit codes. A comparison that was stopped can be resumed.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;    // no memory, a loss that is not finite, or a fault of ours
inline constexpr int kBadInput = 2;  // what was asked for cannot be (a full disk included); says why
inline constexpr int kStopped = 130; // by Ctrl-C or a termination signal; all results are kept

// Reads the arguments, runs one subcommand, returns an exit code. Throws nothing.
int run(int argc, char** argv);

}  // namespace locant::cli
