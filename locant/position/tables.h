// Learned arrays as the tables of terms, and the way back for their gradients; products of small
// matrices for schemes that project their rows. What schemes share, and new ones may use.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/position/scheme.h"

namespace locant {

inline int64_t value_width(const Sizes& sizes) {
  return sizes.value_size ? sizes.value_size : sizes.head_size;
}

// [rows][width] (heads=shared) or [H][rows][width] (heads=each) of the whole model: the heads of
// the call, and the adjoint, added.
Table<double> rows_of_heads(const double* array, Sharing heads, int64_t rows, int64_t width,
                            const Call& call);
void add_rows_of_heads(const Table<double>& gradient, Sharing heads, const Call& call,
                       double* array_gradient);

// [rows][H or 1] of the whole model, one number a row: Table [heads][rows][1], and the adjoint.
Table<double> numbers_of_heads(const double* array, Sharing heads, int64_t rows, const Call& call);
void add_numbers_of_heads(const Table<double>& gradient, Sharing heads, const Call& call,
                          double* array_gradient);

// c[i][j] += sum over k of a[i][k] b[k][j], for i < n, k < depth, j < m. Element (i, k) of a stands
// at a[i * row + k * column]; rows of b and c are contiguous. The sum runs in the order of k.
struct Strided {
  const double* data;
  int64_t row, column;
};
void multiply_add(int64_t n, int64_t depth, int64_t m, Strided a, const double* b, int64_t b_row,
                  double* c, int64_t c_row);

// A linear layer per head: out[h][r] = W_h rows[r] + bias_h, rows [n][width], for the heads of the
// call. weight [H D][width], bias [H D] or null; D is the head size.
Table<double> project(const double* rows, int64_t n, const double* weight, const double* bias,
                      const Call& call);
// Its adjoint, added; a gradient that is null is skipped.
void project_backward(const double* rows, int64_t n, const double* weight,
                      const Table<double>& gradient, const Call& call, double* rows_gradient,
                      double* weight_gradient, double* bias_gradient);

}  // namespace locant
