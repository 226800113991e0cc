// Old or new, never half: under kills, full disks, forbidden folders and several writers.
#include "locant/checkpoint/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/checkpoint/temporary_folder.h"

namespace locant {
namespace {

// While it lives, no file of this process grows past `bytes`: the write then fails with EFBIG, by
// the same path as ENOSPC on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {bytes, old_.rlim_max};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("no limit");
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_;
  void (*old_handler_)(int);
};

template <class Call>
FileError error_of(Call call) {
  try {
    call();
  } catch (const FileError& error) {
    return error;
  }
  ADD_FAILURE() << "no FileError";
  return FileError("", "", 0);
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
  }
}

TEST(AtomicFile, WritesAndReplaces) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_atomically(path, "first");
  EXPECT_EQ(contents(path), "first");
  const std::string large(3000000, 'x');
  write_atomically(path, large);
  EXPECT_EQ(contents(path), large);
  write_atomically(path, "");
  EXPECT_EQ(contents(path), "");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, NothingIsSeenBeforeCommitNorLeftWithoutIt) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  {
    AtomicFile file(path);
    file.write("never");
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(folder.files(), 0u);
  write_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write("new ");
    file.write("text");
    EXPECT_EQ(contents(path), "old");
    file.commit();
    EXPECT_EQ(contents(path), "new text");
    EXPECT_THROW(file.write("more"), std::invalid_argument);
    EXPECT_THROW(file.commit(), std::invalid_argument);
  }
  EXPECT_EQ(contents(path), "new text");
}

TEST(AtomicFile, PermissionsFollowTheUmaskAndThenTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  const mode_t old_mask = umask(027);
  write_atomically(path, "x");
  umask(old_mask);
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  ASSERT_EQ(chmod(path.c_str(), 0604), 0);
  write_atomically(path, "y");
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0604u);
}

TEST(AtomicFile, TemporaryOfAKilledWriterIsUsedAgain) {
  const TemporaryFolder folder;
  put(folder.path("a.tmp"), "a long piece left by a killed process");
  write_atomically(folder.path("a"), "new");
  EXPECT_EQ(contents(folder.path("a")), "new");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, NoRoomLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  write_atomically(path, "old");
  {
    const FileSizeLimit limit(1000);
    const FileError error = error_of([&] { write_atomically(path, std::string(5000, 'x')); });
    EXPECT_EQ(error.error_number(), EFBIG);
    expect_words(error.what(), {"[file]", "cannot write", path, "too large"});
  }
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, ImpossiblePlaces) {
  const TemporaryFolder folder;
  const std::string no_folder = folder.path("none/a");
  expect_words(error_of([&] { write_atomically(no_folder, "x"); }).what(),
               {no_folder, "No such file or directory"});
  put(folder.path("file"), "x");
  expect_words(error_of([&] { write_atomically(folder.path("file/a"), "x"); }).what(),
               {folder.path("file/a"), "Not a directory"});
  std::filesystem::create_directory(folder.path("taken"));
  expect_words(error_of([&] { write_atomically(folder.path("taken"), "x"); }).what(),
               {"cannot replace", folder.path("taken"), "s a directory"});
  EXPECT_FALSE(std::filesystem::exists(folder.path("taken.tmp")));
}

TEST(AtomicFile, ReadOnlyFolder) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a"), records = folder.path("records");
  write_atomically(path, "old");
  write_atomically(records, "line\n");
  ASSERT_EQ(chmod(folder.path().c_str(), 0555), 0);
  // The superuser may write anywhere, so this asks as somebody else.
  const bool root = geteuid() == 0;
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "cannot give up the superuser's rights";
  const FileError of_write = error_of([&] { write_atomically(path, "new"); });
  const FileError of_append = error_of([&] { append_durably(records, "more"); });
  const FileError of_lock = error_of([&] { (void)FileLock::try_acquire(folder.path("lock")); });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  expect_words(of_write.what(), {path, "ermission denied"});
  if (root) expect_words(of_append.what(), {records, "ermission denied"});  // root's file, mode 644
  expect_words(of_lock.what(), {folder.path("lock"), "ermission denied"});
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(contents(records), "line\n");
  EXPECT_EQ(folder.files(), 2u);
}

