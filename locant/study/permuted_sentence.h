// A sentence and the same words in another order, through one layer of attention: does any word's output
// change, without positions and with them, without a mask and with the causal one?
//
// Without positions and without a mask attention is a function of the bag of words: f(Px) = P f(x). A
// causal mask alone already tells words how many came before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locant::study {

struct PermutedWord {
  std::string word;
  int64_t from = 0, to = 0;  // places in the two sentences, from 0
  // Largest change of a channel of its output, NaN where the scheme refuses: [case].
  double change[4] = {0, 0, 0, 0};
};

struct PermutedSentence {
  std::string specification, first, second;
  std::vector<PermutedWord> words;  // in the order of the first sentence
  std::vector<std::string> refused;

  std::string name() const { return specification.substr(0, specification.find('(')); }
};

// The cases, in the order of PermutedWord::change.
enum PermutedCase { kNopeFull, kNopeCausal, kSchemeFull, kSchemeCausal };

// Exchanges the first and the last of the words that occur once ("the dog bit the man": dog and man); with
// fewer than two of these, the words are read backwards. Throws std::invalid_argument for fewer than two
// or more than 64 words, or words that are all the same.
PermutedSentence permuted_sentence(const std::string& specification, const std::string& sentence);

std::string change_text(double change);  // "same", "0.1234" or "refused"
std::vector<std::string> conclusions(const PermutedSentence& result);
std::string text_of(const PermutedSentence& result);
std::string page_of(const PermutedSentence& result);  // HTML

}  // namespace locant::study
