// Token embeddings, with the scheme's rows added (question 1), and their gradients.
#pragma once

#include <cstdint>

namespace locant::train {

// x[b][p] = table[token[b][p]] + position_rows[p] (null: nothing). x: [batch][length][width].
template <class T>
void embedding_forward(int64_t batch, int64_t length, int64_t width, const int32_t* tokens,
                       const T* table, const T* position_rows, T* x) {
  for (int64_t row = 0; row < batch * length; ++row) {
    const T* from = table + tokens[row] * width;
    T* to = x + row * width;
    if (position_rows) {
      const T* add = position_rows + row % length * width;
      for (int64_t c = 0; c < width; ++c) to[c] = from[c] + add[c];
    } else {
      for (int64_t c = 0; c < width; ++c) to[c] = from[c];
    }
  }
}

// Adds to the table's gradient and, unless null, to the rows' gradient.
template <class T>
void embedding_backward(int64_t batch, int64_t length, int64_t width, const int32_t* tokens,
                        const T* x_gradient, T* table_gradient, T* rows_gradient) {
  for (int64_t row = 0; row < batch * length; ++row) {
    const T* from = x_gradient + row * width;
    T* to = table_gradient + tokens[row] * width;
    for (int64_t c = 0; c < width; ++c) to[c] += from[c];
    if (!rows_gradient) continue;
    T* add = rows_gradient + row % length * width;
    for (int64_t c = 0; c < width; ++c) add[c] += from[c];
  }
}

}  // namespace locant::train