// A child replaces a file without end and is killed at different moments: whole content, always.
TEST(AtomicFile, KilledWriterLeavesOldOrNew) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  const std::string one(200000, '1'), two(300000, '2');
  write_atomically(path, one);
  for (int round = 0; round < 25; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; ++i) write_atomically(path, i % 2 ? one : two);
    }
    usleep(static_cast<useconds_t>(500 + round * 700));
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    const std::string now = contents(path);
    EXPECT_TRUE(now == one || now == two) << "round " << round << ": " << now.size() << " bytes";
    EXPECT_LE(folder.files(), 2u);  // the file and at most one temporary
  }
  write_atomically(path, "end");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, SeveralWritersTakeTurns) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a");
  std::vector<std::thread> threads;
  for (int worker = 0; worker < 4; ++worker) {
    threads.emplace_back([&path, worker] {
      for (int i = 0; i < 20; ++i) {
        write_atomically(path, std::string(100000, static_cast<char>('a' + worker)));
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    const std::string now = contents(path);
    EXPECT_TRUE(now.empty() || now == std::string(100000, now[0]));
  }
  for (std::thread& thread : threads) thread.join();
  const std::string now = contents(path);
  EXPECT_EQ(now, std::string(100000, now.empty() ? '?' : now[0]));
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AppendDurably, AddsWholeLines) {
  const TemporaryFolder folder;
  const std::string path = folder.path("records");
  EXPECT_FALSE(append_durably(path, "one").repaired);
  EXPECT_FALSE(append_durably(path, "two").repaired);
  EXPECT_FALSE(append_durably(path, "").repaired);
  EXPECT_EQ(contents(path), "one\ntwo\n\n");
  EXPECT_THROW(append_durably(path, "a\nb"), std::invalid_argument);
  EXPECT_EQ(contents(path), "one\ntwo\n\n");
  append_durably(path, std::vector<std::string>{"three", "four"});
  EXPECT_THROW(append_durably(path, std::vector<std::string>{"five", "a\nb"}), std::invalid_argument);
  EXPECT_EQ(contents(path), "one\ntwo\n\nthree\nfour\n");
}

TEST(AppendDurably, CutLineStaysAlone) {
  const TemporaryFolder folder;
  const std::string path = folder.path("records");
  put(path, "whole\n{\"cut\":");
  EXPECT_TRUE(append_durably(path, "next").repaired);
  EXPECT_EQ(contents(path), "whole\n{\"cut\":\nnext\n");
  EXPECT_FALSE(append_durably(path, "after").repaired);
}

TEST(AppendDurably, NoRoomLeavesNoPieceOfALine) {
  const TemporaryFolder folder;
  const std::string path = folder.path("records");
  for (const bool cut : {false, true}) {
    const std::string before = std::string(900, 'x') + (cut ? "" : "\n");
    put(path, before);
    const FileSizeLimit limit(1000);  // room for a part of the line
    const FileError error = error_of([&] { append_durably(path, std::string(500, 'y')); });
    EXPECT_EQ(error.error_number(), EFBIG);
    // Several lines, the first of which had room: none or all.
    const std::vector<std::string> lines{"short", std::string(500, 'y')};
    EXPECT_EQ(error_of([&] { append_durably(path, lines); }).error_number(), EFBIG);
    expect_words(error.what(), {"cannot append to", path});
    EXPECT_EQ(contents(path), before);
  }
}

TEST(AppendDurably, LinesOfSeveralProcessesNeverMix) {
  const TemporaryFolder folder;
  const std::string path = folder.path("records");
  constexpr int kProcesses = 4, kLines = 40;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0; i < kLines; ++i) {
        append_durably(path, std::to_string(process) + ":" + std::to_string(i) + ":" +
                                 std::string(5000, static_cast<char>('a' + process)));
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> expected, got;
  for (int process = 0; process < kProcesses; ++process) {
    for (int i = 0; i < kLines; ++i) {
      expected.insert(std::to_string(process) + ":" + std::to_string(i) + ":" +
                      std::string(5000, static_cast<char>('a' + process)));
    }
  }
  std::istringstream lines(contents(path));
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) got.insert(line);
  EXPECT_EQ(count, expected.size());
  EXPECT_TRUE(got == expected);
}

TEST(FileLock, OneHolderAtATime) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  {
    auto first = FileLock::try_acquire(path);
    ASSERT_TRUE(first.has_value());
    EXPECT_FALSE(FileLock::try_acquire(path).has_value());
    FileLock moved = std::move(*first);
    first.reset();
    EXPECT_FALSE(FileLock::try_acquire(path).has_value());
  }
  EXPECT_TRUE(FileLock::try_acquire(path).has_value());
}

TEST(FileLock, EndsWithItsProcess) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto lock = FileLock::try_acquire(path);
    const char byte = lock ? 'y' : 'n';
    if (::write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(FileLock::try_acquire(path).has_value());
  kill(child, SIGKILL);
  int status;
  waitpid(child, &status, 0);
  EXPECT_TRUE(FileLock::try_acquire(path).has_value());
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace locant
