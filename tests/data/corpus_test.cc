// Reading texts: parts, vocabulary, order of files, and every kind of bad text.
#include "locant/data/corpus.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>

namespace locant {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "locant_corpus_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  fs::path path_;
};

// The message of the std::invalid_argument `call` throws.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "(no error)";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
  }
}

std::string part_text(const Corpus& corpus, std::span<const Token> part) {
  return corpus.decode(part);
}

TEST(Corpus, FingerprintIsFnv1a) {
  // Published test values of 64-bit FNV-1a.
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8u);
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  EXPECT_EQ(fingerprint_text(0x00ab000000000001u), "00ab000000000001");
}

TEST(Corpus, VocabularyIsTheBytesThatOccurAnywhere) {
  // 'z' occurs only in the test part, and still has an id.
  const std::string text = "banana\nbanana\nbanan" + std::string("z");
  const Corpus corpus = corpus_from_text(text, "t", {.train_fraction = 0.5});
  EXPECT_EQ(corpus.vocabulary, "\nabnz");
  EXPECT_EQ(corpus.decode(corpus.tokens), text);
  EXPECT_EQ(corpus.tokens[0], 2);  // b
  EXPECT_EQ(corpus.tokens.back(), 4);
  EXPECT_EQ(corpus.fingerprint, fnv1a(text));
}

TEST(Corpus, PartsFollowEachOtherAndCoverTheText) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('a' + i % 26);
  const Corpus corpus = corpus_from_text(text, "t");
  EXPECT_EQ(corpus.train().size(), 900u);
  EXPECT_EQ(corpus.validation().size(), 50u);
  EXPECT_EQ(corpus.test().size(), 50u);
  EXPECT_EQ(corpus.validation().data(), corpus.train().data() + corpus.train().size());
  EXPECT_EQ(corpus.test().data(), corpus.validation().data() + corpus.validation().size());
  EXPECT_EQ(part_text(corpus, corpus.train()) + part_text(corpus, corpus.validation()) +
                part_text(corpus, corpus.test()),
            text);
}

// At every possible length, with characters of one to four bytes, no part begins inside one.
TEST(Corpus, PartsBeginWithACharacter) {
  const std::string pattern = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  std::string text;
  for (int characters = 8; characters < 60; ++characters) {
    text.clear();
    for (int i = 0; i < characters; ++i) {
      constexpr int kOffset[] = {0, 1, 3, 6, 10};
      text += pattern.substr(kOffset[i % 4], kOffset[i % 4 + 1] - kOffset[i % 4]);
    }
    const Corpus corpus = corpus_from_text(text, "t");
    for (const size_t point : {corpus.train_end, corpus.validation_end}) {
      if (point < text.size()) {
        EXPECT_NE(static_cast<unsigned char>(text[point]) & 0xC0, 0x80) << characters;
      }
    }
    EXPECT_LE(corpus.train_end, corpus.validation_end);
    // Moved by less than one character.
    EXPECT_LT(corpus.train_end, text.size() * 9 / 10 + 4);
    EXPECT_GE(corpus.train_end, text.size() * 9 / 10);
  }
}

TEST(Corpus, FractionsThatAddUpToOneLeaveNoTestPart) {
  for (const double train : {0.9, 0.7, 0.8, 0.6, 0.55}) {
    const Corpus corpus = corpus_from_text(
        std::string(1001, 'x'), "t", {.train_fraction = train, .validation_fraction = 1 - train});
    EXPECT_TRUE(corpus.test().empty()) << train;
    EXPECT_EQ(corpus.train().size() + corpus.validation().size(), 1001u);
  }
}

TEST(Corpus, ImpossibleFractionsAreErrors) {
  const auto error = [](double train, double validation) {
    return error_of([&] {
      corpus_from_text("abc", "t", {.train_fraction = train, .validation_fraction = validation});
    });
  };
  expect_words(error(0, 0.5), {"[corpus]", "train fraction", "got 0"});
  expect_words(error(0.5, 0), {"validation fraction", "got 0"});
  expect_words(error(0.9, 0.2), {"at most 1", "got 1.1"});
  expect_words(error(std::nan(""), 0.2), {"train fraction"});
  expect_words(error(1.5, -1), {"train fraction", "validation fraction"});  // both reasons
}

