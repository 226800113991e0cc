#include "locant/cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "locant/cli/say.h"

namespace locant::cli {
namespace {
constexpr double kQuietSeconds = 2, kTerminalSeconds = 0.1, kLineSeconds = 10;
constexpr int kBarWidth = 24;

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}
}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<int64_t>(seconds + .5);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(std::string label)
    : label_(std::move(label)), begin_(Clock::now()), shown_(begin_),
      terminal_(isatty(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (visible_ && terminal_) std::fputs("\r\033[K", stderr);
  visible_ = false;
}

void Progress::update(int64_t done, int64_t total, const std::string& detail) {
  const auto now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double since = std::chrono::duration<double>(now - shown_).count();
  if (elapsed < kQuietSeconds || since < (terminal_ ? kTerminalSeconds : kLineSeconds)) return;
  shown_ = now;
  const double share = total > 0 ? double(done) / double(total) : 0;
  const double left = share > 0 ? elapsed * (1 - share) / share : NAN;
  if (!terminal_) {
    say("{}: {} of {} ({:.0f} %), {}, {} left\n", label_, done, total, 100 * share, detail,
               duration_text(left));
    return;
  }
  const int filled = std::clamp(int(share * kBarWidth), 0, kBarWidth);
  std::string line = fmt::format("{} [{}{}] {:.0f} %  {}  {} left", label_, std::string(size_t(filled), '#'),
                                 std::string(size_t(kBarWidth - filled), '.'), 100 * share, detail,
                                 duration_text(left));
  line.resize(std::min(line.size(), static_cast<size_t>(terminal_width() - 1)));
  say("\r\033[K{}", line);
  std::fflush(stderr);
  visible_ = true;
}

}  // namespace locant::cli
