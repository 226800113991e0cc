// Softmax cross entropy of each row of logits, and its gradient in their place. Rows of which nothing is
// asked (a negative target) have none.
// Included once by elementwise-inl.h.

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
void cross_entropy(const CrossEntropy<T>& a) {
  for (int64_t row = 0; row < a.rows; ++row) {
    T* logits = a.logits + row * a.stride;
    if (a.targets[row] < 0) {
      a.losses[row] = 0;
      if (a.gradient) {
        along<T>(a.vocabulary, [&](int64_t i, auto part) { store(logits + i, Vec<T>{}, part); });
      }
      continue;
    }
    const T lowest = logits[0];
    Vec<T> maxima = all(lowest);
    along<T>(a.vocabulary, [&](int64_t i, auto part) {
      const Vec<T> x = load(logits + i, part, lowest);
      maxima = x > maxima ? x : maxima;
    });
    const T max = max_of<T>(maxima);
    const T at_target = logits[a.targets[row]];
    // sum = sum exp(logits - max)
    Vec<T> sums{};
    along<T>(a.vocabulary, [&](int64_t i, auto part) {
      const Vec<T> x = exp(load(logits + i, part) - max);
      sums += only<T>(x, part);
      if (a.gradient) store(logits + i, x, part);
    });
    const T sum = sum_of<T>(sums);
    // loss = log(sum) + max - logits[target]
    a.losses[row] = static_cast<T>(__builtin_log(static_cast<double>(sum))) + (max - at_target);
    if (!a.gradient) continue;
    const T factor = a.gradient_scale / sum;
    along<T>(a.vocabulary, [&](int64_t i, auto part) {
      store(logits + i, load(logits + i, part) * factor, part);
    });
    logits[a.targets[row]] -= a.gradient_scale;
  }
}

}  // namespace locant::train::LOCANT_TRAIN_ISA
