#include "python/ops/scheme_ops.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "locant/position/registry.h"

namespace locant::python {
namespace {

// --- JSON, written only ---------------------------------------------------------------------------

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string pair(std::string_view name, std::string_view value) {
  return quoted(name) + ": " + quoted(value);
}

template <class Items, class F>
std::string list(const Items& items, F text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + text(item);
  return out + "]";
}

std::string text_of_description(const Description& d) {
  return "{" + pair("title", d.title) + ", " + pair("paper", d.paper) + ", " +
         pair("acts", d.acts) + ", " + pair("where", d.where) + ", " + pair("learns", d.learns) +
         ", " + pair("cost", d.cost) + ", " + pair("beyond", d.beyond) + ", " +
         pair("users", d.users) + "}";
}

std::string text_of_parameter(const ParameterSpec& spec) {
  static constexpr const char* kInits[] = {"zeros", "normal", "uniform"};
  return "{" + pair("name", spec.name) + ", \"shape\": " +
         list(spec.shape, [](int64_t n) { return std::to_string(n); }) + ", " +
         pair("init", kInits[static_cast<int>(spec.init)]) +
         text_of(", \"scale\": ", spec.scale, ", \"low\": ", spec.low, ", \"high\": ", spec.high,
                 ", \"per_layer\": ", spec.per_layer ? "true" : "false",
                 ", \"table\": ", spec.table ? "true" : "false", "}");
}

// --- calls ----------------------------------------------------------------------------------------

Sizes sizes_of(const std::vector<int64_t>& numbers) {
  if (numbers.size() < 4) {
    fail("scheme", "sizes must be heads, head_size, width, value_size, got ", numbers.size(),
         " numbers");
  }
  Sizes sizes;
  sizes.heads = numbers[0];
  sizes.head_size = numbers[1];
  sizes.width = numbers[2];
  sizes.value_size = numbers[3];
  Check check("scheme");
  check.require(sizes.heads >= 1 && sizes.head_size >= 1 && sizes.width >= 1 &&
                    sizes.value_size >= 0,
                "heads, head_size and width must be 1 or more, got ", sizes.heads, ", ",
                sizes.head_size, " and ", sizes.width);
  check.done();
  return sizes;
}

Call call_of(const std::vector<int64_t>& numbers) {
  if (numbers.size() != 9) fail("scheme", "a call has 9 numbers, got ", numbers.size());
  Call call;
  call.sizes = sizes_of(numbers);
  call.layer = static_cast<int>(numbers[4]);
  call.sizes.layers = numbers[4] + 1;
  call.causal = numbers[5] != 0;
  call.first_distance = numbers[6];
  call.last_distance = numbers[7];
  call.length = numbers[8];
  return call;
}

// The parameters of a call, kept alive.
class Arrays {
 public:
  Arrays(const Scheme& scheme, const Sizes& sizes, const std::vector<Tensor>& tensors)
      : specs_(scheme.learn(sizes)) {
    Check check(scheme.name());
    if (check.require(tensors.size() == specs_.size(), "there are ", specs_.size(),
                      " learned arrays, got ", tensors.size())) {
      for (size_t n = 0; n < specs_.size(); ++n) {
        const Tensor& tensor = tensors[n];
        check_tensor<double>(check, specs_[n].name.c_str(), tensor,
                             static_cast<int64_t>(specs_[n].shape.size()));
        check.require(tensor.numel() == specs_[n].size() && tensor.is_contiguous(), specs_[n].name,
                      " must be contiguous and hold ", specs_[n].size(), " numbers, got ",
                      tensor.numel());
      }
    }
    check.done();
    for (size_t n = 0; n < specs_.size(); ++n) {
      parameters.add(specs_[n].name, address<const double>(tensors[n]));
    }
  }

  Parameters parameters;

