// Safetensors, the file format of model weights: 8 bytes of header length (little-endian), a JSON
// header, then the tensors' bytes without holes. https://github.com/huggingface/safetensors
//
// The reader takes nothing on trust: a file that is accepted has a header that fits, known element
// types, sizes that are shape times element, and tensors that cover the data exactly, in order,
// with neither hole nor overlap nor duplicate name. Anything else is std::invalid_argument that
// names the file, the tensor, what was expected and what came. What the system refuses is
// FileError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "locant/checkpoint/atomic_file.h"

namespace locant {

enum class ElementType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
  kF8E5M2,
  kF8E4M3
};

// "F32", "BF16" ..., as the header writes it, and bytes of an element.
std::string_view name_of(ElementType type);
int64_t size_of(ElementType type);

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t begin = 0, end = 0;  // bytes, counted from the end of the header
  int64_t elements() const;    // product of the shape
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  int64_t data_begin = 0;           // where in the file the data begins

  const TensorInfo* find(std::string_view name) const;  // nullptr: there is none
};

// Largest header accepted, in bytes; the reference implementation has the same limit.
inline constexpr int64_t kLargestHeader = 100'000'000;

// The header of a file of `file_size` bytes whose first bytes are `start` (8 bytes of length and
// the whole header, at least, if the file has them). `file` is its name in errors.
SafetensorsHeader parse_safetensors(std::string_view start, int64_t file_size,
                                    const std::string& file);

// How many bytes parse_safetensors needs from a file that begins with `start` (8 bytes or more).
int64_t safetensors_start_size(std::string_view start, int64_t file_size, const std::string& file);

// An open file. The header is read at once, tensors when asked for. Reading from several threads at
// the same time is safe. A file replaced meanwhile by AtomicFile is still read as it was.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&& other) noexcept;
  SafetensorsReader& operator=(SafetensorsReader&& other) noexcept;

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

  // The tensor of this name; std::invalid_argument says which names there are.
  const TensorInfo& info(std::string_view name) const;

  // The tensor's bytes as they are. `bytes` must have its size.
  void read(const TensorInfo& tensor, std::span<std::byte> bytes) const;

  // As float, from F32, F64, F16 or BF16. `values` must have `shape`'s number of elements, and the
  // tensor this shape.
  void read_floats(std::string_view name, std::span<const int64_t> shape,
                   std::span<float> values) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  SafetensorsHeader header_;
};

// A tensor to be written; `bytes` must outlive the call of write_safetensors.
struct TensorToWrite {
  std::string name;
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

TensorToWrite float_tensor(std::string name, std::vector<int64_t> shape,
                           std::span<const float> values);

// Writes the tensors in this order, replacing the file whole (AtomicFile). The data begins at a
// multiple of 8. Throws std::invalid_argument for names that are empty, reserved, twice there or
// not UTF-8, negative shapes, or bytes that do not fit the shape; FileError for what the system
// refuses.
void write_safetensors(const std::string& path, const std::map<std::string, std::string>& metadata,
                       std::span<const TensorToWrite> tensors);

}  // namespace locant
