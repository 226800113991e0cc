// Matrix products, row-major: float by oneDNN's sgemm, double by plain loops (tests).
#pragma once

#include <cstdint>

namespace locant::train {

enum class Operand { kAsIs, kTransposed };

// C[m][n] = A[m][k] B[k][n] + (accumulate ? C : 0). lda, ldb, ldc are the row strides of the arrays as
// they lie in memory; a transposed operand lies as [k][m] or [n][k].
// Runs in the calling thread if a SingleThread lives there.
template <class T>
void multiply(Operand a_operand, Operand b_operand, int64_t m, int64_t n, int64_t k, const T* a,
              int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc, bool accumulate);

// While it lives, products started by this thread stay in it: the work is already cut into shards, one
// a thread, and a second pool of threads would fight with ours.
class SingleThread {
 public:
  SingleThread();
  ~SingleThread();
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

// to[columns][rows] from from[rows][columns].
template <class T>
void transpose(const T* from, int64_t rows, int64_t columns, T* to);

}  // namespace locant::train
