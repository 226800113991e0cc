#include "locant/checkpoint/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "locant/base/check.h"

namespace locant {
namespace {

// Closes a descriptor when left early.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

int open_or_throw(const std::string& path, int flags, const std::string& named,
                  const std::string& tried) {
  int descriptor;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) throw FileError(named, tried, errno);
  return descriptor;
}

// Waits for the lock. File systems without locks (some network ones) do without.
void lock(int descriptor, const std::string& path) {
  while (::flock(descriptor, LOCK_EX) != 0) {
    if (errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS) return;
    if (errno != EINTR) throw FileError(path, "lock", errno);
  }
}

// True when all is written; otherwise errno says why not.
bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB at once; smaller pieces are as fast.
    const ssize_t written =
        ::write(descriptor, bytes.data(), std::min<size_t>(bytes.size(), 1 << 26));
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// The name of a file is durable only when its folder is.
void sync_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : (slash == 0 ? "/" : path.substr(0, slash));
  const Descriptor descriptor(
      open_or_throw(folder, O_RDONLY | O_DIRECTORY, folder, "open folder of " + path));
  // EINVAL, EROFS: a file system that cannot sync folders; then nothing more can be done.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != EROFS) {
    throw FileError(path, "sync the folder of", errno);
  }
}

// A device or pipe must not be replaced by a file.
void require_replaceable(const std::string& path) {
  struct stat found;
  if (::lstat(path.c_str(), &found) != 0) return;
  if (!S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode) && !S_ISDIR(found.st_mode)) {
    fail("file", path, ": expected a regular file or none, got a device, pipe or socket");
  }
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

FileError::FileError(const std::string& path, const std::string& tried, int error_number)
    : std::runtime_error("[file] cannot " + tried + " " + path + ": " +
                         std::strerror(error_number)),
      error_number_(error_number) {}

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(path + ".tmp") {
  require_replaceable(path);
  for (;;) {
    Descriptor descriptor(
        open_or_throw(temporary_, O_WRONLY | O_CREAT | O_NOFOLLOW, temporary_, "make"));
    lock(descriptor.get(), temporary_);
    // While this waited, the former writer may have renamed or removed the file behind the name.
    struct stat open_file, named_file;
    if (::fstat(descriptor.get(), &open_file) != 0) throw FileError(temporary_, "examine", errno);
    if (::stat(temporary_.c_str(), &named_file) != 0 || !same_file(open_file, named_file)) continue;
    if (::ftruncate(descriptor.get(), 0) != 0) throw FileError(temporary_, "empty", errno);
    descriptor_ = descriptor.release();
    return;
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());  // still locked, so it is this writer's own
  ::close(descriptor_);
}

void AtomicFile::write(std::string_view bytes) {
  if (descriptor_ < 0) fail("file", path_, " was committed already");
  if (!write_all(descriptor_, bytes)) throw FileError(path_, "write", errno);
}

void AtomicFile::commit() {
  if (descriptor_ < 0) fail("file", path_, " was committed already");
  // A file that replaces another keeps its permissions; not being allowed to is no reason to fail.
  struct stat old_file;
  if (::stat(path_.c_str(), &old_file) == 0 && S_ISREG(old_file.st_mode)) {
    (void)::fchmod(descriptor_, old_file.st_mode & 07777);
  }
  // Before the rename: otherwise a power cut could leave the new name with no content.
  if (::fsync(descriptor_) != 0) throw FileError(path_, "write to disk", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw FileError(path_, "replace", errno);
  ::close(std::exchange(descriptor_, -1));
  sync_folder_of(path_);
}

void write_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

AppendResult append_durably(const std::string& path, std::span<const std::string> lines) {
  for (const std::string& line : lines) {
    if (line.find('\n') != std::string::npos) {
      fail("file", "a line to append to ", path, " must not hold a newline");
    }
  }
  const Descriptor descriptor(open_or_throw(path, O_RDWR | O_CREAT | O_APPEND, path, "append to"));
  lock(descriptor.get(), path);
  struct stat before;
  if (::fstat(descriptor.get(), &before) != 0) throw FileError(path, "examine", errno);
  AppendResult result;
  std::string bytes;
  if (before.st_size > 0) {
    char last = 0;
    if (::pread(descriptor.get(), &last, 1, before.st_size - 1) != 1) {
      throw FileError(path, "read the end of", errno);
    }
    result.repaired = last != '\n';
    if (result.repaired) bytes += '\n';
  }
  for (const std::string& line : lines) (bytes += line) += '\n';
  if (!write_all(descriptor.get(), bytes) || ::fsync(descriptor.get()) != 0) {
    const int reason = errno;
    // Back to the old length, so that a full disk leaves no piece of a line.
    if (::ftruncate(descriptor.get(), before.st_size) != 0) {
      throw FileError(path, "append to, nor undo a partial append to", reason);
    }
    throw FileError(path, "append to", reason);
  }
  if (before.st_size == 0) sync_folder_of(path);
  return result;
}

AppendResult append_durably(const std::string& path, const std::string& line) {
  return append_durably(path, std::span(&line, 1));
}

std::optional<FileLock> FileLock::try_acquire(const std::string& path) {
  Descriptor descriptor(open_or_throw(path, O_RDWR | O_CREAT, path, "lock"));
  while (::flock(descriptor.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno == ENOLCK || errno == ENOTSUP || errno == ENOSYS) break;
    if (errno != EINTR) throw FileError(path, "lock", errno);
  }
  return FileLock(descriptor.release());
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

}  // namespace locant