TEST(Corpus, GivenVocabularyIsKeptAndUnknownBytesAreNamed) {
  const Corpus corpus = corpus_from_text("cab", "t", {.vocabulary = "abcd"});
  EXPECT_EQ(corpus.vocabulary, "abcd");
  EXPECT_EQ(corpus.tokens, (std::vector<Token>{2, 0, 1}));
  expect_words(error_of([] { corpus_from_text("abx", "some.txt", {.vocabulary = "ab"}); }),
               {"some.txt", "0x78", "offset 2", "2 bytes"});
  expect_words(error_of([] { corpus_from_text("ab", "t", {.vocabulary = "ba"}); }), {"ascending"});
  expect_words(error_of([] { corpus_from_text("ab", "t", {.vocabulary = "aab"}); }), {"ascending"});
  // Bytes above 127 come after the others.
  EXPECT_EQ(corpus_from_text("\xC3\xA9z", "t").vocabulary, "z\xA9\xC3");
  EXPECT_EQ(corpus_from_text("\xC3\xA9z", "t", {.vocabulary = "z\xA9\xC3"}).tokens,
            (std::vector<Token>{2, 1, 0}));
}

TEST(Corpus, DecodeRefusesIdsOutsideTheVocabulary) {
  const Corpus corpus = corpus_from_text("ab", "t");
  const std::vector<Token> ids = {0, 1, 2};
  expect_words(error_of([&] { corpus.decode(ids); }), {"size 2", "got 2"});
}

TEST(Corpus, FileIsReadWhole) {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 30000; ++i) text += std::to_string(i) + '\n';  // more than one buffer
  const Corpus corpus = load_corpus(folder.write("a.txt", text));
  EXPECT_EQ(corpus.decode(corpus.tokens), text);
  EXPECT_EQ(corpus.files, 1);
  EXPECT_EQ(corpus.path, folder.path("a.txt"));
}

TEST(Corpus, FolderIsReadInTheOrderOfPathBytes) {
  const Folder folder;
  folder.write("in/b.txt", "B");
  folder.write("in/Z.txt", "Z");  // capitals before small letters
  folder.write("in/a/2.txt", "a2");
  folder.write("in/a/10.txt", "a10");  // "10" before "2"
  folder.write("in/a.txt", "a");       // '.' before '/'
  folder.write("in/empty.txt", "");
  folder.write("in/.hidden", "no");
  folder.write("in/.git/config", "no");
  folder.write("in/\xC3\xA9.txt", "e");
  const Corpus corpus = load_corpus(folder.path("in"));
  EXPECT_EQ(corpus.decode(corpus.tokens), "Z\na\na10\na2\nB\ne");
  EXPECT_EQ(corpus.files, 6);
}

TEST(Corpus, HiddenNameGivenByHandIsRead) {
  const Folder folder;
  folder.write(".notes/a.txt", "text");
  EXPECT_EQ(load_corpus(folder.path(".notes")).tokens.size(), 4u);
}

TEST(Corpus, LinksToFilesAreReadAndLinksToFoldersNotFollowed) {
  const Folder folder;
  folder.write("in/a.txt", "a");
  folder.write("out/b.txt", "b");
  fs::create_symlink(folder.path("out/b.txt"), folder.path("in/link.txt"));
  fs::create_directory_symlink(folder.path("in"), folder.path("in/loop"));
  const Corpus corpus = load_corpus(folder.path("in"));
  EXPECT_EQ(corpus.decode(corpus.tokens), "a\nb");
}

TEST(CorpusError, MissingEmptyAndFolderWithoutFiles) {
  const Folder folder;
  expect_words(error_of([&] { load_corpus(folder.path("none.txt")); }),
               {"[corpus]", folder.path("none.txt"), "no file or folder"});
  expect_words(error_of([&] { load_corpus(folder.write("empty.txt", "")); }),
               {folder.path("empty.txt"), "is empty"});
  fs::create_directories(folder.path("hollow/inner"));
  folder.write("hollow/.hidden", "x");
  expect_words(error_of([&] { load_corpus(folder.path("hollow")); }),
               {folder.path("hollow"), "holds no files"});
  folder.write("blank/a.txt", "");
  expect_words(error_of([&] { load_corpus(folder.path("blank")); }), {"only empty files"});
  expect_words(error_of([&] { load_corpus(folder.path("empty.txt/below")); }), {"empty.txt/below"});
  expect_words(error_of([] { load_corpus(""); }), {"no file or folder"});
}

