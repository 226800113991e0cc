// What attention and decoding have in common at the edge to Python: reading boxed arguments in order,
// terms from tensors, or from a scheme of the registry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/attention/attention.h"
#include "locant/position/scheme.h"
#include "python/ops/tensors.h"

namespace locant::python {

// Reads the arguments of a boxed call in order. Each read takes what it reads off PyTorch's hands.
class Reader {
 public:
  explicit Reader(StableIValue* stack) : next_(stack) {}
  template <class T>
  T read() {
    return torch::stable::detail::to<T>(*next_++);
  }

 private:
  StableIValue* next_;
};

// Terms as tensors. The tables are of Real<T>; index maps and rotations as in tensors.h.
// number [h, rows], number_left and number_right [h], query_rows and key_rows [h, rows, D],
// value_rows [h, rows, Dv], content_bias [h, D]; h is 1 or H. rotation [n], or [B, n] in decoding.
// scaled: bit 0 number, 1 query rows, 2 key rows.
// Or else all of them come from `scheme`, the text of a scheme of the registry, whose learned arrays
// stand one after the other in scheme_parameters, float64.
struct TermArguments {
  static constexpr const char* kTensors =
      "Tensor? number, Tensor? number_left, Tensor? number_right, Tensor? number_index, "
      "Tensor? query_rows, Tensor? query_index, Tensor? key_rows, Tensor? key_index, "
      "Tensor? value_rows, Tensor? value_index, Tensor? content_bias, Tensor? rotation, "
      "Tensor? scheme_parameters";
  static constexpr const char* kNumbers = "str scheme, int scheme_width, int layer, int scaled";

  MaybeTensor number, number_left, number_right, number_index;
  MaybeTensor query_rows, query_index, key_rows, key_index, value_rows, value_index;
  MaybeTensor content_bias, rotation, scheme_parameters;
  std::string scheme;
  int64_t scheme_width = 1, layer = 0, scaled = 0;

  void read_tensors(Reader& reader);
  void read_numbers(Reader& reader);

  // Types and ranks, and that nothing stands alone.
  template <class Number>
  void check(Check& check) const;
};

// "bool causal, int left, int right, float scale, float softcap".
attention::Options read_options(Reader& reader);
inline constexpr const char* kOptions =
    "bool causal, int left, int right, float scale, float softcap";

// A scheme of the registry for one call, with its learned arrays.
class SchemeOfCall {
 public:
  SchemeOfCall(const TermArguments& arguments, const Call& call);
  Terms<double> lower() const;
  // The gradient of scheme_parameters.
  Tensor backward(const Terms<double>& gradient) const;

 private:
  std::unique_ptr<Scheme> scheme_;
  Call call_;
  std::vector<ParameterSpec> specs_;
  std::vector<double> numbers_;
  Parameters parameters_;
};

// Terms of the tensors. Number is float or double.
template <class Number>
Terms<Number> terms_of(const char* operation, const TermArguments& arguments);

// Scratch that calls of one thread reuse.
attention::Workspace& workspace();

// f.operator()<T>() with the element type of q; any other than these is refused there by name.
template <class F>
auto by_dtype(const Tensor& q, F f) {
  const int32_t dtype = dtype_of(q);
  if (dtype == dtype_of<double>()) return f.template operator()<double>();
  if (dtype == dtype_of<Bf16>()) return f.template operator()<Bf16>();
  return f.template operator()<float>();
}

}  // namespace locant::python
