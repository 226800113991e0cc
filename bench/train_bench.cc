// How fast the model trains: tokens a second, and the share of the FMA peak measured in the same run.
//
//   train_bench [--scheme SPEC] [--length L] [--batch B] [--layers N] [--width D] [--heads H]
//               [--threads T] [--seconds S]
//
// Prints "name value" lines; bench/compare_pytorch_train.py reads them. On a machine that does other work
// meanwhile, the figures by processor time say more than those by the clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "locant/base/random.h"
#include "locant/measure/probe.h"
#include "locant/position/registry.h"
#include "locant/train/trainer.h"

namespace {

using namespace locant;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double cpu_seconds() { return double(std::clock()) / CLOCKS_PER_SEC; }  // of all threads

// Forward and backward of one token: 6 per weight of a linear layer, the tied head among them, and 3.5
// times the forward of causal attention (2 products of L/2 keys).
double flops_per_token(const ModelConfig& c) {
  const double width = double(c.width);
  const double weights = double(c.layers) * (4 * width * width + 2 * width * double(c.hidden())) +
                         double(c.vocabulary) * width;
  return 6 * weights + 3.5 * double(c.layers) * 4 * (double(c.length) / 2) * width;
}

void run(ModelConfig config, int64_t batch, int threads, double seconds) {
  const std::unique_ptr<Scheme> scheme = make_scheme(config.scheme);
  scheme->fit({config.length, config.initial_deviation});
  config.scheme = specification(*scheme);
  Model model(config);
  ThreadPool pool(threads);
  Trainer trainer(model, {.steps = 1'000'000, .batch = batch}, pool);
  Random random(1);
  std::vector<int32_t> tokens(static_cast<size_t>(batch * config.length));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.vocabulary)));
  }

  const double tokens_a_step = double(batch * config.length);
  for (int warm = 0; warm < 3; ++warm) trainer.step(tokens, tokens);
  std::vector<double> rates, cpu_rates, shares, cpu_shares;
  const auto begin = Clock::now();
  while (seconds_since(begin) < seconds || rates.size() < 3) {
    // The peak moves with the machine's other work: measured again and again between the steps.
    const double peak = measure::fma_peak(pool, 0.1);
    for (int step = 0; step < 5; ++step) {
      const auto start = Clock::now();
      const double cpu_start = cpu_seconds();
      trainer.step(tokens, tokens);
      rates.push_back(tokens_a_step / seconds_since(start));
      cpu_rates.push_back(tokens_a_step * threads / (cpu_seconds() - cpu_start));
      shares.push_back(rates.back() * flops_per_token(config) / (peak * 1e9));
      cpu_shares.push_back(cpu_rates.back() * flops_per_token(config) / (peak * 1e9));
    }
  }
  for (std::vector<double>* list : {&rates, &cpu_rates, &shares, &cpu_shares}) {
    std::sort(list->begin(), list->end());
  }
  std::printf("parameters %lld\n", static_cast<long long>(model.parameters()));
  std::printf("tokens_per_second %.0f\n", rates[rates.size() / 2]);
  std::printf("tokens_per_second_best %.0f\n", rates.back());
  std::printf("flops_per_token %.0f\n", flops_per_token(config));
  std::printf("peak_gflops %.1f\n", measure::fma_peak(pool, 0.1));
  std::printf("share_of_peak %.3f\n", shares[shares.size() / 2]);
  std::printf("tokens_per_cpu_second %.0f\n", cpu_rates[cpu_rates.size() / 2]);
  std::printf("share_of_peak_by_cpu_time %.3f\n", cpu_shares[cpu_shares.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  ModelConfig config;
  config.vocabulary = 65;
  config.scheme = "learned";
  int64_t batch = 32;
  int threads = 1;
  double seconds = 5;
  try {
    for (int a = 1; a < argc; a += 2) {
      const std::string name = argv[a];
      if (a + 1 == argc) throw std::invalid_argument(name + " needs a value");
      const std::string value = argv[a + 1];
      if (name == "--scheme") config.scheme = value;
      else if (name == "--length") config.length = std::stoll(value);
      else if (name == "--batch") batch = std::stoll(value);
      else if (name == "--layers") config.layers = std::stoll(value);
      else if (name == "--width") config.width = std::stoll(value);
      else if (name == "--heads") config.heads = std::stoll(value);
      else if (name == "--vocabulary") config.vocabulary = std::stoll(value);
      else if (name == "--threads") threads = std::stoi(value);
      else if (name == "--seconds") seconds = std::stod(value);
      else throw std::invalid_argument("no option " + name + "; see the top of bench/train_bench.cc");
    }
    run(config, batch, threads, seconds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
