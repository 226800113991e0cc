#include "locant/train/matmul.h"

#include <dlfcn.h>
#include <dnnl.h>

#include "locant/base/check.h"

namespace locant::train {

namespace {

// Debian's oneDNN runs on OpenMP, whose number of threads is a setting of each calling thread. The
// functions are looked up in the running program: the runtime is oneDNN's affair, and another build
// of oneDNN may have none.
struct OpenMp {
  int (*get)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  void (*set)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
};
const OpenMp& openmp() {
  static const OpenMp functions;
  return functions;
}

}  // namespace

SingleThread::SingleThread() : before_(1) {
  if (!openmp().get || !openmp().set) return;
  before_ = openmp().get();
  if (before_ != 1) openmp().set(1);
}

SingleThread::~SingleThread() {
  if (before_ != 1) openmp().set(before_);
}

template <>
void multiply<float>(Operand a_operand, Operand b_operand, int64_t m, int64_t n, int64_t k,
                     const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                     int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  const dnnl_status_t status = dnnl_sgemm(
      a_operand == Operand::kTransposed ? 'T' : 'N', b_operand == Operand::kTransposed ? 'T' : 'N', m,
      n, k, 1.0f, a, lda, b, ldb, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status != dnnl_success) {
    throw std::runtime_error(text_of("[matmul] oneDNN's sgemm failed with status ",
                                     static_cast<int>(status), " for ", m, " x ", n, " x ", k));
  }
}

template <>
void multiply<double>(Operand a_operand, Operand b_operand, int64_t m, int64_t n, int64_t k,
                      const double* a, int64_t lda, const double* b, int64_t ldb, double* c,
                      int64_t ldc, bool accumulate) {
  const bool a_turned = a_operand == Operand::kTransposed, b_turned = b_operand == Operand::kTransposed;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = accumulate ? c[row * ldc + column] : 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += (a_turned ? a[i * lda + row] : a[row * lda + i]) *
               (b_turned ? b[column * ldb + i] : b[i * ldb + column]);
      }
      c[row * ldc + column] = sum;
    }
  }
}

template <class T>
void transpose(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kTile = 16;  // a cache line of floats each way
  for (int64_t row0 = 0; row0 < rows; row0 += kTile) {
    const int64_t row_end = row0 + kTile < rows ? row0 + kTile : rows;
    for (int64_t column0 = 0; column0 < columns; column0 += kTile) {
      const int64_t column_end = column0 + kTile < columns ? column0 + kTile : columns;
      for (int64_t column = column0; column < column_end; ++column) {
        for (int64_t row = row0; row < row_end; ++row) {
          to[column * rows + row] = from[row * columns + column];
        }
      }
    }
  }
}
template void transpose<float>(const float*, int64_t, int64_t, float*);
template void transpose<double>(const double*, int64_t, int64_t, double*);

}  // namespace locant::train
