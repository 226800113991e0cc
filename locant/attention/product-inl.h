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
  Right from(int64_t n) const { return {data + n * k, k}; }
};

// Where accumulators start: nowhere (zero), at start.data[r row + c] (row = 0: the same for every
// row, row = -1: a number per distance), or at one number a row; minus one number a row.
struct Start {
  const float* data = nullptr;
  int64_t row = 0;
  const float* number = nullptr;  // [rows]
  const float* minus = nullptr;   // [rows]
  Start from(int64_t r) const {
    return {data ? data + r * row : nullptr, row, number ? number + r : nullptr,
            minus ? minus + r : nullptr};
  }
};

// How two units are multiplied and added up. kStartLast: sums begin at zero, and the result is start +
// factor times the sum (pairs-inl.h).
struct FloatProduct {
  static constexpr bool kStartLast = false;
  Vec multiply(Vec a, Vec b, Vec c) const { return fma(a, b, c); }
};

// acc += A B over k = [0, n).
template <int R, int C, class Multiply>
inline __attribute__((always_inline)) void accumulate(Vec (&acc)[R][C], int64_t n, const float* a,
                                                      int64_t a_row, int64_t a_k, const float* b,
                                                      int64_t b_k, const Multiply& product) {
#pragma GCC unroll 4
  for (int64_t k = 0; k < n; ++k) {
    Vec right[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) right[c] = load(b + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec left = set(a[r * a_row]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = product.multiply(left, right[c], acc[r][c]);
    }
    a += a_k;
    b += b_k;
  }
}

// f(acc[r][c], its start value) for all of a block.
template <int R, int C, class F>
inline __attribute__((always_inline)) void each_start(Vec (&acc)[R][C], const Start& start, int64_t column,
                                                    F f) {
  if (start.data) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec minus = start.minus ? set(start.minus[r]) : zero();
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        f(acc[r][c], load(start.data + r * start.row + column + c * kLanes) - minus);
      }
    }
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec first = set((start.number ? start.number[r] : 0.0f) -
                            (start.minus ? start.minus[r] : 0.0f));
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) f(acc[r][c], first);
    }
  }
}

// One register block, then finish(acc, first row, first column).
template <int R, int C, class Finish, class Multiply>
inline __attribute__((always_inline)) void block(int64_t n, const Left& a, const Right& b, const Start& start, int64_t column,
                  int64_t row, Finish& finish, const Multiply& product) {
  Vec acc[R][C];
  if constexpr (Multiply::kStartLast) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = zero();
    }
  } else {
    each_start(acc, start, column, [](Vec& x, Vec first) { x = first; });
  }
  accumulate<R, C>(acc, n, a.data, a.row, a.k, b.data + column, b.k, product);
  if constexpr (Multiply::kStartLast) {
    const Vec factor = set(product.factor);
    each_start(acc, start, column, [factor](Vec& x, Vec first) { x = fma(x, factor, first); });
  }
  finish(acc, row, column);
}

// What will be needed soon: rows to prefetch, a few lines after each register block. Short sequences
// wait for memory otherwise.
struct Ahead {
  static constexpr int kMost = 8, kLines = 12;  // arrays; cache lines at a time
  struct Array {
    const char* data;
    int64_t row;    // bytes
    int64_t rows;   // of them
    int64_t lines;  // of a row
  };
  Array arrays[kMost];
  int count = 0, now = 0;
  int64_t row = 0, line = 0;

  // Rows [first, last) of (b, h) of an array of the plan.
  template <class Array>
  void add(const Array& array, int64_t b, int64_t h, int64_t first, int64_t last, int64_t width) {
    if (array.bf16) {
      add(array.bf16.at(b, h, first), array.bf16.row, last - first, width);
    } else if (array) {
      add(array.at(b, h, first), array.row, last - first, width);
    }
  }
  template <class T>
  void add(const T* data, int64_t stride, int64_t rows, int64_t width) {
    constexpr int64_t kSize = sizeof(T);
    if (rows <= 0) return;
    arrays[count++] = {reinterpret_cast<const char*>(data), stride * kSize, rows, (width * kSize + 63) / 64};
  }
  void step() {
    for (int n = 0; n < kLines && now < count; ++n) {
      const Array& array = arrays[now];
      __builtin_prefetch(array.data + row * array.row + line * 64);
      if (++line < array.lines) continue;
      line = 0;
      if (++row < array.rows) continue;
      row = 0;
      ++now;
    }
  }
};

