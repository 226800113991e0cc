#include "python/ops/arguments.h"

#include <algorithm>

#include "locant/position/registry.h"

namespace locant::python {

void TermArguments::read_tensors(Reader& reader) {
  for (MaybeTensor* tensor :
       {&number, &number_left, &number_right, &number_index, &query_rows, &query_index, &key_rows,
        &key_index, &value_rows, &value_index, &content_bias, &rotation, &scheme_parameters}) {
    *tensor = reader.read<MaybeTensor>();
  }
}

void TermArguments::read_numbers(Reader& reader) {
  scheme = reader.read<std::string>();
  scheme_width = reader.read<int64_t>();
  layer = reader.read<int64_t>();
  scaled = reader.read<int64_t>();
}

template <class Number>
void TermArguments::check(Check& check) const {
  const auto maybe = [&]<class E>(const char* name, const MaybeTensor& tensor, int dimensions, E) {
    if (tensor) check_tensor<E>(check, name, *tensor, dimensions);
  };
  maybe("number", number, 2, Number());
  maybe("number_left", number_left, 1, Number());
  maybe("number_right", number_right, 1, Number());
  maybe("query_rows", query_rows, 3, Number());
  maybe("key_rows", key_rows, 3, Number());
  maybe("value_rows", value_rows, 3, Number());
  maybe("content_bias", content_bias, 2, Number());
  maybe("scheme_parameters", scheme_parameters, 1, double());
  const auto together = [&](const char* name, const MaybeTensor& table, const MaybeTensor& index) {
    check.require(table.has_value() == index.has_value(), name,
                  " needs its table and its index map, got one of them");
  };
  together("number", number, number_index);
  together("query_rows", query_rows, query_index);
  together("key_rows", key_rows, key_index);
  together("value_rows", value_rows, value_index);
  check.require(number || (!number_left && !number_right),
                "number_left and number_right need number");
  const bool tensors = number || query_rows || key_rows || value_rows || content_bias || rotation;
  check.require(scheme.empty() || !tensors, "terms come as tensors or from a scheme, got both");
  check.require(!scheme.empty() || !scheme_parameters, "scheme_parameters need a scheme");
}
template void TermArguments::check<float>(Check&) const;
template void TermArguments::check<double>(Check&) const;

attention::Options read_options(Reader& reader) {
  attention::Options options;
  options.causal = reader.read<bool>();
  options.window.left = reader.read<int64_t>();
  options.window.right = reader.read<int64_t>();
  options.scale = reader.read<double>();
  options.softcap = reader.read<double>();
  return options;
}

static int64_t count_of(const std::vector<ParameterSpec>& specs) {
  int64_t total = 0;
  for (const ParameterSpec& spec : specs) total += spec.size();
  return total;
}

// Whether that many numbers are the parameters for values with a channel less, as they are while a gradient of
// the log-sum-exp adds one.
static bool fits_fewer_channels(const Scheme& scheme, Sizes sizes, size_t numbers) {
  sizes.value_size = (sizes.value_size ? sizes.value_size : sizes.head_size) - 1;
  return count_of(scheme.learn(sizes)) == static_cast<int64_t>(numbers);
}

SchemeOfCall::SchemeOfCall(const TermArguments& arguments, const Call& call)
    : scheme_(make_scheme(arguments.scheme)), call_(call), specs_(scheme_->learn(call.sizes)) {
  if (arguments.scheme_parameters) numbers_ = vector_of<double>(*arguments.scheme_parameters);
  const int64_t total = count_of(specs_);
  if (total != static_cast<int64_t>(numbers_.size())) {
    const char* why = "";
    if (total > static_cast<int64_t>(numbers_.size()) && fits_fewer_channels(*scheme_, call.sizes, numbers_.size())) {
      why = "; where it adds rows to values, a scheme of the registry has no gradient of the log-sum-exp";
    }
    fail(scheme_->name(), "the parameters must hold ", total, " numbers, got ", numbers_.size(), why);
  }
  const double* at = numbers_.data();
  for (const ParameterSpec& spec : specs_) {
    parameters_.add(spec.name, at);
    at += spec.size();
  }
}

Terms<double> SchemeOfCall::lower() const { return locant::lower(*scheme_, call_, parameters_); }

Tensor SchemeOfCall::backward(const Terms<double>& gradient) const {
  std::vector<double> sums(numbers_.size());
  ParameterGradients gradients;
  double* at = sums.data();
  for (const ParameterSpec& spec : specs_) {
    gradients.add(spec.name, at);
    at += spec.size();
  }
  lower_backward(*scheme_, call_, parameters_, gradient, gradients);
  return tensor_of(sums, {static_cast<int64_t>(sums.size())});
}

namespace {

template <class Number>
Table<Number> table_of(const Tensor& tensor, int64_t rows, int64_t width) {
  Table<Number> table;
  table.heads = tensor.size(0);
  table.rows = rows;
  table.width = width;
  table.data = vector_of<Number>(tensor);
  return table;
}

}  // namespace

template <class Number>
Terms<Number> terms_of(const char* operation, const TermArguments& a) {
  Terms<Number> terms;
  const auto index = [&](const char* name, const MaybeTensor& tensor) {
    return index_map_of(operation, name, *tensor);
  };
  const auto rows = [](const Tensor& tensor) {
    return table_of<Number>(tensor, tensor.size(1), tensor.size(2));
  };
  if (a.number) {
    auto& number = terms.number.emplace();
    number.scaled = a.scaled & 1;
    number.index = index("number_index", a.number_index);
    number.table = table_of<Number>(*a.number, a.number->size(1), 1);
    if (a.number_left) number.left = vector_of<Number>(*a.number_left);
    if (a.number_right) number.right = vector_of<Number>(*a.number_right);
  }
  if (a.query_rows) {
    terms.query_rows = RowPerDistance<Number>{
        (a.scaled & 2) != 0, index("query_index", a.query_index), rows(*a.query_rows)};
  }
  if (a.key_rows) {
    terms.key_rows = RowPerDistance<Number>{(a.scaled & 4) != 0, index("key_index", a.key_index),
                                            rows(*a.key_rows)};
  }
  if (a.value_rows) {
    terms.value_rows =
        ValuePerDistance<Number>{index("value_index", a.value_index), rows(*a.value_rows)};
  }
  if (a.content_bias) {
    terms.content_bias = table_of<Number>(*a.content_bias, 1, a.content_bias->size(1));
  }
  if (a.rotation) terms.rotation = rotation_of(operation, *a.rotation);
  return terms;
}
template Terms<float> terms_of(const char*, const TermArguments&);
template Terms<double> terms_of(const char*, const TermArguments&);

attention::Workspace& workspace() {
  static thread_local attention::Workspace one;
  return one;
}

}  // namespace locant::python
