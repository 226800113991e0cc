// Frequencies of rotary positions under the published ways of reaching further than trained.
// r = rotary width, theta_t = base^(-2t/r), t = 0 .. r/2 - 1, f = factor, O = original length:
//   linear    theta / f                                   position interpolation, arXiv 2306.15595
//   ntk       base' = base f^(r/(r-2))                    NTK-aware; the last theta is divided by f
//   dynamic   base' = base (f n/O - (f - 1))^(r/(r-2))    n = max(length, O): grows with the text
//   yarn      fast pairs keep theta, slow ones get theta / f, a ramp between; cosine and sine are
//             multiplied by A = .1 ln f + 1               arXiv 2309.00071
//   llama3    the same idea by wavelength, no A           Llama 3.1
//   longrope  theta_t / e_t with two lists e: short up to O, long beyond; A = sqrt(1 + ln f / ln O)
//                                                         arXiv 2402.13753, Phi-3
// dynamic and longrope depend on the length of the whole sequence. That is sound here because keys
// are kept unturned and turned in each call; a cache of turned keys would be inconsistent.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "locant/position/options.h"

namespace locant {

struct RopeScaling {
  enum class Kind { kNone, kLinear, kNtk, kDynamic, kYarn, kLlama3, kLongRope };

  Kind kind = Kind::kNone;
  double factor = 0;         // 0 = max_position / original; a factor that is given always wins
  int64_t original = 0;      // length the model was trained at first
  int64_t max_position = 0;  // only to find a missing factor
  // yarn
  double beta_fast = 32, beta_slow = 1;   // turns over O: more keeps theta, less divides it
  bool truncate = true;                   // whole pair numbers for the ends of the ramp
  double mscale = 0, mscale_all_dim = 0;  // both given: A = m(f, mscale) / m(f, mscale_all_dim)
  bool scale_softmax = false;  // DeepSeek: the scale of the scores times m(f, mscale_all_dim)^2
  // yarn and longrope
  double attention_factor = 0;  // the final A, as it is; 0 = computed
  // llama3
  double low_freq_factor = 1, high_freq_factor = 4;
  // longrope, r/2 numbers each
  std::vector<double> short_factor, long_factor;

  void options(OptionVisitor& visit);
  // Throws std::invalid_argument, naming the scheme, where options contradict each other.
  void check(std::string_view scheme) const;
  // What cannot be said before the rotary width is known.
  void check(std::string_view scheme, int64_t width) const;

  double effective_factor() const;
  // theta, r/2 numbers. length: largest position + 1 of the whole sequence.
  std::vector<double> frequencies(int64_t width, double base, int64_t length) const;
  double magnitude() const;       // A
  double softmax_factor() const;  // DeepSeek's, else 1
};

// base^(-2t/width), t = 0 .. count - 1.
std::vector<double> rope_frequencies(int64_t width, double base, int64_t count);

// m(f, a) = .1 a ln f + 1; 1 when f <= 1.
double yarn_mscale(double factor, double a = 1);

// Pair numbers between which YaRN's ramp goes from theta to theta / f.
struct YarnRange {
  double low, high;
};
YarnRange yarn_range(int64_t width, double base, const RopeScaling& scaling);

// Llama-4's layers without rotation multiply a query by this: 1 + .1 ln(1 + floor((p + 1) / 8192)).
double llama4_query_factor(int64_t position);

}  // namespace locant
