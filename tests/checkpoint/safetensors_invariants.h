// What must hold of every header that the reader accepts, whatever bytes it came from. Shared by
// the mutation test and the fuzz target.
#pragma once

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "locant/checkpoint/safetensors.h"

namespace locant {

// Parses `bytes` as a whole file. Empty: refused by std::invalid_argument, or accepted and sound.
// Otherwise what is wrong with the header that was accepted.
inline std::string parse_and_examine(std::string_view bytes, bool* accepted = nullptr) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  SafetensorsHeader header;
  if (accepted != nullptr) *accepted = false;
  try {
    header = parse_safetensors(bytes, size, "memory");
  } catch (const std::invalid_argument&) {
    return "";
  }
  if (accepted != nullptr) *accepted = true;
  if (header.data_begin < 10 || header.data_begin > size) return "data begins outside the file";
  std::set<std::string> names;
  int64_t covered = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (!names.insert(tensor.name).second) return "a name twice";
    if (tensor.begin != covered || tensor.end < tensor.begin) return "a hole or an overlap";
    // Independent of the reader's own arithmetic: wide enough for any product that it may accept.
    long double bytes_of_shape = static_cast<long double>(size_of(tensor.type));
    for (const int64_t extent : tensor.shape) {
      if (extent < 0) return "a negative size";
      bytes_of_shape *= static_cast<long double>(extent);
    }
    if (bytes_of_shape != static_cast<long double>(tensor.end - tensor.begin)) {
      return "shape and bytes disagree";
    }
    covered = tensor.end;
  }
  if (covered != size - header.data_begin) return "data not covered";
  return "";
}

}  // namespace locant
