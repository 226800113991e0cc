// Files that are never half written: replaced whole, or lengthened by whole lines.
//
// A kill, a crash or a full disk at any moment leaves the old file or the new one. What a return
// has promised is on the disk (fsync), also after a power cut. POSIX only.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace locant {

// A file could not be read or written: names the file, what was tried, and the system's reason.
class FileError : public std::runtime_error {
 public:
  FileError(const std::string& path, const std::string& tried, int error_number);
  int error_number() const { return error_number_; }  // errno, as in ENOSPC

 private:
  int error_number_;
};

// A file about to be written. Bytes go to PATH.tmp beside it, which takes PATH's place in commit().
// A writer of the same path in another process or thread waits for this one. A temporary left by a
// killed process is used again by the next writer. If PATH is a symbolic link, the link is
// replaced. All functions throw FileError; the destructor removes what was not committed.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
};

// All of it in one call.
void write_atomically(const std::string& path, std::string_view bytes);

struct AppendResult {
  // The file did not end with a newline (cut by a crash, or edited): one was put before the line,
  // so that the line stands alone. The line before it may be incomplete.
  bool repaired = false;
};

// Adds `lines`, a newline after each, to the file, which is made if it is missing, and returns when
// they are on the disk. Lines of several processes never mix. On failure the file has its old content
// (none, if it was missing) and FileError is thrown; a kill may leave some of the lines, the last of
// them cut. A line that holds a newline is std::invalid_argument.
AppendResult append_durably(const std::string& path, std::span<const std::string> lines);
AppendResult append_durably(const std::string& path, const std::string& line);

// A lock held by one process at a time, so that two runs do not work on one output folder; the
// system gives it up when the process ends, however it ends. The (empty) file stays.
class FileLock {
 public:
  // Nothing if another process (or another FileLock of this one) holds it; FileError if the file
  // cannot be made.
  static std::optional<FileLock> try_acquire(const std::string& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace locant
