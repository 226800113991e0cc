#include "locant/position/rope_scaling.h"

#include <algorithm>
#include <cmath>

#include "locant/base/check.h"

namespace locant {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;
const std::vector<std::string> kKinds{"none", "linear", "ntk",     "dynamic",
                                      "yarn", "llama3", "longrope"};

// base' so that the slowest pair is slowed by `stretch` and the fastest not at all.
double ntk_base(int64_t width, double base, double stretch) {
  const double r = static_cast<double>(width);
  return base * std::pow(stretch, r / (r - 2));
}

double llama3(double theta, const RopeScaling& scaling) {
  const double turns = static_cast<double>(scaling.original) * theta / kTwoPi;  // O / wavelength
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  if (turns > high) return theta;
  const double slow = theta / scaling.effective_factor();
  if (turns < low) return slow;
  const double share = (turns - low) / (high - low);
  return (1 - share) * slow + share * theta;
}

}  // namespace

std::vector<double> rope_frequencies(int64_t width, double base, int64_t count) {
  std::vector<double> theta;
  for (int64_t t = 0; t < count; ++t) {
    theta.push_back(std::pow(base, -2.0 * static_cast<double>(t) / static_cast<double>(width)));
  }
  return theta;
}

double yarn_mscale(double factor, double a) {
  return factor <= 1 ? 1 : .1 * a * std::log(factor) + 1;
}

YarnRange yarn_range(int64_t width, double base, const RopeScaling& scaling) {
  const double r = static_cast<double>(width);
  const auto pair_with = [&](double turns) {
    return r * std::log(static_cast<double>(scaling.original) / (turns * kTwoPi)) /
           (2 * std::log(base));
  };
  double low = pair_with(scaling.beta_fast), high = pair_with(scaling.beta_slow);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  return {std::max(low, 0.0), std::min(high, r - 1)};
}

double llama4_query_factor(int64_t position) {
  return 1 + .1 * std::log1p(static_cast<double>((position + 1) / 8192));
}

void RopeScaling::options(OptionVisitor& visit) {
  visit.word("scaling", kind, kKinds, "how frequencies are changed for longer texts");
  visit.real("factor", factor, 0, 1e6, "times the original length; 0 = max_position / original");
  visit.integer("original", original, 0, int64_t{1} << 31,
                "length before scaling: dynamic, yarn, llama3, longrope");
  visit.integer("max_position", max_position, 0, int64_t{1} << 31,
                "length after scaling, where no factor is given");
  visit.real("beta_fast", beta_fast, 1e-3, 1e6, "yarn: pairs with more turns keep their frequency");
  visit.real("beta_slow", beta_slow, 1e-3, 1e6, "yarn: pairs with fewer turns are divided");
  visit.flag("truncate", truncate, "yarn: ends of the ramp are whole pair numbers");
  visit.real("attention_factor", attention_factor, 0, 1e3,
             "yarn, longrope: multiplies cosine and sine as it is; 0 = computed");
  visit.real("mscale", mscale, 0, 1e3, "yarn: numerator of the magnitude, with mscale_all_dim");
  visit.real("mscale_all_dim", mscale_all_dim, 0, 1e3, "yarn: denominator of the magnitude");
  visit.flag("scale_softmax", scale_softmax,
             "yarn in DeepSeek: scores times (.1 mscale_all_dim ln f + 1)^2");
  visit.real("low_freq_factor", low_freq_factor, 1e-3, 1e6, "llama3: fewer turns are divided");
  visit.real("high_freq_factor", high_freq_factor, 1e-3, 1e6, "llama3: more turns keep");
  visit.reals("short_factor", short_factor, 1e-6, 1e6, "longrope: divisors up to original");
  visit.reals("long_factor", long_factor, 1e-6, 1e6, "longrope: divisors beyond original");
}

double RopeScaling::effective_factor() const {
  if (factor > 0) return factor;
  if (original > 0) return static_cast<double>(max_position) / static_cast<double>(original);
  return 0;
}

