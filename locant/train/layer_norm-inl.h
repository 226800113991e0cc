// Layer norm over each row (Ba, Kiros, Hinton 2016), with the residual addition before it.
// Included once by elementwise-inl.h.

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
void norm_forward(const NormForward<T>& a) {
  constexpr T kEpsilon = T(1e-5);  // as GPT-2
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t at = row * a.width;
    const T* sum = a.x + at;
    // sum = x + added + added_bias
    if (a.added) {
      T* to = a.sum + at;
      along<T>(a.width, [&](int64_t i, auto part) {
        store(to + i, load(a.x + at + i, part) + load(a.added + at + i, part) +
              load(a.added_bias + i, part), part);
      });
      sum = to;
    }
    // mean = average(sum)
    Vec<T> total{};
    along<T>(a.width, [&](int64_t i, auto part) { total += load(sum + i, part); });
    const T mean = sum_of<T>(total) / static_cast<T>(a.width);
    // inverse_deviation = 1 / sqrt(average((sum - mean)^2) + epsilon)
    Vec<T> squares{};
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> off = only<T>(load(sum + i, part) - mean, part);
      squares += off * off;
    });
    const T variance = sum_of<T>(squares) / static_cast<T>(a.width);
    const T inverse = T(1) / static_cast<T>(__builtin_sqrt(variance + kEpsilon));
    // out = gain (sum - mean) inverse_deviation + bias
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> unit = (load(sum + i, part) - mean) * inverse;
      store(a.out + at + i, unit * load(a.gain + i, part) + load(a.bias + i, part), part);
    });
    a.mean[row] = mean;
    a.inverse_deviation[row] = inverse;
  }
}

template <class T>
void norm_backward(const NormBackward<T>& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    const int64_t at = row * a.width;
    const T mean = a.mean[row], inverse = a.inverse_deviation[row];
    // out = gain unit + bias, unit = (sum - mean) inverse_deviation
    Vec<T> total{}, along_unit{};
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> out = load(a.out_gradient + at + i, part);
      const Vec<T> unit = (load(a.sum + at + i, part) - mean) * inverse;
      store(a.bias_gradient + i, load(a.bias_gradient + i, part) + out, part);
      store(a.gain_gradient + i, load(a.gain_gradient + i, part) + out * unit, part);
      const Vec<T> unit_gradient = out * load(a.gain + i, part);  // zero past the row's end
      total += unit_gradient;
      along_unit += unit_gradient * unit;
    });
    // unit has average 0 and average square 1: what lies along either direction does not reach sum.
    const T average = sum_of<T>(total) / static_cast<T>(a.width);
    const T slope = sum_of<T>(along_unit) / static_cast<T>(a.width);
    along<T>(a.width, [&](int64_t i, auto part) {
      const Vec<T> unit = (load(a.sum + at + i, part) - mean) * inverse;
      const Vec<T> unit_gradient = load(a.out_gradient + at + i, part) * load(a.gain + i, part);
      const Vec<T> gradient = load(a.sum_gradient + at + i, part) +
                              (unit_gradient - average - unit * slope) * inverse;
      store(a.sum_gradient + at + i, gradient, part);
      // sum = x + added + added_bias
      if (a.added_bias_gradient) {
        store(a.added_bias_gradient + i, load(a.added_bias_gradient + i, part) + gradient, part);
      }
    });
  }
}

}  // namespace locant::train::LOCANT_TRAIN_ISA
