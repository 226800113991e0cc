// A progress bar with rate and time left on a terminal; plain lines, at most one every few seconds,
// elsewhere. Everything goes to standard error, so that standard output stays for results.
#pragma once

#include <chrono>
#include <string>

namespace locant::cli {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows done of total and `detail`, unless it was shown a moment ago. Nothing appears before two
  // seconds are over.
  void update(int64_t done, int64_t total, const std::string& detail);
  // Removes the bar so that a line can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Clock::time_point begin_, shown_;
  bool terminal_, visible_ = false;
};

// "1:05", "2:03:10".
std::string duration_text(double seconds);

}  // namespace locant::cli