void RopeScaling::check(std::string_view scheme) const {
  const std::string& word = kKinds.at(static_cast<size_t>(kind));
  const bool yarn = kind == Kind::kYarn, longrope = kind == Kind::kLongRope;
  const bool by_length = kind == Kind::kDynamic || yarn || kind == Kind::kLlama3 || longrope;
  Check check(scheme);
  if (kind == Kind::kNone) {
    check.require(factor == 0 || factor == 1, "factor=", factor,
                  " does nothing without scaling=linear, ntk, dynamic, yarn, llama3 or longrope");
  } else {
    check.require(effective_factor() > 0, "scaling=", word,
                  " needs factor, or max_position and original");
  }
  check.require(!by_length || original > 0, "scaling=", word, " needs original");
  check.require(!yarn || beta_fast > beta_slow, "beta_fast must be more than beta_slow, got ",
                beta_fast, " and ", beta_slow);
  check.require(kind != Kind::kLlama3 || low_freq_factor < high_freq_factor,
                "low_freq_factor must be less than high_freq_factor, got ", low_freq_factor,
                " and ", high_freq_factor);
  check.require(attention_factor == 0 || yarn || longrope,
                "attention_factor is for scaling=yarn and longrope, got scaling=", word);
  check.require(!scale_softmax || (yarn && mscale_all_dim > 0),
                "scale_softmax needs scaling=yarn and mscale_all_dim");
  if (longrope) {
    check.require(original > 1, "scaling=longrope needs original of 2 or more");
    check.require(!short_factor.empty() && short_factor.size() == long_factor.size(),
                  "scaling=longrope needs short_factor and long_factor of the same length, got ",
                  short_factor.size(), " and ", long_factor.size());
  }
  check.done();
}

void RopeScaling::check(std::string_view scheme, int64_t width) const {
  Check check(scheme);
  if (kind == Kind::kNtk || kind == Kind::kDynamic) {
    check.require(width > 2, "scaling=ntk and dynamic need a rotary width of 4 or more, got ",
                  width);
  }
  if (kind == Kind::kLongRope) {
    check.require(static_cast<int64_t>(short_factor.size()) == width / 2,
                  "short_factor and long_factor need one number for each of ", width / 2,
                  " pairs, got ", short_factor.size());
  }
  check.done();
}

std::vector<double> RopeScaling::frequencies(int64_t width, double base, int64_t length) const {
  const double f = effective_factor();
  if (kind == Kind::kNtk) base = ntk_base(width, base, f);
  if (kind == Kind::kDynamic) {
    const double n = static_cast<double>(std::max(length, original));
    base = ntk_base(width, base, f * n / static_cast<double>(original) - (f - 1));
  }
  std::vector<double> theta = rope_frequencies(width, base, width / 2);
  if (kind == Kind::kLinear) {
    for (double& t : theta) t /= f;
  } else if (kind == Kind::kYarn) {
    const YarnRange range = yarn_range(width, base, *this);
    const double span = range.high == range.low ? .001 : range.high - range.low;
    for (size_t t = 0; t < theta.size(); ++t) {
      const double ramp = std::clamp((static_cast<double>(t) - range.low) / span, 0.0, 1.0);
      theta[t] = theta[t] / f * ramp + theta[t] * (1 - ramp);
    }
  } else if (kind == Kind::kLlama3) {
    for (double& t : theta) t = llama3(t, *this);
  } else if (kind == Kind::kLongRope) {
    const std::vector<double>& divisors = length > original ? long_factor : short_factor;
    for (size_t t = 0; t < theta.size(); ++t) theta[t] /= divisors.at(t);
  }
  return theta;
}

double RopeScaling::magnitude() const {
  if (attention_factor > 0) return attention_factor;
  const double f = effective_factor();
  if (kind == Kind::kYarn) {
    if (mscale > 0 && mscale_all_dim > 0) {
      return yarn_mscale(f, mscale) / yarn_mscale(f, mscale_all_dim);
    }
    return yarn_mscale(f);
  }
  if (kind == Kind::kLongRope && f > 1) {
    return std::sqrt(1 + std::log(f) / std::log(static_cast<double>(original)));
  }
  return 1;
}

double RopeScaling::softmax_factor() const {
  if (!scale_softmax) return 1;
  const double m = yarn_mscale(effective_factor(), mscale_all_dim);
  return m * m;
}

}  // namespace locant