TEST(CorpusError, BinaryNamesFileAndOffset) {
  const Folder folder;
  const std::string nul = folder.write("in/b.bin", std::string("ab\0c", 4));
  expect_words(error_of([&] { load_corpus(nul); }), {nul, "binary", "NUL", "offset 2"});
  const std::string latin = folder.write("latin.txt", "caf\xE9 au lait");
  expect_words(error_of([&] { load_corpus(latin); }), {latin, "not UTF-8", "0xe9", "offset 3"});
  // Within a folder the file and the offset are the file's own.
  folder.write("in/a.txt", "a long text before it");
  expect_words(error_of([&] { load_corpus(folder.path("in")); }),
               {folder.path("in/b.bin"), "offset 2"});
  // A character cut between two files is invalid in both, though joined bytes might not be.
  folder.write("cut/1.txt", "a\xC3");
  folder.write("cut/2.txt", "\xA9");
  expect_words(error_of([&] { load_corpus(folder.path("cut")); }),
               {folder.path("cut/1.txt"), "offset 1"});
}

TEST(CorpusError, UnreadableFileAndFolder) {
  const Folder folder;
  const std::string file = folder.write("in/secret.txt", "text");
  ASSERT_EQ(chmod(file.c_str(), 0), 0);
  ASSERT_EQ(chmod(fs::path(file).parent_path().parent_path().c_str(), 0755), 0);
  // The superuser may read anything, so this asks as somebody else.
  const bool root = geteuid() == 0;
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "cannot give up the superuser's rights";
  const std::string of_file = error_of([&] { load_corpus(file); });
  const std::string of_folder = error_of([&] { load_corpus(folder.path("in")); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  expect_words(of_file, {file, "cannot read", "ermission denied"});
  expect_words(of_folder, {file, "cannot read", "ermission denied"});

  ASSERT_EQ(chmod(folder.path("in").c_str(), 0), 0);
  if (root) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string of_closed = error_of([&] { load_corpus(folder.path("in")); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ASSERT_EQ(chmod(folder.path("in").c_str(), 0755), 0);
  expect_words(of_closed, {folder.path("in"), "cannot read", "ermission denied"});
}

TEST(CorpusError, PipesAndDevicesAreNotRead) {
  const Folder folder;
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expect_words(error_of([&] { load_corpus(folder.path("pipe")); }),
               {"neither a file nor a folder"});
  expect_words(error_of([] { load_corpus("/dev/zero"); }), {"/dev/zero", "neither"});
}

TEST(CorpusError, TooShortNamesFileSizeAndNeed) {
  // 20 x (16 x 64 + 1) bytes leave exactly enough in validation and test.
  const std::string enough(20500, 'x');
  EXPECT_NO_THROW(require_length(corpus_from_text(enough, "t"), 64));
  const Corpus less = corpus_from_text(enough.substr(0, 20400), "short.txt");
  expect_words(error_of([&] { require_length(less, 64); }),
               {"short.txt", "20400 bytes", "leave 1020 for validation", "1020 for test",
                "needs 1025", "16 x training length 64", "about 20500 bytes"});
  // Test is asked for only if there is one; training needs one piece.
  const CorpusOptions no_test = {.train_fraction = 0.5, .validation_fraction = 0.5};
  EXPECT_NO_THROW(require_length(corpus_from_text(std::string(2050, 'x'), "t", no_test), 64));
  const Corpus no_train = corpus_from_text(std::string(100, 'x'), "t",
                                           {.train_fraction = 0.1, .validation_fraction = 0.9});
  expect_words(error_of([&] { require_length(no_train, 10, 1); }), {"10 for training", "needs 11"});
}

TEST(CorpusError, AbsurdLengths) {
  const Corpus corpus = corpus_from_text("abc", "t");
  for (const int64_t length : {int64_t{0}, int64_t{-5}, std::numeric_limits<int64_t>::max()}) {
    expect_words(error_of([&] { require_length(corpus, length); }),
                 {"training length", "got " + std::to_string(length)});
  }
}

}  // namespace
}  // namespace locant
