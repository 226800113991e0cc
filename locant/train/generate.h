// Reading and writing token by token: a decoder that keeps the keys and values of what it has read, and
// how the next token is chosen. An encoder's answers.
//
// Tokens stand at their place in the text, from 0, however they were read. What was read at once, token by
// token, or again from the beginning for every token gives the same logits but for rounding. Where a
// scheme's numbers follow the length of the text (dynamic NTK, LongRoPE), everything is always read again:
// keys and values kept from a shorter text would belong to other numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "locant/base/executor.h"
#include "locant/base/random.h"
#include "locant/train/evaluate.h"
#include "locant/train/model.h"

namespace locant {

struct GenerateOptions {
  EvaluationOptions reading{};  // another scheme at test time; the last row of a table again
  bool cached = true;           // false: everything is read again for every token
};

// A batch of texts of one length, read together in the calling thread.
class Generator {
 public:
  // Up to `capacity` tokens a text; memory grows with those that are read. The model must outlive this. Throws std::invalid_argument: an encoder, a
  // capacity that the scheme refuses (a learned table that ends), as evaluate() does.
  Generator(const Model& model, int64_t batch, int64_t capacity, const GenerateOptions& options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  // Reads tokens [batch][n], n >= 1, behind what was read before. Returns the logits of what follows,
  // [batch][vocabulary], valid until the next call. Throws std::invalid_argument: a token outside the
  // vocabulary, more tokens than the capacity.
  std::span<const float> read(std::span<const int32_t> tokens);
  int64_t length() const;  // tokens read of each text

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Sampling {
  double temperature = 1;  // 0: always the likeliest (of equals the first)
  int64_t top_k = 0;       // only the k likeliest; 0: all
  void check() const;      // throws std::invalid_argument
};
// One token from softmax(logits / temperature). One draw of `random`, none at temperature 0.
int32_t choose(std::span<const float> logits, const Sampling& sampling, Random& random);

// What an encoder holds for likeliest at every place of `batch` texts, [batch][n] like the tokens.
// Throws std::invalid_argument for a decoder, or tokens outside the vocabulary.
std::vector<int32_t> answer_everywhere(const Model& model, int64_t batch,
                                       std::span<const int32_t> tokens,
                                       const EvaluationOptions& options);

}  // namespace locant