// A column of blocks: rows [first_row, rows), R at a time, C vectors from `column` on. Not inlined
// into its callers, so that the loop over rows has all registers to itself (a call for each block
// costs 3 %).
template <int R, int C, class Finish, class Multiply>
__attribute__((noinline)) void block_column(int64_t first_row, int64_t rows, int64_t n, const Left& a,
                                            const Right& b, const Start& start, int64_t column,
                                            const Finish& finish, const Multiply& multiply) {
  const Left left = a;
  const Right right = b;
  const Start begin = start;
  Finish end = finish;
  const Multiply product = multiply;
  for (int64_t r = first_row; r < rows; r += R) {
    block<R, C>(n, left.from(r), right, begin.from(r), column, r, end, product);
    if (end.ahead) end.ahead->step();
  }
}

// The rows of one column of C vectors: as many as possible R at a time, the rest in smaller blocks.
template <int R, int C, class Finish, class Multiply>
inline void block_rows(int64_t first, int64_t last, int64_t n, const Left& a, const Right& b,
                       const Start& start, int64_t column, const Finish& finish,
                       const Multiply& multiply) {
  const int64_t whole = first + (last - first) / R * R;
  if (whole > first) block_column<R, C>(first, whole, n, a, b, start, column, finish, multiply);
  if (whole == last) return;
  if constexpr (R > kBlockRows) {
    block_rows<kBlockRows, C>(whole, last, n, a, b, start, column, finish, multiply);
  } else {
    block_column<1, C>(whole, last, n, a, b, start, column, finish, multiply);
  }
}

// Rows [first, last), vectors [first_vec, vecs) of a tile; a, start and finish are those of row 0.
template <class Finish, class Multiply = FloatProduct>
inline void product_of(int64_t first, int64_t last, int64_t first_vec, int64_t vecs, int64_t n,
                       const Left& a, const Right& b, const Start& start, const Finish& finish,
                       const Multiply& multiply = {}) {
  // Narrow columns take more rows at a time.
  constexpr int kTall = kBlockVecs > 2 ? 2 * kBlockRows : kBlockRows;
  for (int64_t c = first_vec; c < vecs;) {
    const int64_t left = vecs - c;
    const int64_t column = c * kLanes;
    if (left >= kBlockVecs) {
      block_rows<kBlockRows, kBlockVecs>(first, last, n, a, b, start, column, finish, multiply);
      c += kBlockVecs;
    } else if (kBlockVecs > 3 && left == 3) {
      block_rows<kBlockRows, 3>(first, last, n, a, b, start, column, finish, multiply);
      c += 3;
    } else if (kBlockVecs > 2 && left == 2) {
      block_rows<kLanes == 8 ? kBlockRows : kTall, 2>(first, last, n, a, b, start, column, finish, multiply);
      c += 2;
    } else {
      block_rows<kTall, 1>(first, last, n, a, b, start, column, finish, multiply);
      c += 1;
    }
  }
}

// A whole product: rows x (vecs * kLanes), the same k for all rows.
template <class Finish, class Multiply = FloatProduct>
inline void product(int64_t rows, int64_t vecs, int64_t n, const Left& a, const Right& b,
                    const Start& start, const Finish& finish, const Multiply& multiply = {}) {
  product_of(0, rows, 0, vecs, n, a, b, start, finish, multiply);
}

// Finish: stores the block.
struct StoreTo {
  float* data;
  int64_t row;
  Ahead* ahead = nullptr;
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
