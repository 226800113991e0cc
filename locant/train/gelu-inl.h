// GELU in the tanh form of GPT-2 (Hendrycks and Gimpel 2016, arXiv 1606.08415), with the bias before it.
// 1 + tanh(u) is 2 / (1 + exp(-2u)): x/2 (1 + tanh u) = x s with s = 1 / (1 + exp(-2u)).
// Included once by elementwise-inl.h.

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
void gelu_forward(const GeluForward<T>& a) {
  constexpr T kTwice = T(1.5957691216057308);  // 2 sqrt(2 / pi)
  constexpr T kCubic = T(0.044715);
  for (int64_t row = 0; row < a.rows; ++row) {
    T* values = a.values + row * a.width;
    T* slope = a.slope ? a.slope + row * a.width : nullptr;
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> x = load(values + i, part) + load(a.bias + i, part);
      const Vec<T> square = x * x;
      const Vec<T> twice_u = x * (square * (kTwice * kCubic) + kTwice);
      const Vec<T> s = T(1) / (exp(-twice_u) + T(1));
      const Vec<T> value = x * s;
      store(values + i, value, part);
      // GELU' = s + x s (1 - s) (2u)'
      if (slope) {
        const Vec<T> inner = square * (3 * kTwice * kCubic) + kTwice;
        store(slope + i, s + value * (T(1) - s) * inner, part);
      }
    });
  }
}

template <class T>
void gelu_backward(const GeluBackward<T>& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const T* slope = a.slope + row * a.width;
    T* gradient = a.gradient + row * a.width;
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> x = load(gradient + i, part) * load(slope + i, part);
      store(gradient + i, x, part);
      store(a.bias_gradient + i, load(a.bias_gradient + i, part) + x, part);
    });
  }
}

template <class T>
void add_bias(int64_t rows, int64_t width, const T* bias, T* values) {
  for (int64_t row = 0; row < rows; ++row, values += width) {
    along<T>(width, [&](int64_t i, auto part) {
      store(values + i, load(values + i, part) + load(bias + i, part), part);
    });
  }
}

template <class T>
void column_sums(int64_t rows, int64_t width, const T* values, T* sums) {
  for (int64_t row = 0; row < rows; ++row, values += width) {
    along<T>(width, [&](int64_t i, auto part) {
      store(sums + i, load(sums + i, part) + load(values + i, part), part);
    });
  }
}

}  // namespace locant::train::LOCANT_TRAIN_ISA
