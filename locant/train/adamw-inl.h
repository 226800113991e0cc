// The optimiser's update and the sum of the shards' gradients before it.
// Included once by elementwise-inl.h.

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
void adamw(const AdamWStep<T>& a) {
  const T decay = T(1) - a.learning_rate * a.weight_decay;
  const T step = a.learning_rate * a.mean_correction;
  along<T>(a.n, [&](int64_t i, auto part) {
    const Vec<T> gradient = load(a.gradient + i, part) * a.gradient_scale;
    const Vec<T> mean = load(a.mean + i, part) * a.beta1 + gradient * (T(1) - a.beta1);
    const Vec<T> square = load(a.square + i, part) * a.beta2 + gradient * gradient * (T(1) - a.beta2);
    store(a.mean + i, mean, part);
    store(a.square + i, square, part);
    Vec<T> root = square * a.square_correction;
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
      root[lane] = static_cast<T>(__builtin_sqrt(root[lane]));
    }
    store(a.value + i, load(a.value + i, part) * decay - step * mean / (root + a.epsilon), part);
  });
}

template <class T>
double sum_parts(int64_t n, const T* const* parts, int64_t count, T* to) {
  double squares = 0;
  constexpr int64_t kBlock = 1024;  // squares add up in T inside, in double across
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t size = n - first < kBlock ? n - first : kBlock;
    Vec<T> square{};
    along<T>(size, [&](int64_t i, auto part) {
      Vec<T> sum = load(parts[0] + first + i, part);
      for (int64_t p = 1; p < count; ++p) sum += load(parts[p] + first + i, part);
      store(to + first + i, sum, part);
      square += sum * sum;
    });
    squares += static_cast<double>(sum_of<T>(square));
  }
  return squares;
}

}  // namespace locant::train::LOCANT_TRAIN_ISA
