// Speed of attention calls as a share of the FMA peak, each case interleaved with the plain call of
// the same shape and with the peak probe.
//
//   attention_bench [rounds=N] CASE...
//
// A case is a string such as "b1 h8 q2048 k2048 d64 causal t5 f32 fwd+bwd threads=2":
//   b batch  h heads  g key heads (default h)  q queries  k keys (default q)  d head size
//   v value size (default d)  causal  a position scheme as in the registry  f32 | bf16
//   fwd | bwd | fwd+bwd  dropout=RATE  hook (an empty tile hook)
// Shares are of the FMA peak, for bf16 of the peak of the bf16 dot product where the set has one.
// FLOPs are 4 B H Q K D forward, half when causal, backward 2.5 times that; terms are not counted.
// One thread is measured by its own processor time, so that other programs disturb it less.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "locant/attention/attention.h"
#include "locant/base/check.h"
#include "locant/base/random.h"
#include "locant/position/registry.h"
#include "locant/simd/peak.h"

namespace {

using namespace locant;

struct Case {
  std::string text, scheme = "nope";
  int64_t b = 1, h = 8, g = 0, q = 2048, k = 0, d = 64, v = 0;
  double dropout = 0;
  bool causal = false, hook = false, bf16 = false, forward = true, backward = false;
  int threads = 1;
  double flops() const {
    const double pairs = double(b * h * q * k) * (causal ? 0.5 : 1.0);
    return 2 * pairs * double(d + v) * ((forward ? 1.0 : 0.0) + (backward ? 2.5 : 0.0));
  }
};

Case parse(const std::string& text) {
  Case c;
  c.text = text;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::vector<std::string> names = scheme_names();
    const std::string name = word.substr(0, word.find('('));
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      c.scheme = word;
    } else if (word == "causal") {
      c.causal = true;
    } else if (word == "f32" || word == "bf16") {
      c.bf16 = word == "bf16";
    } else if (word == "fwd" || word == "bwd" || word == "fwd+bwd") {
      c.forward = word != "bwd";
      c.backward = word != "fwd";
    } else if (word == "hook") {
      c.hook = true;
    } else if (word.rfind("dropout=", 0) == 0) {
      c.dropout = std::stod(word.substr(8));
    } else if (word.rfind("threads=", 0) == 0) {
      c.threads = std::stoi(word.substr(8));
    } else if (word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1]))) {
      const int64_t n = std::stoll(word.substr(1));
      int64_t* const fields[] = {&c.b, &c.h, &c.g, &c.q, &c.k, &c.d, &c.v};
      const size_t at = std::string("bhgqkdv").find(word[0]);
      if (at == std::string::npos) fail("bench", "no size is called ", word[0], " in \"", text, "\"");
      *fields[at] = n;
    } else {
      fail("bench", "\"", word, "\" in \"", text, "\" is no size, option or scheme");
    }
  }
  if (!c.g) c.g = c.h;
  if (!c.k) c.k = c.q;
  if (!c.v) c.v = c.d;
  return c;
}

