// The header: every claim a file makes about itself is checked here, before a byte of data is read.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "locant/base/check.h"
#include "locant/checkpoint/json.h"
#include "locant/checkpoint/safetensors.h"

namespace locant {
namespace {

namespace dom = simdjson::dom;

constexpr char kOperation[] = "safetensors";
constexpr int64_t kLengthBytes = 8;

struct TypeRow {
  ElementType type;
  std::string_view name;
  int64_t size;
};
constexpr std::array<TypeRow, 15> kTypes = {{{ElementType::kF64, "F64", 8},
                                             {ElementType::kF32, "F32", 4},
                                             {ElementType::kF16, "F16", 2},
                                             {ElementType::kBF16, "BF16", 2},
                                             {ElementType::kI64, "I64", 8},
                                             {ElementType::kI32, "I32", 4},
                                             {ElementType::kI16, "I16", 2},
                                             {ElementType::kI8, "I8", 1},
                                             {ElementType::kU64, "U64", 8},
                                             {ElementType::kU32, "U32", 4},
                                             {ElementType::kU16, "U16", 2},
                                             {ElementType::kU8, "U8", 1},
                                             {ElementType::kBool, "BOOL", 1},
                                             {ElementType::kF8E5M2, "F8_E5M2", 1},
                                             {ElementType::kF8E4M3, "F8_E4M3", 1}}};

const TypeRow& row_of(ElementType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [type](const TypeRow& row) { return row.type == type; });
}

// The first 8 bytes, little-endian whatever the machine.
uint64_t header_length(std::string_view start) {
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i) {
    length = length << 8 | static_cast<unsigned char>(start[static_cast<size_t>(i)]);
  }
  return length;
}

// Errors of one file. Names come from the file, so they are quoted and shortened.
struct Reporter {
  const std::string& file;

  template <class... Parts>
  [[noreturn]] void fail_file(const Parts&... parts) const {
    fail(kOperation, file, ": ", parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail_tensor(std::string_view name, const Parts&... parts) const {
    fail(kOperation, file, ": tensor ", quoted(name), ": ", parts...);
  }
  static std::string quoted(std::string_view name) {
    constexpr size_t kLongest = 200;
    return json_string(name.substr(0, kLongest)) + (name.size() > kLongest ? "..." : "");
  }
};

// A list of whole numbers from 0 to 2^63 - 1.
std::vector<int64_t> whole_numbers(const dom::element& value, std::string_view key,
                                   std::string_view name, const Reporter& report) {
  dom::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS) {
    report.fail_tensor(name, key, " must be a list of whole numbers");
  }
  std::vector<int64_t> numbers;
  for (const dom::element item : array) {
    int64_t number = 0;
    if (item.get_int64().get(number) != simdjson::SUCCESS || number < 0) {
      report.fail_tensor(name, key, " must hold whole numbers from 0 to 2^63 - 1, got ",
                         Reporter::quoted(simdjson::minify(item)), " at place ", numbers.size());
    }
    numbers.push_back(number);
  }
  return numbers;
}

ElementType element_type(const dom::element& value, std::string_view name, const Reporter& report) {
  std::string_view text;
  if (value.get_string().get(text) != simdjson::SUCCESS) {
    report.fail_tensor(name, "dtype must be a string");
  }
  for (const TypeRow& row : kTypes) {
    if (row.name == text) return row.type;
  }
  std::string known;
  for (const TypeRow& row : kTypes) known += (known.empty() ? "" : ", ") + std::string(row.name);
  report.fail_tensor(name, "unknown dtype ", Reporter::quoted(text), ", expected one of ", known);
}

// Bytes of a tensor; shapes whose product overflows are errors, also if a later factor is 0.
int64_t bytes_of(const TensorInfo& tensor, const Reporter& report) {
  int64_t bytes = size_of(tensor.type);
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) {
      report.fail_tensor(tensor.name, "its shape has more than 2^63 - 1 elements");
    }
  }
  if (__builtin_mul_overflow(elements, bytes, &bytes)) {
    report.fail_tensor(tensor.name, "its shape has more than 2^63 - 1 bytes");
  }
  return bytes;
}

TensorInfo parse_tensor(std::string_view name, const dom::element& value, int64_t data_size,
                        const Reporter& report) {
  dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    report.fail_tensor(name, "expected an object with dtype, shape and data_offsets");
  }
  TensorInfo tensor;
  tensor.name = name;
  std::set<std::string_view> seen;
  for (const dom::key_value_pair field : object) {
    if (!seen.insert(field.key).second) {
      report.fail_tensor(name, Reporter::quoted(field.key), " is there twice");
    }
    if (field.key == "dtype") {
      tensor.type = element_type(field.value, name, report);
    } else if (field.key == "shape") {
      tensor.shape = whole_numbers(field.value, "shape", name, report);
    } else if (field.key == "data_offsets") {
      const std::vector<int64_t> offsets = whole_numbers(field.value, "data_offsets", name, report);
      if (offsets.size() != 2) {
        report.fail_tensor(name, "data_offsets must be two numbers, got ", offsets.size());
      }
      tensor.begin = offsets[0];
      tensor.end = offsets[1];
    }  // another field is ignored, as the reference implementation does
  }
  for (const char* needed : {"dtype", "shape", "data_offsets"}) {
    if (seen.count(needed) == 0) report.fail_tensor(name, needed, " is missing");
  }
  if (tensor.begin > tensor.end || tensor.end > data_size) {
    report.fail_tensor(name, "data_offsets must ascend and lie within the ", data_size,
                       " bytes of data, got ", tensor.begin, " to ", tensor.end);
  }
  const int64_t expected = bytes_of(tensor, report);
  if (tensor.end - tensor.begin != expected) {
    report.fail_tensor(name, "its shape needs ", expected, " bytes of ", name_of(tensor.type),
                       ", but data_offsets ", tensor.begin, " to ", tensor.end, " hold ",
                       tensor.end - tensor.begin);
  }
  return tensor;
}

