// Between PyTorch's tensors (LibTorch Stable ABI) and what Locant's core takes.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "locant/base/bf16.h"
#include "locant/base/check.h"
#include "locant/base/view.h"
#include "locant/position/terms.h"

namespace locant::python {

using torch::stable::Tensor;
using MaybeTensor = std::optional<Tensor>;

// PyTorch's number of an element type.
template <class T>
int32_t dtype_of();
template <>
inline int32_t dtype_of<float>() {
  return aoti_torch_dtype_float32();
}
template <>
inline int32_t dtype_of<double>() {
  return aoti_torch_dtype_float64();
}
template <>
inline int32_t dtype_of<Bf16>() {
  return aoti_torch_dtype_bfloat16();
}
template <>
inline int32_t dtype_of<int64_t>() {
  return aoti_torch_dtype_int64();
}
template <>
inline int32_t dtype_of<int32_t>() {
  return aoti_torch_dtype_int32();
}

inline int32_t dtype_of(const Tensor& tensor) {
  int32_t dtype = 0;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype;
}

inline std::string dtype_name(int32_t dtype) {
  if (dtype == aoti_torch_dtype_float32()) return "float32";
  if (dtype == aoti_torch_dtype_float64()) return "float64";
  if (dtype == aoti_torch_dtype_bfloat16()) return "bfloat16";
  if (dtype == aoti_torch_dtype_float16()) return "float16";
  if (dtype == aoti_torch_dtype_int64()) return "int64";
  if (dtype == aoti_torch_dtype_int32()) return "int32";
  if (dtype == aoti_torch_dtype_bool()) return "bool";
  return "another type";
}

// A new CPU tensor, not filled.
inline Tensor empty_strided(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                            int32_t dtype) {
  AtenTensorHandle handle = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype,
      aoti_torch_device_type_cpu(), 0, &handle));
  return Tensor(handle);
}

template <class T>
Tensor empty(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t n = sizes.size(); n-- > 0;) {
    strides[n] = step;
    step *= std::max<int64_t>(1, sizes[n]);
  }
  return empty_strided(sizes, strides, dtype_of<T>());
}

// [B, H, L, D], in memory as `like` is: heads inside of tokens where `like` has them so, as a
// projection makes them ([B, L, H, D] transposed), else contiguous.
template <class T>
Tensor empty_like_heads(const Tensor& like, int64_t B, int64_t H, int64_t L, int64_t D) {
  if (like.stride(1) < like.stride(2)) {
    return empty_strided({B, H, L, D}, {L * H * D, D, H * D, 1}, dtype_of<T>());
  }
  return empty_strided({B, H, L, D}, {H * L * D, L * D, D, 1}, dtype_of<T>());
}

// Throws unless the tensor lives on the CPU and has this element type and number of dimensions.
template <class T>
void check_tensor(Check& check, const char* name, const Tensor& tensor, int64_t dimensions) {
  if (!check.require(tensor.is_cpu(), name, " must be on the CPU")) return;
  const int32_t dtype = dtype_of(tensor);
  check.require(dtype == dtype_of<T>(), "the dtype of ", name, " must be ",
                dtype_name(dtype_of<T>()), ", got ", dtype_name(dtype));
  check.require(tensor.dim() == dimensions, name, " must have ", dimensions, " dimensions, got ",
                tensor.dim());
}

// PyTorch gives empty tensors no address; a view without one means "not given".
template <class T>
T* address(const Tensor& tensor) {
  static std::remove_const_t<T> nothing{};
  if (tensor.numel() == 0) return &nothing;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(tensor.const_data_ptr());
  } else {
    return static_cast<T*>(tensor.mutable_data_ptr());
  }
}

// Checked before: type and dimensions are right.
template <class T, int N>
View<T, N> view_of(const Tensor& tensor) {
  View<T, N> view;
  view.data = address<T>(tensor);
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  for (int n = 0; n < N; ++n) {
    view.shape[static_cast<size_t>(n)] = sizes[static_cast<size_t>(n)];
    view.stride[static_cast<size_t>(n)] = strides[static_cast<size_t>(n)];
  }
  return view;
}
template <class T, int N>
View<T, N> view_of(const MaybeTensor& tensor) {
  return tensor ? view_of<T, N>(*tensor) : View<T, N>();
}

// All elements in order, whatever the strides. Tables are small, and PyTorch's own copy costs more.
template <class T>
std::vector<T> vector_of(const Tensor& tensor) {
  const T* data = address<const T>(tensor);
  std::vector<T> out(static_cast<size_t>(tensor.numel()));
  if (tensor.is_contiguous()) {
    std::copy(data, data + out.size(), out.begin());
    return out;
  }
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  const size_t last = sizes.size() - 1;
  std::vector<int64_t> at(sizes.size());
  for (auto to = out.begin(); to != out.end();) {
    const T* from = data;
    for (size_t n = 0; n < last; ++n) from += at[n] * strides[n];
    for (int64_t c = 0; c < sizes[last]; ++c) *to++ = from[c * strides[last]];
    for (size_t n = last; n-- > 0 && ++at[n] == sizes[n];) at[n] = 0;
  }
  return out;
}
template <class T>
Tensor tensor_of(const std::vector<T>& numbers, const std::vector<int64_t>& sizes) {
  Tensor tensor = empty<T>(sizes);
  std::copy(numbers.begin(), numbers.end(), address<T>(tensor));
  return tensor;
}

// Index maps travel as int32 [3 + n]: first distance, row before, row after, n rows.
IndexMap index_map_of(std::string_view operation, const char* name, const Tensor& tensor);
Tensor tensor_of(const IndexMap& map);

// Rotations travel as float64 [5 + n] or [5 + 2 n]: layout (0 interleaved, 1 half-split), magnitude,
// center, whether there are growth rates, whether they follow the length; then n frequencies, and n
// growth rates. `sequence` is the row of a tensor that has one for each sequence; -1: it has one
// dimension.
Rotation rotation_of(std::string_view operation, const Tensor& tensor, int64_t sequence = -1);
Tensor tensor_of(const Rotation& rotation);

}  // namespace locant::python
