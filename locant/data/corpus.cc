// Reads a text, checks it, and turns it into tokens.
#include "locant/data/corpus.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>

#include "locant/base/check.h"
#include "locant/base/utf8.h"

namespace locant {
namespace {

namespace fs = std::filesystem;

constexpr char kOperation[] = "corpus";

std::string hex_byte(char byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x",
                static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

// A text has no NUL and is UTF-8 throughout. A NUL is looked for first: a binary file should be
// called one, whichever comes first in it.
void require_text(std::string_view bytes, const std::string& name) {
  const size_t nul = bytes.find('\0');
  if (nul != std::string_view::npos) {
    fail(kOperation, name, " looks binary: NUL byte at offset ", nul, ", expected UTF-8 text");
  }
  const size_t bad = first_invalid_utf8(bytes);
  if (bad != std::string_view::npos) {
    fail(kOperation, name, " is not UTF-8: byte ", hex_byte(bytes[bad]), " at offset ", bad,
         " begins no character");
  }
}

std::string read_file(const fs::path& path) {
  const std::string name = path.string();
  errno = 0;
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(name.c_str(), "rb"), close);
  if (!file) fail(kOperation, "cannot read ", name, ": ", std::strerror(errno));
  std::string bytes;
  std::error_code ignored;
  const auto size = fs::file_size(path, ignored);
  if (!ignored) bytes.reserve(size);
  std::array<char, 1 << 16> buffer;
  size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    bytes.append(buffer.data(), got);
  }
  if (std::ferror(file.get())) fail(kOperation, "cannot read ", name, ": ", std::strerror(errno));
  return bytes;
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<fs::path> files_below(const std::string& folder) {
  std::vector<fs::path> files;
  try {
    for (auto entry = fs::recursive_directory_iterator(folder);
         entry != fs::recursive_directory_iterator(); ++entry) {
      if (hidden(entry->path())) {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file()) {
        files.push_back(entry->path());
      }
    }
  } catch (const fs::filesystem_error& error) {
    const std::string& where = error.path1().empty() ? folder : error.path1().string();
    fail(kOperation, "cannot read folder ", where, ": ", error.code().message());
  }
  // Bytes, not the locale and not path components: the same order on every machine.
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

// The next point at or after `offset` where a character begins.
size_t character_start(std::string_view text, size_t offset) {
  while (offset < text.size() && is_utf8_continuation(text[offset])) ++offset;
  return offset;
}

void require_options(const CorpusOptions& options) {
  Check check(kOperation);
  const double train = options.train_fraction, validation = options.validation_fraction;
  check.require(train > 0 && train < 1, "train fraction must be between 0 and 1, got ", train);
  check.require(validation > 0 && validation < 1,
                "validation fraction must be between 0 and 1, got ", validation);
  // One ulp of room: 0.9 + 0.1 in doubles may be the double above 1.
  check.require(!(train + validation > 1 + std::numeric_limits<double>::epsilon()),
                "train and validation fractions must add up to at most 1, got ",
                train + validation);
  const std::string& bytes = options.vocabulary;
  const auto not_above = [](char a, char b) {
    return static_cast<unsigned char>(a) >= static_cast<unsigned char>(b);
  };
  check.require(std::adjacent_find(bytes.begin(), bytes.end(), not_above) == bytes.end(),
                "a given vocabulary must be ascending bytes without repetition");
  check.done();
}

// Bytes that occur, ascending.
std::string bytes_of(std::string_view text) {
  std::array<bool, 256> occurs{};
  for (const char byte : text) occurs[static_cast<unsigned char>(byte)] = true;
  std::string vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    if (occurs[byte]) vocabulary += static_cast<char>(byte);
  }
  return vocabulary;
}

Corpus corpus_from_checked_text(std::string_view text, const std::string& name,
                                const CorpusOptions& options) {
  Corpus corpus;
  corpus.path = name;
  corpus.files = 1;
  corpus.fingerprint = fnv1a(text);
  corpus.vocabulary = options.vocabulary.empty() ? bytes_of(text) : options.vocabulary;

  constexpr int kNone = -1;
  std::array<int, 256> ids;
  ids.fill(kNone);
  for (size_t id = 0; id < corpus.vocabulary.size(); ++id) {
    ids[static_cast<unsigned char>(corpus.vocabulary[id])] = static_cast<int>(id);
  }
  corpus.tokens.resize(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const int id = ids[static_cast<unsigned char>(text[i])];
    if (id == kNone) {
      fail(kOperation, name, ": byte ", hex_byte(text[i]), " at offset ", i, " is not among the ",
           corpus.vocabulary.size(), " bytes of the given vocabulary");
    }
    corpus.tokens[i] = static_cast<Token>(id);
  }

  const auto point = [&](double fraction) {
    const double at = std::floor(fraction * static_cast<double>(text.size()));
    return character_start(text, std::min(text.size(), static_cast<size_t>(at)));
  };
  corpus.train_end = point(options.train_fraction);
  const double both = options.train_fraction + options.validation_fraction;
  // Nothing is left for test when the fractions add up to 1, whatever their sum rounds to.
  const bool all = both >= 1 - std::numeric_limits<double>::epsilon();
  corpus.validation_end = all ? text.size() : point(both);
  return corpus;
}

}  // namespace

std::string Corpus::decode(std::span<const Token> ids) const {
  std::string text(ids.size(), '\0');
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= vocabulary.size()) {
      fail(kOperation, "id must be below the vocabulary's size ", vocabulary.size(), ", got ",
           int{ids[i]}, " at ", i);
    }
    text[i] = vocabulary[ids[i]];
  }
  return text;
}

