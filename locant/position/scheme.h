// A scheme: one way of telling a Transformer where a token stands. Every scheme answers the same
// five questions, in this order, and its answers lower to terms (position/terms.h):
//   1. What do I add to an embedding?
//   2. How do I turn a query and a key?
//   3. What do I add to a score, and inside or outside the scale?
//   4. What do I add to a value?
//   5. What do I learn, under which names, and what happens beyond what was learned?
// The defaults answer "nothing". Distance is key position minus query position, j - i.
// Everything here is double precision and scalar: it runs once per call, not per pair of tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "locant/position/options.h"
#include "locant/position/terms.h"

namespace locant {

// The model a scheme serves.
struct Sizes {
  int64_t layers = 1;
  int64_t heads = 1;       // query heads H (of the whole model, also when it is sharded)
  int64_t head_size = 64;  // D
  int64_t width = 64;      // of the embeddings
  int64_t value_size = 0;  // Dv; 0 means D
};

// One attention call, as far as a scheme needs to know it.
struct Call {
  Sizes sizes;
  int layer = 0;
  bool causal = false;
  // Every distance j - i of the call that can be unmasked lies in [first, last].
  int64_t first_distance = 0, last_distance = 0;
  int64_t length = 0;  // largest position + 1 of the whole sequence
  // Heads [first_head, first_head + heads) are computed here (tensor parallel); heads 0 = all.
  int64_t first_head = 0, heads = 0;
  // Keys of another sequence (an encoder's output): no distance exists and no scheme acts.
  bool cross = false;
  int64_t heads_here() const { return heads ? heads : sizes.heads; }
};

// A learned array. Names are those of the checkpoints where a public model has the scheme.
struct ParameterSpec {
  enum class Init { kZeros, kNormal, kUniform };  // normal(0, scale) or uniform in [low, high)
  std::string name;
  std::vector<int64_t> shape{};
  Init init = Init::kZeros;
  double scale = 0.02;        // deviation of kNormal
  double low = 0, high = 0;   // bounds of kUniform
  bool per_layer = false;     // one for each layer, or one that all layers share
  bool table = true;          // a position table: own learning rate, no weight decay
  int64_t size() const {
    int64_t n = 1;
    for (int64_t extent : shape) n *= extent;
    return n;
  }
};

// The learned numbers (or their gradients) that one layer sees, by ParameterSpec::name.
template <class T>
class ParameterViews {
 public:
  void add(std::string_view name, T* data) { views_.push_back({std::string(name), data}); }
  T* operator[](std::string_view name) const;  // throws std::invalid_argument when missing

 private:
  struct Named {
    std::string name;
    T* data;
  };
  std::vector<Named> views_;
};
using Parameters = ParameterViews<const double>;
using ParameterGradients = ParameterViews<double>;

// What `locant schemes` prints. Short phrases.
struct Description {
  std::string title;   // "ALiBi, linear biases"
  std::string paper;   // "Press et al. 2021, arXiv 2108.12409"
  std::string acts;    // "scores, after the scale"
  std::string where;   // "every layer" or "once, before the first layer"
  std::string learns;  // "nothing" / "one table for all layers"
  std::string cost;    // against plain attention
  std::string beyond;  // past the training length
  std::string users;   // models that use it
};

// A test-time variant of a trained model (RoPE under another scaling): same weights, other options.
struct Variant {
  std::string label;          // "pi", "ntk", "yarn"
  std::string specification;  // of the scheme to evaluate with
};

// What options are fitted to.
struct Fitting {
  int64_t train_length = 0;
  double embedding_deviation = 0;  // of the token embeddings' initial numbers
  std::vector<std::string> given{};  // options that a person named: they stay, the others fit them
  bool free(std::string_view option) const {
    return std::find(given.begin(), given.end(), option) == given.end();
  }
};

class Scheme {
 public:
  virtual ~Scheme() = default;
  virtual std::string name() const = 0;  // as in the registry
  virtual Description describe() const = 0;
  // Names every option once: reading, printing and explaining all go through this (options.h).
  virtual void options(OptionVisitor& visit) { (void)visit; }
  // After options were set: throws std::invalid_argument where they contradict each other.
  virtual void check() const {}
  // Refuses a call or model that the scheme cannot serve (no causal mask, odd rotary width, ...).
  // Called by lower(); throws std::invalid_argument.
  virtual void check(const Call& call) const { (void)call; }
  // Sets the free options that depend on the training length, as a comparison trains them (T5: maximum
  // distance L/2, ...).
  virtual void fit(const Fitting& to) { (void)to; }
  // Largest position + 1 that the scheme has rows for, -1 if it has no end. Beyond it embed() throws
  // (an evaluation may repeat the last row instead, and says so).
  virtual int64_t table_length() const { return -1; }
  // Whether positions beyond that take the last row instead.
  virtual bool repeats_last_row() const { return false; }
  // Variants worth testing when a model trained at `original` reads factor x original tokens.
  virtual std::vector<Variant> test_time_variants(double factor, int64_t original) const {
    (void)factor, (void)original;
    return {};
  }