double seconds(bool own_time) {
  if (!own_time) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

float number_of(double x, float) { return float(x); }
Bf16 number_of(double x, Bf16) { return to_bf16(float(x)); }

// What a hook costs that adds nothing and learns one number.
struct EmptyHook final : TileHook {
  void add(const ScoreTile&, double*) const override {}
  void add(const ScoreTile&, float*) const override {}
  int64_t gradient_size() const override { return 1; }
  void add_backward(const ScoreTile&, const double*, double*) const override {}
  void add_backward(const ScoreTile&, const float*, double*) const override {}
};

// One case: arrays of T, terms, and how to run it with or without them.
template <class T>
class Runner {
 public:
  explicit Runner(const Case& c) : case_(c), random_(1) {
    const auto fill = [&](int64_t n) {
      std::vector<T> x(static_cast<size_t>(n));
      for (T& y : x) y = number_of(random_.normal(), T());
      return x;
    };
    q_ = fill(c.b * c.h * c.q * c.d), k_ = fill(c.b * c.g * c.k * c.d), v_ = fill(c.b * c.g * c.k * c.v);
    dout_ = fill(c.b * c.h * c.q * c.v);
    out_.resize(dout_.size()), lse_.resize(static_cast<size_t>(c.b * c.h * c.q));
    dq_.resize(q_.size()), dk_.resize(k_.size()), dv_.resize(v_.size());
    in_.q = {q_.data(), {c.b, c.h, c.q, c.d}};
    in_.k = {k_.data(), {c.b, c.g, c.k, c.d}};
    in_.v = {v_.data(), {c.b, c.g, c.k, c.v}};
    options_.causal = c.causal;
    terms_ = make_terms();
    if (c.hook) terms_.hook = std::make_shared<EmptyHook>();
    gradient_ = zeros_like(terms_);
    if (c.threads > 1) pool_ = std::make_unique<ThreadPool>(c.threads);
  }

  void run(bool with_terms, bool forward, bool backward) {
    const Terms<float>& terms = with_terms ? terms_ : none_;
    options_.dropout.rate = with_terms ? case_.dropout : 0;
    Executor& executor = pool_ ? static_cast<Executor&>(*pool_) : serial_;
    const Case& c = case_;
    const attention::Outputs<T> outputs{{out_.data(), {c.b, c.h, c.q, c.v}},
                                            {lse_.data(), {c.b, c.h, c.q}}};
    if (forward) attention::forward(in_, terms, options_, outputs, workspace_, executor);
    if (!backward) return;
    attention::Gradients<T> g;
    g.q = {dq_.data(), in_.q.shape}, g.k = {dk_.data(), in_.k.shape}, g.v = {dv_.data(), in_.v.shape};
    if (with_terms) g.terms = &gradient_;
    attention::backward<T>(in_, terms, options_, {outputs.out, outputs.lse},
                               {dout_.data(), outputs.out.shape}, g, workspace_, executor);
  }

  // Seconds of one run.
  double measure(bool with_terms) {
    run(with_terms, true, case_.backward);
    const bool own = case_.threads == 1;
    double took = 0;
    for (int64_t n = 1;; n = std::max(n * 2, int64_t(0.03 / (took + 1e-9)))) {
      const double from = seconds(own);
      for (int64_t i = 0; i < n; ++i) run(with_terms, case_.forward, case_.backward);
      took = (seconds(own) - from) / double(n);
      if (took * double(n) > 0.02) return took;
    }
  }

 private:
  Terms<float> make_terms() {
    const auto scheme = make_scheme(case_.scheme);
    locant::Call call;
    call.sizes = {1, case_.h, case_.d, case_.h * case_.d, case_.v};
    call.causal = case_.causal;
    const attention::Span span = attention::span_of(in_, options_);
    call.first_distance = span.first_distance;
    call.last_distance = span.last_distance;
    call.length = span.length;
    std::vector<std::vector<double>> arrays;
    const auto specs = scheme->learn(call.sizes);
    Parameters parameters;
    for (const ParameterSpec& spec : specs) {
      arrays.emplace_back(static_cast<size_t>(spec.size()));
      for (double& x : arrays.back()) x = 0.1 * random_.normal();
    }
    for (size_t n = 0; n < specs.size(); ++n) parameters.add(specs[n].name, arrays[n].data());
    return cast<float>(lower(*scheme, call, parameters));
  }

  Case case_;
  Random random_;
  attention::Inputs<T> in_;
  attention::Options options_;
  Terms<float> terms_, none_, gradient_;
  std::vector<T> q_, k_, v_, dout_, out_, dq_, dk_, dv_;
  std::vector<float> lse_;
  attention::Workspace workspace_;
  SerialExecutor serial_;
  std::unique_ptr<ThreadPool> pool_;
};

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

double peak_of(const Case& c) {
  const double bf16 = c.bf16 ? simd::measure_bf16_peak(simd::chosen(), 0.02) : 0;
  return bf16 > 0 ? bf16 : simd::measure_fma_peak(simd::chosen(), 0.02);
}

template <class T>
void bench(const Case& c, int rounds) {
  Runner<T> runner(c);
  std::vector<double> times, ratios;
  double peak = 0;
  for (int n = 0; n < rounds; ++n) {
    peak = std::max(peak, peak_of(c));
    const double plain = runner.measure(false);
    const double with_terms = runner.measure(true);
    times.push_back(with_terms);
    ratios.push_back(with_terms / plain);
  }
  const double best = *std::min_element(times.begin(), times.end());
  const double full = peak * 1e9 * c.threads;
  std::printf("%-52s %8.3f ms  %6.1f GF/s  peak share best %5.1f%% median %5.1f%%  vs plain %.3f (least %.3f)\n",
              c.text.c_str(), best * 1e3, c.flops() / best / 1e9, 100 * c.flops() / best / full,
              100 * c.flops() / median(times) / full, median(ratios),
              *std::min_element(ratios.begin(), ratios.end()));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int rounds = 7;
    std::vector<Case> cases;
    for (int n = 1; n < argc; ++n) {
      const std::string word = argv[n];
      if (word.rfind("rounds=", 0) == 0) {
        rounds = std::max(1, std::stoi(word.substr(7)));
      } else {
        cases.push_back(parse(word));
      }
    }
    if (cases.empty()) cases = {parse("fwd"), parse("causal fwd"), parse("bwd"), parse("causal bwd")};
    std::printf("instruction set %s, peak %.1f GF/s a thread\n", std::string(simd::name(simd::chosen())).c_str(),
                simd::measure_fma_peak(simd::chosen()));
    for (const Case& c : cases) c.bf16 ? bench<Bf16>(c, rounds) : bench<float>(c, rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attention_bench: %s\n", error.what());
    return 2;
  }
}
