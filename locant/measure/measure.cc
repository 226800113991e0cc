#include "locant/measure/measure.h"

#include <algorithm>
#include <limits>

#include "locant/base/check.h"
#include "locant/base/median.h"
#include "locant/measure/arrays.h"
#include "locant/measure/probe.h"

namespace locant::measure {
namespace {

constexpr double kShort = 0.02;  // seconds: shorter runs are repeated within one measurement
constexpr double kLong = 1;      // seconds: from here on nothing is run just to warm up

// A case with its arrays, ready to be timed.
class Subject {
 public:
  Subject(const Case& c, Clock clock)
      : case_(c), clock_(clock), executor_(make_executor(c.threads)), call_(make_runnable(c)) {}

  // The first run: what it took, and by how much memory grew.
  void begin() {
    const UsingSet set(case_);
    if (!case_.forward) run_once(Direction::kForward, false);
    const MemoryMark mark;
    const double from = seconds(clock_);
    run_once(direction(), false);
    first_seconds_ = seconds(clock_) - from;
    extra_bytes_ = std::max(mark.growth(), workspace_.bytes());
  }

  // Seconds of one run.
  double time(bool plain) {
    const UsingSet set(case_);
    if (first_seconds_ < kLong) {
      run_once(case_.backward ? Direction::kBoth : Direction::kForward, plain);
    } else if (!case_.forward) {
      run_once(Direction::kForward, plain);  // a backward pass reads what its own forward pass wrote
    }
    for (int64_t count = 1;;) {
      const double from = seconds(clock_);
      for (int64_t n = 0; n < count; ++n) run_once(direction(), plain);
      const double took = seconds(clock_) - from;
      if (took > kShort) return took / double(count);
      count = std::max(2 * count, int64_t(1.5 * kShort * double(count) / (took + 1e-9)));
    }
  }

  double peak() {
    const UsingSet set(case_);
    return fma_peak(*executor_, 0.02, case_.bf16);
  }
  // Of the memory that a decode case reads, in bytes a second; 0 for others.
  double bandwidth() {
    if (!case_.decode) return 0;
    if (!read_probe_) read_probe_ = std::make_unique<ReadProbe>(size_t(case_.bytes()));
    return 1e9 * read_probe_->measure(*executor_, executor_->threads() == 1 ? clock_ : Clock::kWall);
  }
  double first_seconds() const { return first_seconds_; }
  double extra_mb() const { return double(extra_bytes_) / 1e6; }

 private:
  Direction direction() const {
    return !case_.backward ? Direction::kForward : case_.forward ? Direction::kBoth : Direction::kBackward;
  }
  void run_once(Direction direction, bool plain) {
    call_->run(direction, plain, workspace_, *executor_);
  }

  Case case_;
  Clock clock_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Runnable> call_;
  attention::Workspace workspace_;
  std::unique_ptr<ReadProbe> read_probe_;
  double first_seconds_ = 0;
  size_t extra_bytes_ = 0;
};

}  // namespace

UsingSet::UsingSet(const Case& c) : before_(simd::chosen()) {
  if (!c.isa.empty() && !simd::choose(c.isa)) {
    fail("bench", "case \"", c.text(), "\": this machine and build have ", simd::available_names(), ", got isa=", c.isa);
  }
}
UsingSet::~UsingSet() { simd::choose(before_); }

std::unique_ptr<Executor> make_executor(int threads) {
  if (threads == 1) return std::make_unique<SerialExecutor>();
  return std::make_unique<ThreadPool>(threads);
}

Result measure(const Case& c, const Settings& settings) {
  if (settings.rounds < 1) fail("bench", "rounds must be at least 1, got ", settings.rounds);
  bool several = c.threads > 1;
  for (const Case& other : settings.beside) several |= other.threads > 1;
  const Clock clock = several ? Clock::kWall : Clock::kOwn;

  Subject subject(c, clock);
  double peak = subject.peak();
  subject.begin();
  double bandwidth = subject.bandwidth();
  std::vector<std::unique_ptr<Subject>> beside;
  for (const Case& other : settings.beside) {
    beside.push_back(std::make_unique<Subject>(other, clock));
    beside.back()->begin();
  }

  const bool against_plain = settings.plain && !c.is_plain();
  std::vector<double> times, shares, bandwidth_shares, plain_ratios;
  std::vector<std::vector<double>> ratios(beside.size());
  for (int round = 0; round < settings.rounds; ++round) {
    // What takes so long that its first run counts is not run once more.
    const double took = round == 0 && subject.first_seconds() > 5 * kLong ? subject.first_seconds()
                                                                          : subject.time(false);
    const double before = peak;
    peak = subject.peak();
    times.push_back(took);
    shares.push_back(c.flops() / took / (1e9 * std::max(before, peak)));
    if (c.decode) {
      const double earlier = bandwidth;
      bandwidth = subject.bandwidth();
      bandwidth_shares.push_back(c.bytes() / took / std::max(earlier, bandwidth));
    }
    if (against_plain) plain_ratios.push_back(took / subject.time(true));
    for (size_t n = 0; n < beside.size(); ++n) ratios[n].push_back(took / beside[n]->time(false));
  }

  Result result;
  result.measured = c;
  result.median_ms = 1e3 * median(times);
  result.best_ms = 1e3 * *std::min_element(times.begin(), times.end());
  result.gflops = c.flops() / result.median_ms / 1e6;
  result.peak_share = median(shares);
  result.extra_mb = subject.extra_mb();
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  result.bandwidth_share = c.decode ? median(bandwidth_shares) : kNothing;
  result.vs_plain = against_plain      ? median(plain_ratios)
                    : settings.plain   ? 1
                                       : kNothing;
  for (const std::vector<double>& list : ratios) result.vs.push_back(median(list));
  return result;
}

}  // namespace locant::measure
