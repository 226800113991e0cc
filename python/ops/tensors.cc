#include "python/ops/tensors.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace locant::python {

IndexMap index_map_of(std::string_view operation, const char* name, const Tensor& tensor) {
  Check check(operation);
  check_tensor<int32_t>(check, name, tensor, 1);
  check.require(tensor.numel() >= 4, name,
                " must hold first, before, after and at least one row, got ", tensor.numel(),
                " numbers");
  check.done();
  const std::vector<int32_t> numbers = vector_of<int32_t>(tensor);
  IndexMap map;
  map.first = numbers[0];
  map.before = numbers[1];
  map.after = numbers[2];
  map.rows.assign(numbers.begin() + 3, numbers.end());
  return map;
}

Tensor tensor_of(const IndexMap& map) {
  if (map.first < std::numeric_limits<int32_t>::min() ||
      map.first > std::numeric_limits<int32_t>::max()) {
    fail("index map", "the first distance must fit 32 bits, got ", map.first);
  }
  std::vector<int32_t> numbers{static_cast<int32_t>(map.first), map.before, map.after};
  numbers.insert(numbers.end(), map.rows.begin(), map.rows.end());
  return tensor_of(numbers, {static_cast<int64_t>(numbers.size())});
}

Rotation rotation_of(std::string_view operation, const Tensor& tensor, int64_t sequence) {
  constexpr int64_t kHead = 5;
  constexpr double kFarthestCenter = 9007199254740992.0;  // whole numbers up to it are exact
  const int64_t rows = tensor.dim() == 2 ? tensor.size(0) : 1;
  Check check(operation);
  check_tensor<double>(check, "rotation", tensor, tensor.dim() == 2 ? 2 : 1);
  const int64_t n = rows == 0 ? 0 : tensor.numel() / rows;
  check.require(n >= kHead, "rotation must hold at least its ", kHead, " leading numbers, got ", n);
  check.require(sequence < rows, "rotation must have a row for each sequence, got ", rows);
  check.require(tensor.dim() == 1 || sequence >= 0, "rotation must have one dimension, got 2");
  check.done();
  const std::vector<double> all = vector_of<double>(tensor);
  const auto head = all.begin() + std::max<int64_t>(sequence, 0) * n;
  const bool grows = head[3] != 0;
  const int64_t rest = n - kHead, pairs = grows ? rest / 2 : rest;
  if (grows && rest % 2 != 0) {
    fail(operation, "rotation must hold as many growth rates as frequencies, got ", rest,
         " numbers in all");
  }
  if (!(std::abs(head[2]) <= kFarthestCenter)) {
    fail(operation, "rotation must have a center from -2^53 to 2^53, got ", head[2]);
  }
  Rotation rotation;
  rotation.layout = head[0] == 0 ? Rotation::Layout::kInterleaved : Rotation::Layout::kHalfSplit;
  rotation.width = 2 * pairs;
  rotation.magnitude = head[1];
  rotation.center = static_cast<int64_t>(head[2]);
  rotation.follows_length = head[4] != 0;
  rotation.frequency.assign(head + kHead, head + kHead + pairs);
  if (grows) rotation.log_growth.assign(head + kHead + pairs, head + n);
  return rotation;
}

Tensor tensor_of(const Rotation& rotation) {
  const bool interleaved = rotation.layout == Rotation::Layout::kInterleaved;
  std::vector<double> numbers{interleaved ? 0.0 : 1.0, rotation.magnitude,
                              static_cast<double>(rotation.center),
                              rotation.log_growth.empty() ? 0.0 : 1.0,
                              rotation.follows_length ? 1.0 : 0.0};
  numbers.insert(numbers.end(), rotation.frequency.begin(), rotation.frequency.end());
  numbers.insert(numbers.end(), rotation.log_growth.begin(), rotation.log_growth.end());
  return tensor_of(numbers, {static_cast<int64_t>(numbers.size())});
}

}  // namespace locant::python
