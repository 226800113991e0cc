#include "locant/study/plot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

extern char** environ;

namespace locant::study {
namespace {

// Colours that stay apart on white; the first eight also for most colour-blind readers.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
                                    "#000000", "#8c564b", "#7f7f7f", "#5e3c99", "#b2182b", "#666600",
                                    "#1b9e77", "#e7298a", "#a6761d", "#4575b4"};
constexpr size_t kColourCount = std::size(kColours);

// In single quotes gnuplot takes everything as it is; in double quotes it would run `commands`, and
// records come from anywhere.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += c;
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "'";
}

// The legend stands below the picture; a long one takes room of its own, not the picture's.
struct Legend {
  int columns, rows;
};
Legend legend_of(const Plot& plot) {
  size_t longest = 0;
  for (const Line& line : plot.lines) longest = std::max(longest, line.title.size());
  const int count = std::max(1, int(plot.lines.size()));
  const int columns = std::clamp(int((plot.width - 90) / (7.5 * double(longest) + 70)), 1, count);
  return {columns, (count + columns - 1) / columns};
}

std::string script_of(const Plot& plot) {
  const Legend legend = legend_of(plot);
  std::string s = fmt::format(
      "set terminal svg size {},{} dynamic font 'Helvetica,14' background '#ffffff' noenhanced\n"
      "set grid lc rgb '#dddddd'\nset border 3 lc rgb '#444444'\nset tics nomirror\n"
      "set xlabel {} offset 0,.5\nset ylabel {}\nset key outside bottom center horizontal maxcols {}\n"
      "set datafile missing 'nan'\n",
      plot.width, plot.height + 20 * std::max(0, legend.rows - 2), quoted(plot.x_label), quoted(plot.y_label),
      legend.columns);
  if (plot.log2_x) s += "set logscale x 2\n";
  double low = INFINITY, high = -INFINITY;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) low = std::min(low, x), high = std::max(high, x);
  }
  // A little room on both sides: a tick at the very end may be lost to rounding.
  if (plot.log2_x && low > 0) s += fmt::format("set xrange [{}:{}]\n", low / 1.04, high * 1.04);
  if (!plot.log2_x && low < high) {
    const double room = .02 * (high - low);
    s += fmt::format("set xrange [{}:{}]\n", low - room, high + room);
  }
  if (!plot.x_ticks.empty()) {
    std::vector<std::string> ticks;
    for (const auto& [x, label] : plot.x_ticks) ticks.push_back(fmt::format("{} {}", quoted(label), x));
    s += fmt::format("set xtics ({})\n", fmt::join(ticks, ","));
  }
  if (plot.y_low < plot.y_high) s += fmt::format("set yrange [{}:{}]\n", plot.y_low, plot.y_high);
  std::vector<std::string> plots;
  for (size_t n = 0; n < plot.lines.size(); ++n) {
    const Line& line = plot.lines[n];
    s += fmt::format("$line{} << EOD\n", n);
    for (const auto& [x, y] : line.points) {
      s += std::isfinite(y) ? fmt::format("{} {}\n", x, y) : fmt::format("{} nan\n", x);
    }
    s += "EOD\n";
    plots.push_back(fmt::format(
        "$line{} using 1:2 with {} lw 2 pt 7 ps 0.4 dt {} lc rgb '{}' title {}", n,
        line.points.size() > 40 ? "lines" : "linespoints",
        line.dashed ? 2 : 1, kColours[(line.colour < 0 ? n : size_t(line.colour)) % kColourCount],
        quoted(line.title)));
  }
  return s + fmt::format("plot {}\n", fmt::join(plots, ", "));
}

// Runs gnuplot with `input` on its standard input; both pipes are served by one poll loop, so that
// neither side can block the other. All of it takes at most `seconds`.
Drawing run_gnuplot(const std::string& input, double seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return {"", std::strerror(errno)};
  if (pipe2(out, O_CLOEXEC) != 0) {
    const int error = errno;
    close(in[0]), close(in[1]);
    return {"", std::strerror(error)};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  const char* argv[] = {"gnuplot", "-d", "-", nullptr};  // -d: no start-up file
  pid_t child;
  const int error =
      posix_spawnp(&child, "gnuplot", &actions, nullptr, const_cast<char**>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]), close(out[1]);
  if (error != 0) {
    close(in[1]), close(out[0]);
    return {"", error == ENOENT ? "gnuplot is not installed (Debian: gnuplot-nox)"
                                : fmt::format("gnuplot cannot be started: {}", std::strerror(error))};
  }
  // A gnuplot that dies early must not end us with SIGPIPE.
  sigset_t pipe_signal, before;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  Drawing drawing;
  size_t written = 0;
  bool writing = true, late = false;
  char buffer[65536];
  for (;;) {
    pollfd fds[2] = {{out[0], POLLIN, 0}, {writing ? in[1] : -1, POLLOUT, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    late = left <= 0;
    const int ready = late ? 0 : poll(fds, 2, static_cast<int>(left));
    if (!late && (ready == 0 || (ready < 0 && errno == EINTR))) continue;  // the clock decides
    if (ready <= 0) {
      kill(child, SIGKILL);
      break;
    }
    if (writing && (fds[1].revents & (POLLOUT | POLLERR | POLLHUP))) {
      const ssize_t n = write(in[1], input.data() + written, input.size() - written);
      if (n > 0) written += static_cast<size_t>(n);
      if ((n < 0 && errno != EAGAIN && errno != EINTR) || written == input.size()) {
        close(in[1]);
        writing = false;
      }
    }
    if (fds[0].revents) {
      const ssize_t n = read(out[0], buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      drawing.svg.append(buffer, static_cast<size_t>(n));
    }
  }
  if (writing) close(in[1]);
  close(out[0]);
  // It may go on with its output closed.
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(child, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR);) {
    if (Clock::now() >= end && !late) {
      kill(child, SIGKILL);
      late = true;
    }
    poll(nullptr, 0, 1);
  }
  const timespec now{0, 0};
  sigtimedwait(&pipe_signal, nullptr, &now);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (late) return {"", fmt::format("gnuplot did not end within {:g} s", seconds)};
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || drawing.svg.find("</svg>") == std::string::npos) {
    return {"", WIFEXITED(status) && WEXITSTATUS(status) == 127
                    ? "gnuplot is not installed (Debian: gnuplot-nox)"
                    : "gnuplot failed"};
  }
  // From the element on: the XML prologue has no place inside a page.
  drawing.svg.erase(0, drawing.svg.find("<svg"));
  return drawing;
}

}  // namespace

Drawing draw(const Plot& plot, double seconds) {
  bool any = false;
  for (const Line& line : plot.lines) {
    for (const auto& [x, y] : line.points) any = any || std::isfinite(y);
  }
  if (!any) return {"", "there is nothing to draw"};
  return run_gnuplot(script_of(plot), seconds);
}

}  // namespace locant::study
