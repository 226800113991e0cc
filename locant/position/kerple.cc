#include "locant/position/kerple.h"

#include <algorithm>
#include <cmath>

#include "locant/position/span.h"

namespace locant {
namespace {

constexpr const char* kP = "bias_p";
constexpr const char* kA = "bias_a";
constexpr double kLeast = .01, kLargestPower = 2;

// A parameter held to its bounds.
struct Bounded {
  double given, low, high;
  double value() const { return std::clamp(given, low, high); }
  // Descent moves against the gradient; beyond a bound only the way back counts.
  double gradient(double g) const {
    if ((given < low && g > 0) || (given > high && g < 0)) return 0;
    return g;
  }
};

struct Head {
  Bounded p, a;
};

Head head_of(Kerple::Variant variant, const Call& call, const Parameters& parameters, int64_t h) {
  const int64_t head = call.first_head + h;
  const double none = HUGE_VAL;
  const double p_high = variant == Kerple::Variant::kPower ? kLargestPower : none;
  return {{parameters[kP][head], kLeast, p_high}, {parameters[kA][head], kLeast, none}};
}

}  // namespace

Description Kerple::describe() const {
  return {.title = "KERPLE, kernel biases",
          .paper = "Chi et al. 2022, arXiv 2205.09921",
          .acts = "scores, after the scale",
          .where = "every layer",
          .learns = "two numbers for each head",
          .cost = "an addition to each score",
          .beyond = "defined; far keys fade, log more slowly than power",
          .users = "research models on GPT-NeoX"};
}

void Kerple::options(OptionVisitor& visit) {
  visit.word("variant", variant, {"log", "power"}, "-p ln(1 + a n), or -a n^p");
  visit.word("layers", layers, kSharingWords, "who shares p and a");
}

void Kerple::check(const Call& call) const { check_heads(name(), call); }

// 1. nothing  2. nothing

// 3.
void Kerple::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  SpanTable span = span_table(name(), call);
  Table<double>& table = span.number.table;
  for (int64_t h = 0; h < table.heads; ++h) {
    const Head head = head_of(variant, call, parameters, h);
    const double p = head.p.value(), a = head.a.value();
    for (int64_t r = 0; r < table.rows; ++r) {
      const double n = static_cast<double>(span.first + r);
      *table.row(h, r) = variant == Variant::kLog ? -p * std::log1p(a * n) : -a * std::pow(n, p);
    }
  }
  terms.number = std::move(span.number);
}

void Kerple::score_backward(const Call& call, const Parameters& parameters,
                            const Terms<double>& gradient, ParameterGradients& gradients) const {
  const int64_t first = span_table(name(), call).first;
  const Table<double>& table = gradient.number->table;
  for (int64_t h = 0; h < table.heads; ++h) {
    const Head head = head_of(variant, call, parameters, h);
    const double p = head.p.value(), a = head.a.value();
    double p_gradient = 0, a_gradient = 0;
    for (int64_t r = 0; r < table.rows; ++r) {
      const double n = static_cast<double>(first + r), g = *table.row(h, r);
      if (variant == Variant::kLog) {
        p_gradient -= g * std::log1p(a * n);
        a_gradient -= g * p * n / (1 + a * n);
      } else if (n > 0) {  // 0^p is 0 whatever p > 0
        p_gradient -= g * a * std::pow(n, p) * std::log(n);
        a_gradient -= g * std::pow(n, p);
      }
    }
    gradients[kP][call.first_head + h] += head.p.gradient(p_gradient);
    gradients[kA][call.first_head + h] += head.a.gradient(a_gradient);
  }
}

// 4. nothing

// 5. Trained as any weight is (as published), not as a table; no end.
std::vector<ParameterSpec> Kerple::learn(const Sizes& sizes) const {
  const auto array = [&](const char* name, double high) {
    return ParameterSpec{.name = name,
                         .shape = {sizes.heads, 1, 1},
                         .init = ParameterSpec::Init::kUniform,
                         .low = 0,
                         .high = high,
                         .per_layer = layers == Sharing::kEach,
                         .table = false};
  };
  return {array(kP, 2), array(kA, 1)};
}

}  // namespace locant
