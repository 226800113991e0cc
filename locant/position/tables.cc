// Learned arrays to tables and back.
#include "locant/position/tables.h"

#include <algorithm>

namespace locant {

Table<double> rows_of_heads(const double* array, Sharing heads, int64_t rows, int64_t width,
                            const Call& call) {
  const bool each = heads == Sharing::kEach;
  Table<double> table(each ? call.heads_here() : 1, rows, width);
  const double* first = array + (each ? call.first_head * rows * width : 0);
  std::copy_n(first, table.data.size(), table.data.begin());
  return table;
}

void add_rows_of_heads(const Table<double>& gradient, Sharing heads, const Call& call,
                       double* array_gradient) {
  const bool each = heads == Sharing::kEach;
  double* first = array_gradient + (each ? call.first_head * gradient.rows * gradient.width : 0);
  for (size_t n = 0; n < gradient.data.size(); ++n) first[n] += gradient.data[n];
}

Table<double> numbers_of_heads(const double* array, Sharing heads, int64_t rows, const Call& call) {
  const bool each = heads == Sharing::kEach;
  const int64_t columns = each ? call.sizes.heads : 1;
  Table<double> table(each ? call.heads_here() : 1, rows, 1);
  for (int64_t h = 0; h < table.heads; ++h) {
    for (int64_t r = 0; r < rows; ++r) {
      *table.row(h, r) = array[r * columns + (each ? call.first_head + h : 0)];
    }
  }
  return table;
}

void add_numbers_of_heads(const Table<double>& gradient, Sharing heads, const Call& call,
                          double* array_gradient) {
  const bool each = heads == Sharing::kEach;
  const int64_t columns = each ? call.sizes.heads : 1;
  for (int64_t h = 0; h < gradient.heads; ++h) {
    for (int64_t r = 0; r < gradient.rows; ++r) {
      array_gradient[r * columns + (each ? call.first_head + h : 0)] += *gradient.row(h, r);
    }
  }
}

void multiply_add(int64_t n, int64_t depth, int64_t m, Strided a, const double* b, int64_t b_row,
                  double* c, int64_t c_row) {
  for (int64_t i = 0; i < n; ++i) {
    const double* __restrict factors = a.data + i * a.row;
    double* __restrict sums = c + i * c_row;
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {  // four rows of b for one load and store of c
      const double f0 = factors[k * a.column], f1 = factors[(k + 1) * a.column];
      const double f2 = factors[(k + 2) * a.column], f3 = factors[(k + 3) * a.column];
      const double* __restrict b0 = b + k * b_row;
      const double* __restrict b1 = b0 + b_row;
      const double* __restrict b2 = b1 + b_row;
      const double* __restrict b3 = b2 + b_row;
      for (int64_t j = 0; j < m; ++j) {
        sums[j] = sums[j] + f0 * b0[j] + f1 * b1[j] + f2 * b2[j] + f3 * b3[j];
      }
    }
    for (; k < depth; ++k) {
      const double f = factors[k * a.column];
      const double* __restrict row = b + k * b_row;
      for (int64_t j = 0; j < m; ++j) sums[j] += f * row[j];
    }
  }
}

Table<double> project(const double* rows, int64_t n, const double* weight, const double* bias,
                      const Call& call) {
  const int64_t width = call.sizes.width, size = call.sizes.head_size;
  Table<double> out(call.heads_here(), n, size);
  std::vector<double> across(static_cast<size_t>(width * size));  // W_h, [width][D]
  for (int64_t h = 0; h < out.heads; ++h) {
    const int64_t first = (call.first_head + h) * size;
    for (int64_t d = 0; d < size; ++d) {
      const double* row = weight + (first + d) * width;
      for (int64_t w = 0; w < width; ++w) across[static_cast<size_t>(w * size + d)] = row[w];
    }
    if (bias) {
      for (int64_t r = 0; r < n; ++r) std::copy_n(bias + first, size, out.row(h, r));
    }
    multiply_add(n, width, size, {rows, width, 1}, across.data(), size, out.row(h, 0), size);
  }
  return out;
}

void project_backward(const double* rows, int64_t n, const double* weight,
                      const Table<double>& gradient, const Call& call, double* rows_gradient,
                      double* weight_gradient, double* bias_gradient) {
  const int64_t width = call.sizes.width, size = call.sizes.head_size;
  for (int64_t h = 0; h < gradient.heads; ++h) {
    const int64_t first = (call.first_head + h) * size;
    const double* out_gradient = gradient.row(h, 0);
    if (weight_gradient) {
      multiply_add(size, n, width, {out_gradient, 1, size}, rows, width,
                   weight_gradient + first * width, width);
    }
    if (rows_gradient) {
      multiply_add(n, size, width, {out_gradient, size, 1}, weight + first * width, width,
                   rows_gradient, width);
    }
    if (bias_gradient) {
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t d = 0; d < size; ++d) bias_gradient[first + d] += *(gradient.row(h, r) + d);
      }
    }
  }
}

}  // namespace locant