  // 1. Adds to rows[n][width], one row for each position.
  virtual void embed(const int64_t* positions, int64_t n, const Sizes& sizes,
                     const Parameters& parameters, double* rows) const {
    (void)positions, (void)n, (void)sizes, (void)parameters, (void)rows;
  }
  // Its adjoint: adds to the parameters' gradients.
  virtual void embed_backward(const int64_t* positions, int64_t n, const Sizes& sizes,
                              const double* rows_gradient, ParameterGradients& gradients) const {
    (void)positions, (void)n, (void)sizes, (void)rows_gradient, (void)gradients;
  }
  // Whether question 1 has an answer (then embed is called once, before the first layer).
  virtual bool embeds() const { return false; }

  // 2.
  virtual std::optional<Rotation> turn(const Call& call) const {
    (void)call;
    return std::nullopt;
  }

  // 3. Fills number, query_rows, key_rows, content_bias, scale_factor.
  virtual void score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
    (void)call, (void)parameters, (void)terms;
  }
  // Its adjoint: from the gradients of the terms to those of the parameters, added.
  virtual void score_backward(const Call& call, const Parameters& parameters,
                              const Terms<double>& gradient, ParameterGradients& gradients) const {
    (void)call, (void)parameters, (void)gradient, (void)gradients;
  }

  // 4. Fills value_rows.
  virtual void value(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
    (void)call, (void)parameters, (void)terms;
  }
  virtual void value_backward(const Call& call, const Parameters& parameters,
                              const Terms<double>& gradient, ParameterGradients& gradients) const {
    (void)call, (void)parameters, (void)gradient, (void)gradients;
  }

  // 5. The learned arrays for a model of these sizes.
  virtual std::vector<ParameterSpec> learn(const Sizes& sizes) const {
    (void)sizes;
    return {};
  }
  // Whether all layers get the same terms from the same parameters (then lower() once is enough).
  virtual bool same_in_every_layer() const { return false; }
};

// Questions 2 to 4 for one call, checked first. Nothing at all for cross attention.
Terms<double> lower(const Scheme& scheme, const Call& call, const Parameters& parameters);
// Adds the parameters' gradients, given the gradients of the terms.
void lower_backward(const Scheme& scheme, const Call& call, const Parameters& parameters,
                    const Terms<double>& gradient, ParameterGradients& gradients);

// "t5(buckets=32,max_distance=128)": the name and the options that differ from their defaults, or
// all of them when `full`. make_scheme (registry.h) reads it back.
std::string specification(const Scheme& scheme, bool full = false);

// Learned numbers of a model of these sizes, all layers together.
int64_t parameter_count(const Scheme& scheme, const Sizes& sizes);

}  // namespace locant