Corpus corpus_from_text(std::string_view text, const std::string& name,
                        const CorpusOptions& options) {
  require_options(options);
  if (text.empty()) fail(kOperation, name, " is empty");
  require_text(text, name);
  return corpus_from_checked_text(text, name, options);
}

Corpus load_corpus(const std::string& path, const CorpusOptions& options) {
  require_options(options);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    fail(kOperation, "there is no file or folder '", path, "'");
  }
  if (error) fail(kOperation, "cannot read ", path, ": ", error.message());
  if (fs::is_regular_file(status)) return corpus_from_text(read_file(path), path, options);
  if (!fs::is_directory(status)) {
    fail(kOperation, path, " is neither a file nor a folder (a pipe or a device?)");
  }

  std::string text;
  int64_t files = 0;
  const std::vector<fs::path> found = files_below(path);
  for (const fs::path& file : found) {
    const std::string part = read_file(file);
    if (part.empty()) continue;
    require_text(part, file.string());  // here, so that name and offset are those of the file
    if (files++ > 0) text += '\n';
    text += part;
  }
  if (files == 0) {
    if (found.empty()) fail(kOperation, "folder ", path, " holds no files");
    fail(kOperation, "folder ", path, " holds only empty files");
  }
  Corpus corpus = corpus_from_checked_text(text, path, options);
  corpus.files = files;
  return corpus;
}

void require_length(const Corpus& corpus, int64_t train_length, int64_t longest) {
  // The bound keeps the products below far from overflow.
  constexpr int64_t kAbsurd = int64_t{1} << 40;
  if (train_length < 1 || longest < 1 || train_length > kAbsurd / longest) {
    fail(kOperation, "training length must be between 1 and ",
         kAbsurd / std::max<int64_t>(longest, 1), ", got ", train_length);
  }
  const int64_t window = longest * train_length + 1;  // the last input's target is one more token
  const int64_t size = static_cast<int64_t>(corpus.tokens.size());
  std::string reasons;
  double enough = 0;
  const auto require = [&](const char* part, std::span<const Token> tokens, int64_t needed,
                           const std::string& why) {
    const int64_t got = static_cast<int64_t>(tokens.size());
    if (got >= needed) return;
    reasons += text_of(reasons.empty() ? "" : ", and ", got, " for ", part, ", which needs ",
                       needed, " (", why, " and a target)");
    // A text with the same shares; nothing can be said of a part without any share.
    if (got > 0) {
      enough = std::max(enough, std::ceil(static_cast<double>(needed) * static_cast<double>(size) /
                                          static_cast<double>(got)));
    }
  };
  const std::string why = text_of(longest, " x training length ", train_length);
  require("training", corpus.train(), train_length + 1, text_of("training length ", train_length));
  require("validation", corpus.validation(), window, why);
  if (!corpus.test().empty()) require("test", corpus.test(), window, why);
  if (reasons.empty()) return;
  fail(kOperation, corpus.path, " is too short: its ", size, " bytes leave ", reasons, "; give ",
       enough > 0 ? text_of("about ", static_cast<int64_t>(enough), " bytes") : "a longer text",
       " or a shorter training length");
}

std::string fingerprint_text(uint64_t fingerprint) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(fingerprint));
  return text;
}

}  // namespace locant
