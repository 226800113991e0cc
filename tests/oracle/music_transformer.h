#pragma once

// The oracle: Music Transformer (Huang 2018), by the paper's own skewing of Q E^T.

#include "tests/oracle/matrix.h"

namespace locant::oracle {

// One zero column on the left, read the same buffer again as (cols + 1) x rows, drop the first row.
// For a square matrix. Entries right of the diagonal are left-overs.
inline Matrix skew(const Matrix& x) {
  std::vector<double> padded;
  for (int r = 0; r < x.rows; ++r) {
    padded.push_back(0.0);
    for (int c = 0; c < x.cols; ++c) padded.push_back(x(r, c));
  }
  Matrix result(x.rows, x.cols);
  // Re-read with rows of length x.rows (= x.cols); row r + 1 of that is row r of the result.
  for (int r = 0; r < x.rows; ++r) {
    for (int c = 0; c < x.cols; ++c) {
      result(r, c) = padded[static_cast<std::size_t>((r + 1) * x.rows + c)];
    }
  }
  return result;
}

// The last `length` rows of a table; missing far rows are zeros (tensor2tensor).
inline Matrix music_rows(const Matrix& table, int length) {
  Matrix rows(length, table.cols);
  for (int r = 0; r < length; ++r) {
    const int source = table.rows - length + r;
    if (source < 0) continue;
    for (int c = 0; c < table.cols; ++c) rows(r, c) = table(source, c);
  }
  return rows;
}

// S_rel for L consecutive tokens; only j <= i is meaningful.
inline Matrix music_by_skew(const Matrix& q, const Matrix& table) {
  return skew(times_transposed(q, music_rows(table, q.rows)));
}

// The same from i and j, any positions: q_i . E[P - 1 - (i - j)], zero past the table or for j > i.
inline Matrix music_by_distance(const Matrix& q, const Matrix& table, const Positions& queries,
                                const Positions& keys) {
  Matrix result(q.rows, static_cast<int>(keys.size()));
  for (int a = 0; a < result.rows; ++a) {
    for (int b = 0; b < result.cols; ++b) {
      const std::int64_t back =
          queries[static_cast<std::size_t>(a)] - keys[static_cast<std::size_t>(b)];
      if (back < 0 || back >= table.rows) continue;
      result(a, b) = dot_rows(q, a, table, table.rows - 1 - static_cast<int>(back));
    }
  }
  return result;
}

}  // namespace locant::oracle
