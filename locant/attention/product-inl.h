// Tile products: C = start + A B on tiles of scores and outputs, the inner loops of everything.
//   C[r][c] = start[r][c] + sum_k A[r a_row + k a_k] B[k b_k + c]
// A is read one number at a time and broadcast, so it may be transposed for free; B is read in
// vectors of kLanes columns. One register block is kBlockRows x kBlockVecs accumulators.
#pragma once

namespace locant::attention::LOCANT_SIMD_NAMESPACE {
using namespace simd::LOCANT_SIMD_NAMESPACE;  // NOLINT: the vector vocabulary

struct Left {
  const float* data;
  int64_t row, k;
  Left from(int64_t r, int64_t n = 0) const { return {data + r * row + n * k, row, k}; }
};
struct Right {
  const float* data;
  int64_t k;
};

// Where accumulators start: nowhere (zero), at start.data[r row + c] (row = 0: the same for every
// row, row = -1: a number per distance), or at one number a row.
struct Start {
  const float* data = nullptr;
  int64_t row = 0;
  const float* number = nullptr;  // [rows]
  Start from(int64_t r) const {
    return {data ? data + r * row : nullptr, row, number ? number + r : nullptr};
  }
};

// acc += A B over k = [0, n).
template <int R, int C>
inline __attribute__((always_inline)) void accumulate(Vec (&acc)[R][C], int64_t n, const float* a,
                                                      int64_t a_row, int64_t a_k, const float* b,
                                                      int64_t b_k) {
#pragma GCC unroll 4
  for (int64_t k = 0; k < n; ++k) {
    Vec right[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) right[c] = load(b + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec left = set(a[r * a_row]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = fma(left, right[c], acc[r][c]);
    }
    a += a_k;
    b += b_k;
  }
}

// One register block, then finish(acc, first row, first column).
template <int R, int C, class Finish>
inline void block(int64_t n, const Left& a, const Right& b, const Start& start, int64_t column,
                  int64_t row, Finish& finish) {
  Vec acc[R][C];
  if (start.data) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = load(start.data + r * start.row + column + c * kLanes);
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec first = start.number ? set(start.number[r]) : zero();
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = first;
    }
  }
  accumulate<R, C>(acc, n, a.data, a.row, a.k, b.data + column, b.k);
  finish(acc, row, column);
}

// Rows [row, row + rows) of a tile, vectors [0, vecs) of its columns.
template <int R, class Finish>
inline void block_columns(int64_t n, const Left& a, const Right& b, const Start& start,
                          int64_t first_vec, int64_t vecs, int64_t row, Finish& finish) {
  int64_t c = first_vec;
  for (; c + kBlockVecs <= vecs; c += kBlockVecs) {
    block<R, kBlockVecs>(n, a, b, start, c * kLanes, row, finish);
  }
  if constexpr (kBlockVecs > 3) {
    if (c + 3 <= vecs) {
      block<R, 3>(n, a, b, start, c * kLanes, row, finish);
      c += 3;
    }
  }
  if constexpr (kBlockVecs > 2) {
    if (c + 2 <= vecs) {
      block<R, 2>(n, a, b, start, c * kLanes, row, finish);
      c += 2;
    }
  }
  for (; c < vecs; ++c) block<R, 1>(n, a, b, start, c * kLanes, row, finish);
}

// A whole product: rows x (vecs * kLanes), the same k for all rows.
template <class Finish>
inline void product(int64_t rows, int64_t vecs, int64_t n, const Left& a, const Right& b,
                    const Start& start, Finish finish) {
  for (int64_t c = 0; c < vecs; c += kBlockVecs) {
    const int64_t end = c + kBlockVecs < vecs ? c + kBlockVecs : vecs;
    int64_t r = 0;
    for (; r + kBlockRows <= rows; r += kBlockRows) {
      block_columns<kBlockRows>(n, a.from(r), b, start.from(r), c, end, r, finish);
    }
    for (; r < rows; ++r) block_columns<1>(n, a.from(r), b, start.from(r), c, end, r, finish);
  }
}

// Finish: stores the block.
struct StoreTo {
  float* data;
  int64_t row;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) store(data + (r0 + r) * row + c0 + c * kLanes, acc[r][c]);
    }
  }
};

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
