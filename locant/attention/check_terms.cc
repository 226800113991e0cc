// See check_terms.h.
#include "locant/attention/check_terms.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "locant/attention/check_views.h"

namespace locant::attention {
namespace {

void check_index(Check& check, const std::string& name, const IndexMap& index, int64_t rows) {
  check.require(!index.rows.empty(), name, " has an empty index map");
  check.require(std::abs(index.first) <= 2 * kPositionEnd, name,
                " has an index map that starts at an impossible distance, ", index.first);
  const auto in_range = [rows](int32_t row) { return row == kNoRow || (row >= 0 && row < rows); };
  const auto require = [&](int32_t row, const std::string& where) {
    return check.require(in_range(row), name, " maps ", where, " to row ", row, ", its table has ",
                         rows, " rows");
  };
  require(index.before, "distances before " + std::to_string(index.first));
  require(index.after, "distances after " + std::to_string(index.last()));
  for (size_t n = 0; n < index.rows.size(); ++n) {
    if (in_range(index.rows[n])) continue;
    require(index.rows[n], "distance " + std::to_string(index.first + static_cast<int64_t>(n)));
    return;
  }
}

template <class T>
bool check_table(Check& check, const std::string& name, const Table<T>& table, int64_t H,
                 int64_t width) {
  const bool shape = check.require(
      (table.heads == 1 || table.heads == H) && table.rows >= 0 && table.width == width, name,
      " must be a table of [1 or ", H, "][rows][", width, "], got [", table.heads, "][", table.rows,
      "][", table.width, "]");
  return check.require(!shape || static_cast<int64_t>(table.data.size()) ==
                                     table.heads * table.rows * table.width,
                       name, " holds ", table.data.size(), " numbers, its shape says ",
                       table.heads * table.rows * table.width) &&
         shape;
}

// exp(85) is below the largest float (exp(88.7)), its inverse above the smallest normal one.
constexpr double kLargestLog = 85;

void check_rotation(Check& check, const Rotation& rotation, int64_t D) {
  const int64_t width = rotation.width;
  check.require(width >= 0 && width % 2 == 0, "the rotation's width must be even, got ", width);
  check.require(width <= D, "the rotation's width must be at most the head size ", D, ", got ",
                width);
  check.require(static_cast<int64_t>(rotation.frequency.size()) == width / 2,
                "the rotation needs width / 2 = ", width / 2, " frequencies, got ",
                rotation.frequency.size());
  check.require(
      rotation.log_growth.empty() || static_cast<int64_t>(rotation.log_growth.size()) == width / 2,
      "the rotation needs width / 2 = ", width / 2, " growth rates or none, got ",
      rotation.log_growth.size());
  const auto finite = [](const std::vector<double>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  };
  check.require(finite(rotation.frequency) && finite(rotation.log_growth) &&
                    std::isfinite(rotation.magnitude),
                "the rotation's frequencies, growth rates and magnitude must be finite");
}

template <class T>
void check_same(Check& check, const char* name, const std::vector<T>* expected,
                const std::vector<T>* got) {
  if (!check.require(!expected == !got, "the gradient of terms.", name,
                     got ? " has no term" : " is missing", "; make it with zeros_like(terms)")) {
    return;
  }
  if (!expected) return;
  check.require(expected->size() == got->size(), "the gradient of terms.", name, " must hold ",
                expected->size(), " numbers, got ", got->size(),
                "; make it with zeros_like(terms)");
}

}  // namespace

template <class T>
void check_terms(Check& check, int64_t H, int64_t D, int64_t Dv, const Terms<T>& terms) {
  if (const auto& term = terms.number) {
    check_table(check, "terms.number", term->table, H, 1);
    check_index(check, "terms.number", term->index, term->table.rows);
    for (const auto& [side, numbers] : {std::pair("left", &term->left), {"right", &term->right}}) {
      check.require(numbers->empty() || static_cast<int64_t>(numbers->size()) == term->table.heads,
                    "terms.number.", side, " must hold ", term->table.heads,
                    " numbers (one a head of its table) or none, got ", numbers->size());
    }
  }
  if (const auto& term = terms.query_rows) {
    check_table(check, "terms.query_rows", term->rows, H, D);
    check_index(check, "terms.query_rows", term->index, term->rows.rows);
  }
  if (const auto& term = terms.key_rows) {
    check_table(check, "terms.key_rows", term->rows, H, D);
    check_index(check, "terms.key_rows", term->index, term->rows.rows);
  }
  if (const auto& term = terms.value_rows) {
    check_table(check, "terms.value_rows", term->rows, H, Dv);
    check_index(check, "terms.value_rows", term->index, term->rows.rows);
  }
  if (const auto& table = terms.content_bias) {
    if (check_table(check, "terms.content_bias", *table, H, D)) {
      check.require(table->rows == 1, "terms.content_bias must have one row a head, got ",
                    table->rows);
    }
  }
  if (terms.rotation) check_rotation(check, *terms.rotation, D);
  if (terms.hook) {
    const int64_t heads = terms.hook->heads(), size = terms.hook->gradient_size();
    check.require((heads == 1 || heads == H) && size >= 0,
                  "terms.hook must learn numbers for 1 or ", H, " heads, got ", heads, " heads of ",
                  size, " numbers");
  }
  check.require(std::isfinite(terms.scale_factor), "terms.scale_factor must be finite, got ",
                terms.scale_factor);
}

template <class T>
void check_terms_gradient(Check& check, const Terms<T>& terms, const Terms<T>& gradient) {
  check.require(&terms != &gradient, "the gradient of terms must not be the terms themselves");
  const auto data = [](const auto& optional, auto member) -> const std::vector<T>* {
    return optional ? &member(*optional) : nullptr;
  };
  const auto compare = [&](const char* name, const auto& a, const auto& b, auto member) {
    check_same(check, name, data(a, member), data(b, member));
  };
  const auto number_table = [](const auto& term) -> const auto& { return term.table.data; };
  const auto rows = [](const auto& term) -> const auto& { return term.rows.data; };
  compare("number", terms.number, gradient.number, number_table);
  compare(
      "number.left", terms.number, gradient.number,
      [](const auto& term) -> const auto& { return term.left; });
  compare(
      "number.right", terms.number, gradient.number,
      [](const auto& term) -> const auto& { return term.right; });
  compare("query_rows", terms.query_rows, gradient.query_rows, rows);
  compare("key_rows", terms.key_rows, gradient.key_rows, rows);
  compare("value_rows", terms.value_rows, gradient.value_rows, rows);
  check.require(!terms.hook == !gradient.hook, "the gradient of terms.hook ",
                gradient.hook ? "has no term" : "is missing", "; make it with zeros_like(terms)");
  if (terms.hook && gradient.hook) {
    const int64_t size = terms.hook->heads() * terms.hook->gradient_size();
    check.require(static_cast<int64_t>(gradient.hook_gradient.size()) == size,
                  "the gradient of terms.hook must hold ", size, " numbers, got ",
                  gradient.hook_gradient.size(), "; make it with zeros_like(terms)");
  }
  compare(
      "content_bias", terms.content_bias, gradient.content_bias,
      [](const auto& table) -> const auto& { return table.data; });
}

bool check_scales(Check& check, const char* name, const Rotation& rotation, int64_t position) {
  double steepest = 0;
  for (double growth : rotation.log_growth) steepest = std::max(steepest, std::abs(growth));
  if (steepest == 0) return true;
  const double away = std::abs(static_cast<double>(position) - static_cast<double>(rotation.center));
  return check.require(away * steepest <= kLargestLog, "the rotation's scales leave single precision beyond ",
                       static_cast<int64_t>(std::min(kLargestLog / steepest, 9e18)), " of their center, position ",
                       rotation.center, ", got ", position, " in ", name);
}

template void check_terms(Check&, int64_t, int64_t, int64_t, const Terms<float>&);
template void check_terms(Check&, int64_t, int64_t, int64_t, const Terms<double>&);
template void check_terms_gradient(Check&, const Terms<float>&, const Terms<float>&);
template void check_terms_gradient(Check&, const Terms<double>&, const Terms<double>&);

}  // namespace locant::attention
