#pragma once

// The oracle: dense double formulas written from i and j, straight from the papers. It includes
// nothing of locant/, so that a mistake there cannot hide here.
// This file: the plain matrix all of them return, and what they share.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <vector>

namespace locant::oracle {

// One integer per token; i is a query position, j a key position.
using Positions = std::vector<std::int64_t>;

struct Matrix {
  int rows = 0;
  int cols = 0;
  std::vector<double> values;  // row by row

  Matrix() = default;
  Matrix(int row_count, int col_count)
      : rows(row_count), cols(col_count),
        values(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(col_count), 0.0) {}

  double& operator()(int r, int c) { return values[index(r, c)]; }
  double operator()(int r, int c) const { return values[index(r, c)]; }
  bool empty() const { return values.empty(); }

 private:
  std::size_t index(int r, int c) const {
    if (r < 0 || r >= rows || c < 0 || c >= cols) throw std::out_of_range("oracle matrix index");
    return static_cast<std::size_t>(r) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(c);
  }
};

// From a golden array: matrix(golden::kToyQ).
template <class Number, std::size_t R, std::size_t C>
Matrix matrix(const Number (&values)[R][C]) {
  Matrix result(static_cast<int>(R), static_cast<int>(C));
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t c = 0; c < C; ++c) {
      result(static_cast<int>(r), static_cast<int>(c)) = static_cast<double>(values[r][c]);
    }
  }
  return result;
}

template <class Number, std::size_t N>
std::vector<double> numbers(const Number (&values)[N]) {
  return std::vector<double>(values, values + N);
}

// first, first + 1, ...: count positions.
inline Positions consecutive(int count, std::int64_t first = 0) {
  Positions result;
  for (int t = 0; t < count; ++t) result.push_back(first + t);
  return result;
}

// Row a of x times row b of y.
inline double dot_rows(const Matrix& x, int a, const Matrix& y, int b) {
  double sum = 0;
  for (int c = 0; c < x.cols; ++c) sum += x(a, c) * y(b, c);
  return sum;
}

// x . y^T, [x.rows][y.rows].
inline Matrix times_transposed(const Matrix& x, const Matrix& y) {
  Matrix result(x.rows, y.rows);
  for (int a = 0; a < x.rows; ++a) {
    for (int b = 0; b < y.rows; ++b) result(a, b) = dot_rows(x, a, y, b);
  }
  return result;
}

inline Matrix sum(const Matrix& a, const Matrix& b) {
  Matrix result = a;
  for (int r = 0; r < a.rows; ++r) {
    for (int c = 0; c < a.cols; ++c) result(r, c) += b(r, c);
  }
  return result;
}

// A row index for each (i, j); -1 means a row of zeros.
struct IndexMatrix {
  int rows = 0;
  int cols = 0;
  std::vector<int> values;

  IndexMatrix() = default;
  IndexMatrix(int row_count, int col_count)
      : rows(row_count), cols(col_count),
        values(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(col_count), -1) {}
  int& operator()(int r, int c) { return values.at(static_cast<std::size_t>(r * cols + c)); }
  int operator()(int r, int c) const { return values.at(static_cast<std::size_t>(r * cols + c)); }
};

// q_i . table[index(i, j)].
inline Matrix query_row_term(const Matrix& q, const Matrix& table, const IndexMatrix& index) {
  Matrix result(index.rows, index.cols);
  for (int i = 0; i < index.rows; ++i) {
    for (int j = 0; j < index.cols; ++j) {
      if (index(i, j) >= 0) result(i, j) = dot_rows(q, i, table, index(i, j));
    }
  }
  return result;
}

// k_j . table[index(i, j)].
inline Matrix key_row_term(const Matrix& k, const Matrix& table, const IndexMatrix& index) {
  Matrix result(index.rows, index.cols);
  for (int i = 0; i < index.rows; ++i) {
    for (int j = 0; j < index.cols; ++j) {
      if (index(i, j) >= 0) result(i, j) = dot_rows(k, j, table, index(i, j));
    }
  }
  return result;
}

// table[index(i, j)].
inline Matrix number_term(const std::vector<double>& table, const IndexMatrix& index) {
  Matrix result(index.rows, index.cols);
  for (int i = 0; i < index.rows; ++i) {
    for (int j = 0; j < index.cols; ++j) {
      if (index(i, j) >= 0) result(i, j) = table.at(static_cast<std::size_t>(index(i, j)));
    }
  }
  return result;
}

}  // namespace locant::oracle
