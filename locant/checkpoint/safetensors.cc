// Reading tensors from an open file, and writing a file.
#include "locant/checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "locant/base/check.h"
#include "locant/base/utf8.h"
#include "locant/checkpoint/json.h"

namespace locant {
namespace {

constexpr char kOperation[] = "safetensors";

// Tensors are copied between file and memory as they are, and the file is little-endian.
static_assert(std::endian::native == std::endian::little);

void read_at(int descriptor, int64_t offset, void* to, int64_t size, const std::string& path) {
  char* place = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got =
        ::pread(descriptor, place, static_cast<size_t>(std::min<int64_t>(size, 1 << 26)), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      throw FileError(path, "read", errno);
    }
    if (got == 0) fail(kOperation, path, ": the file was cut while it was read, at byte ", offset);
    place += got;
    offset += got;
    size -= got;
  }
}

float float_of_half(uint16_t bits) {
  const int exponent = bits >> 10 & 0x1F;
  const int fraction = bits & 0x3FF;
  float magnitude;
  if (exponent == 0x1F) {
    magnitude = std::bit_cast<float>(0x7F800000u | static_cast<uint32_t>(fraction) << 13);
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return std::copysign(magnitude, bits & 0x8000 ? -1.0f : 1.0f);
}

float float_of_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

template <class Stored, class Convert>
void convert(std::span<const std::byte> bytes, std::span<float> values, Convert to_float) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = to_float(stored);
  }
}

std::string text_of_shape(std::span<const int64_t> shape, std::string_view separator = ", ") {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += separator;
    text += std::to_string(size);
  }
  return text += ']';
}

// The size a shape asks for; -1 for a negative or overflowing one.
int64_t bytes_needed(const TensorToWrite& tensor) {
  int64_t bytes = size_of(tensor.type);
  for (const int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

void require_writable(const std::string& path, const std::map<std::string, std::string>& metadata,
                      std::span<const TensorToWrite> tensors) {
  Check check(kOperation);
  const auto utf8 = [](std::string_view text) {
    return first_invalid_utf8(text) == std::string_view::npos;
  };
  for (const auto& [key, value] : metadata) {
    check.require(utf8(key) && utf8(value), path, ": metadata ", json_string(key),
                  " must be UTF-8");
  }
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    const std::string quoted = json_string(tensor.name);
    check.require(!tensor.name.empty() && tensor.name != "__metadata__" && utf8(tensor.name), path,
                  ": a tensor's name must be UTF-8, not empty and not __metadata__, got ", quoted);
    check.require(names.insert(tensor.name).second, path, ": tensor ", quoted, " is there twice");
    const int64_t needed = bytes_needed(tensor);
    check.require(needed == static_cast<int64_t>(tensor.bytes.size()), path, ": tensor ", quoted,
                  ": shape ", text_of_shape(tensor.shape), " of ", name_of(tensor.type),
                  needed < 0 ? std::string(" is impossible")
                             : text_of(" needs ", needed, " bytes, got ", tensor.bytes.size()));
  }
  check.done();
}

std::string header_text(const std::map<std::string, std::string>& metadata,
                        std::span<const TensorToWrite> tensors) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (text.back() != '{') text += ',';
      text += json_string(key) + ':' + json_string(value);
    }
    text += '}';
  }
  size_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    const size_t end = begin + tensor.bytes.size();
    if (text.size() > 1) text += ',';
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        json_string(tensor.name), name_of(tensor.type),
                        text_of_shape(tensor.shape, ","), begin, end);
    begin = end;
  }
  text += '}';
  // The 8 bytes of length before it are aligned already.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path) {
  do {
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) throw FileError(path, "read", errno);
  try {
    struct stat status;
    if (::fstat(descriptor_, &status) != 0) throw FileError(path, "examine", errno);
    if (!S_ISREG(status.st_mode)) fail(kOperation, path, ": expected a file");
    std::string start(static_cast<size_t>(std::min<int64_t>(status.st_size, 8)), '\0');
    read_at(descriptor_, 0, start.data(), static_cast<int64_t>(start.size()), path);
    start.resize(static_cast<size_t>(safetensors_start_size(start, status.st_size, path)));
    read_at(descriptor_, 0, start.data(), static_cast<int64_t>(start.size()), path);
    header_ = parse_safetensors(start, status.st_size, path);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsReader::~SafetensorsReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      header_(std::move(other.header_)) {}

SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(header_, other.header_);
  return *this;
}

const TensorInfo& SafetensorsReader::info(std::string_view name) const {
  if (const TensorInfo* tensor = header_.find(name)) return *tensor;
  std::string names;
  constexpr size_t kMost = 20;
  for (size_t i = 0; i < header_.tensors.size() && i < kMost; ++i) {
    names += (i ? ", " : "") + header_.tensors[i].name;
  }
  if (header_.tensors.size() > kMost) names += ", ...";
  fail(kOperation, path_, ": there is no tensor ", json_string(name), "; the file holds ",
       header_.tensors.size(), ": ", names);
}

void SafetensorsReader::read(const TensorInfo& tensor, std::span<std::byte> bytes) const {
  const int64_t size = tensor.end - tensor.begin;
  if (static_cast<int64_t>(bytes.size()) != size) {
    fail(kOperation, path_, ": tensor ", json_string(tensor.name), ": expected room for ", size,
         " bytes, got ", bytes.size());
  }
  read_at(descriptor_, header_.data_begin + tensor.begin, bytes.data(), size, path_);
}

void SafetensorsReader::read_floats(std::string_view name, std::span<const int64_t> shape,
                                    std::span<float> values) const {
  const TensorInfo& tensor = info(name);
  Check check(kOperation);
  check.require(std::ranges::equal(tensor.shape, shape), path_, ": tensor ", json_string(name),
                ": expected shape ", text_of_shape(shape), ", got ", text_of_shape(tensor.shape));
  check.done();
  check.require(static_cast<int64_t>(values.size()) == tensor.elements(), path_, ": tensor ",
                json_string(name), ": expected room for ", tensor.elements(), " values, got ",
                values.size());
  const bool known = tensor.type == ElementType::kF32 || tensor.type == ElementType::kF64 ||
                     tensor.type == ElementType::kF16 || tensor.type == ElementType::kBF16;
  check.require(known, path_, ": tensor ", json_string(name),
                ": expected F32, F64, F16 or BF16, got ", name_of(tensor.type));
  check.done();
  if (tensor.type == ElementType::kF32) {
    read(tensor, std::as_writable_bytes(values));
    return;
  }
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.end - tensor.begin));
  read(tensor, bytes);
  if (tensor.type == ElementType::kF64) {
    convert<double>(bytes, values, [](double value) { return static_cast<float>(value); });
  } else if (tensor.type == ElementType::kF16) {
    convert<uint16_t>(bytes, values, float_of_half);
  } else {
    convert<uint16_t>(bytes, values, float_of_bf16);
  }
}

TensorToWrite float_tensor(std::string name, std::vector<int64_t> shape,
                           std::span<const float> values) {
  return {std::move(name), ElementType::kF32, std::move(shape), std::as_bytes(values)};
}

void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       std::span<const TensorToWrite> tensors) {
  require_writable(path, metadata, tensors);
  const std::string header = header_text(metadata, tensors);
  if (static_cast<int64_t>(header.size()) > kLargestHeader) {
    fail(kOperation, path, ": the header would have ", header.size(), " bytes, at most ",
         kLargestHeader, " are allowed");
  }
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(header);
  for (const TensorToWrite& tensor : tensors) {
    file.write({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  }
  file.commit();
}

}  // namespace locant