std::map<std::string, std::string> parse_metadata(const dom::element& value,
                                                  const Reporter& report) {
  dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    report.fail_file("__metadata__ must be an object of strings");
  }
  std::map<std::string, std::string> metadata;
  for (const dom::key_value_pair field : object) {
    std::string_view text;
    if (field.value.get_string().get(text) != simdjson::SUCCESS) {
      report.fail_file("__metadata__ entry ", Reporter::quoted(field.key), " must be a string");
    }
    if (!metadata.emplace(field.key, text).second) {
      report.fail_file("__metadata__ entry ", Reporter::quoted(field.key), " is there twice");
    }
  }
  return metadata;
}

// Sorted by place, each tensor must begin where the one before ends, and the last end with the
// file.
void require_cover(const std::vector<TensorInfo>& tensors, int64_t data_size,
                   const Reporter& report) {
  int64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin != covered) {
      report.fail_tensor(tensor.name, "data_offsets begin at ", tensor.begin, ", expected ",
                         covered, " where the tensor before it ends (",
                         tensor.begin < covered ? "they overlap)" : "there is a hole)");
    }
    covered = tensor.end;
  }
  if (covered != data_size) {
    report.fail_file("the tensors cover ", covered, " bytes of data, but the file has ", data_size);
  }
}

}  // namespace

std::string_view name_of(ElementType type) { return row_of(type).name; }
int64_t size_of(ElementType type) { return row_of(type).size; }

int64_t TensorInfo::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

const TensorInfo* SafetensorsHeader::find(std::string_view name) const {
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

int64_t safetensors_start_size(std::string_view start, int64_t file_size, const std::string& file) {
  const Reporter report{file};
  if (file_size < kLengthBytes || static_cast<int64_t>(start.size()) < kLengthBytes) {
    report.fail_file("too short for a safetensors file: expected at least 8 bytes, got ",
                     std::min(file_size, static_cast<int64_t>(start.size())));
  }
  const uint64_t length = header_length(start);
  if (length > static_cast<uint64_t>(kLargestHeader)) {
    report.fail_file("its first 8 bytes announce a header of ", length, " bytes, expected at most ",
                     kLargestHeader, " (is this a safetensors file?)");
  }
  if (static_cast<int64_t>(length) > file_size - kLengthBytes) {
    report.fail_file("its first 8 bytes announce a header of ", length, " bytes, but only ",
                     file_size - kLengthBytes, " follow (is the file cut?)");
  }
  return kLengthBytes + static_cast<int64_t>(length);
}

SafetensorsHeader parse_safetensors(std::string_view start, int64_t file_size,
                                    const std::string& file) {
  const Reporter report{file};
  SafetensorsHeader header;
  header.data_begin = safetensors_start_size(start, file_size, file);
  if (static_cast<int64_t>(start.size()) < header.data_begin) {
    report.fail_file("its header has ", header.data_begin - kLengthBytes, " bytes, got ",
                     start.size() - kLengthBytes);
  }
  const int64_t data_size = file_size - header.data_begin;
  const std::string_view text = start.substr(0, static_cast<size_t>(header.data_begin))
                                    .substr(static_cast<size_t>(kLengthBytes));
  if (text.empty() || text.front() != '{') {
    report.fail_file(
        "its header must begin with '{'",
        text.empty() ? " but is empty" : ", got " + Reporter::quoted(text.substr(0, 1)));
  }

  dom::parser parser;
  dom::element document;
  if (const auto error = parser.parse(text.data(), text.size()).get(document)) {
    report.fail_file("its header is not JSON: ", simdjson::error_message(error));
  }
  dom::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) {
    report.fail_file("its header must be a JSON object");
  }
  std::set<std::string_view> names;
  for (const dom::key_value_pair field : object) {
    if (!names.insert(field.key).second) report.fail_tensor(field.key, "is there twice");
    if (field.key == "__metadata__") {
      header.metadata = parse_metadata(field.value, report);
    } else {
      header.tensors.push_back(parse_tensor(field.key, field.value, data_size, report));
    }
  }
  // Tensors without elements may share a place; stable keeps these in the order of the header.
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const TensorInfo& a, const TensorInfo& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  require_cover(header.tensors, data_size, report);
  return header;
}

}  // namespace locant
