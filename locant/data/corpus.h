// A text as a model reads it: bytes turned into small integers, and three parts that never overlap.
//
// A corpus is one UTF-8 file or a folder of them (read recursively, files in the order of the bytes
// of their paths, joined by a newline; names beginning with a dot and empty files are left out,
// links to folders are not followed). A token is one byte. The vocabulary holds the bytes that
// occur in the whole text, sorted, so that id k is the k-th smallest byte: a byte that occurs only
// in the test part still has an id and a finite loss. What training learns of the other parts by
// this is which bytes exist, the same for every scheme.
//
// Whatever is wrong with a text is std::invalid_argument naming the file, and the byte where it
// applies: missing, empty, unreadable, binary, not UTF-8, too short, a folder without files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace locant {

using Token = uint8_t;

struct CorpusOptions {
  // The parts follow each other: train, validation, and the rest is test (none if nothing is left).
  // A point of division falls on the next beginning of a character.
  double train_fraction = 0.90;
  double validation_fraction = 0.05;
  // Ids by this vocabulary (sorted bytes) and not by the text's own, for a model trained on another
  // text; a byte outside it is an error. Empty: the text's own.
  std::string vocabulary = {};
};

struct Corpus {
  std::string path;           // as given
  int64_t files = 0;          // how many were read
  uint64_t fingerprint = 0;   // FNV-1a of the bytes, 64 bits: names the text in records
  std::string vocabulary;     // byte of each id, ascending, 1..255 of them
  std::vector<Token> tokens;  // the whole text
  size_t train_end = 0;       // train is [0, train_end)
  size_t validation_end = 0;  // validation is [train_end, validation_end), test the rest

  std::span<const Token> train() const { return std::span(tokens).first(train_end); }
  std::span<const Token> validation() const {
    return std::span(tokens).subspan(train_end, validation_end - train_end);
  }
  std::span<const Token> test() const { return std::span(tokens).subspan(validation_end); }

  // The text of ids, which must be below the size of the vocabulary.
  std::string decode(std::span<const Token> ids) const;
};

// Reads `path`.
Corpus load_corpus(const std::string& path, const CorpusOptions& options = {});

// The same from a text in memory; `name` stands for the path in errors.
Corpus corpus_from_text(std::string_view text, const std::string& name,
                        const CorpusOptions& options = {});

// Throws unless validation (and test, if there is one) holds a window of `longest` times
// `train_length` inputs with their targets, and train one of `train_length`.
void require_length(const Corpus& corpus, int64_t train_length, int64_t longest = 16);

// Sixteen hexadecimal digits, as records write a fingerprint.
std::string fingerprint_text(uint64_t fingerprint);

// FNV-1a, 64 bits (Fowler, Noll, Vo). `hash` continues an earlier one.
constexpr uint64_t fnv1a(std::string_view bytes, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  }
  return hash;
}

}  // namespace locant