 private:
  std::vector<ParameterSpec> specs_;
};

Tensor nothing() { return empty<double>({0}); }
Tensor no_map() { return empty<int32_t>({0}); }

Tensor tensor_of_table(const Table<double>& table) {
  return tensor_of(table.data, {table.heads, table.rows, table.width});
}

}  // namespace

std::vector<std::string> scheme_names() { return locant::scheme_names(); }

std::string scheme_info(std::string specification, std::vector<int64_t> sizes) {
  const auto scheme = make_scheme(specification);
  const auto options = explain_options(*scheme);
  return "{" + pair("name", scheme->name()) + ", " +
         pair("specification", locant::specification(*scheme)) +
         ", \"description\": " + text_of_description(scheme->describe()) +
         ", \"options\": " + list(options, [](const OptionHelp& option) {
           return "{" + pair("name", option.name) + ", " + pair("value", option.value) + ", " +
                  pair("allowed", option.allowed) + ", " + pair("meaning", option.meaning) + "}";
         }) +
         ", \"parameters\": " + list(scheme->learn(sizes_of(sizes)), text_of_parameter) +
         text_of(", \"embeds\": ", scheme->embeds() ? "true" : "false",
                 ", \"table_length\": ", scheme->table_length(), "}");
}

std::vector<Tensor> scheme_lower(std::string specification, std::vector<int64_t> numbers,
                                 std::vector<Tensor> tensors) {
  const auto scheme = make_scheme(specification);
  const Call call = call_of(numbers);
  const Arrays arrays(*scheme, call.sizes, tensors);
  const Terms<double> terms = lower(*scheme, call, arrays.parameters);
  if (terms.hook) fail(scheme->name(), "acts through a tile hook and has no terms to show");
  std::vector<Tensor> out;
  int64_t scaled = 0;
  if (const auto& t = terms.number) {
    scaled |= t->scaled ? 1 : 0;
    out.push_back(tensor_of(t->table.data, {t->table.heads, t->table.rows}));
    for (const auto* side : {&t->left, &t->right}) {
      out.push_back(tensor_of(*side, {static_cast<int64_t>(side->size())}));
    }
    out.push_back(tensor_of(t->index));
  } else {
    for (int n = 0; n < 3; ++n) out.push_back(nothing());
    out.push_back(no_map());
  }
  const auto rows = [&](const auto& term, int64_t bit) {
    if (!term) {
      out.push_back(nothing());
      out.push_back(no_map());
      return;
    }
    if constexpr (requires { term->scaled; }) scaled |= term->scaled ? bit : 0;
    out.push_back(tensor_of_table(term->rows));
    out.push_back(tensor_of(term->index));
  };
  rows(terms.query_rows, 2);
  rows(terms.key_rows, 4);
  rows(terms.value_rows, 0);
  if (const auto& u = terms.content_bias) {
    out.push_back(tensor_of(u->data, {u->heads, u->width}));
  } else {
    out.push_back(nothing());
  }
  out.push_back(terms.rotation ? tensor_of(*terms.rotation) : nothing());
  out.push_back(
      tensor_of(std::vector<double>{terms.scale_factor, static_cast<double>(scaled)}, {2}));
  return out;
}

Tensor scheme_rotation(std::string specification, int64_t head_size, int64_t layer, int64_t length,
                       int64_t numbers) {
  const auto scheme = make_scheme(specification);
  const Call call = call_of({1, head_size, 1, 0, layer, 0, 1 - length, length - 1, length});
  const Terms<double> terms = lower(*scheme, call, {});
  if (!terms.rotation) fail(scheme->name(), "turns nothing in layer ", layer);
  Tensor rotation = tensor_of(*terms.rotation);
  if (rotation.numel() != numbers) {
    fail(scheme->name(), "its rotation has ", rotation.numel(), " numbers, expected ", numbers);
  }
  return rotation;
}

Tensor scheme_embed(std::string specification, std::vector<int64_t> sizes_numbers, Tensor positions,
                    std::vector<Tensor> tensors) {
  const auto scheme = make_scheme(specification);
  const Sizes sizes = sizes_of(sizes_numbers);
  const Arrays arrays(*scheme, sizes, tensors);
  Check check("scheme embed");
  check_tensor<int64_t>(check, "positions", positions, 1);
  check.done();
  const std::vector<int64_t> at = vector_of<int64_t>(positions);
  const int64_t n = static_cast<int64_t>(at.size());
  Tensor rows = empty<double>({n, sizes.width});
  double* data = address<double>(rows);
  std::fill(data, data + rows.numel(), 0.0);
  scheme->embed(at.data(), n, sizes, arrays.parameters, data);
  return rows;
}

}  // namespace locant::python
