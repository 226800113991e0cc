// Vectors of the width that the including file was compiled for (LOCANT_TRAIN_ISA names its namespace,
// LOCANT_VECTOR_BYTES its registers), by the compiler's vector extensions.
// Only types of this namespace here: an inline function of the standard library, compiled for a wide
// instruction set, could be the copy that the linker keeps for everybody.
// No include guard on purpose: included once by elementwise-inl.h.

namespace locant::train::LOCANT_TRAIN_ISA {

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(LOCANT_VECTOR_BYTES)));
};
template <class T>
using Vec = typename VectorOf<T>::Type;
template <class T>
inline constexpr int64_t kLanes = LOCANT_VECTOR_BYTES / static_cast<int64_t>(sizeof(T));

// How much of a vector lies in memory.
struct Whole {};
struct Part {
  int64_t count;
};

template <class T>
inline Vec<T> all(T number) {
  return number - Vec<T>{};
}

template <class T>
inline Vec<T> load(const T* from, Whole) {
  Vec<T> v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <class T>
inline Vec<T> load(const T* from, Part part, T rest = 0) {
  Vec<T> v = all(rest);
  for (int64_t i = 0; i < part.count; ++i) v[i] = from[i];
  return v;
}
template <class T>
inline Vec<T> load(const T* from, Whole whole, T) {
  return load(from, whole);
}
template <class T>
inline void store(T* to, Vec<T> v, Whole) {
  __builtin_memcpy(to, &v, sizeof v);
}
template <class T>
inline void store(T* to, Vec<T> v, Part part) {
  for (int64_t i = 0; i < part.count; ++i) to[i] = v[i];
}

// f(offset, Whole or Part) along n numbers.
template <class T, class F>
inline __attribute__((always_inline)) void along(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + kLanes<T> <= n; i += kLanes<T>) f(i, Whole{});
  if (i < n) f(i, Part{n - i});
}

template <class T>
inline T sum_of(Vec<T> v) {
  T sum = v[0];
  for (int64_t i = 1; i < kLanes<T>; ++i) sum += v[i];
  return sum;
}
template <class T>
inline T max_of(Vec<T> v) {
  T max = v[0];
  for (int64_t i = 1; i < kLanes<T>; ++i) max = v[i] > max ? v[i] : max;
  return max;
}

// Zero in the lanes that do not exist.
template <class T>
inline Vec<T> only(Vec<T> v, Whole) {
  return v;
}
template <class T>
inline Vec<T> only(Vec<T> v, Part part) {
  for (int64_t i = part.count; i < kLanes<T>; ++i) v[i] = 0;
  return v;
}

// exp: x = n ln 2 + r, a polynomial of degree 6 in r (2 ulp), 2^n through the exponent bits. NaN stays;
// beyond the range of normal numbers the result is that of the range's end (1e-38) or infinity.
inline Vec<float> exp(Vec<float> x) {
  typedef int32_t Ints __attribute__((vector_size(LOCANT_VECTOR_BYTES)));
  const Vec<float> limit = all(88.72f);
  const Vec<float> clamped = x < -87.33f ? all(-87.33f) : (x > limit ? limit : x);
  const Vec<float> magic = all(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const Vec<float> shifted = clamped * 1.44269504f + magic;
  const Vec<float> n = shifted - magic;
  const Vec<float> r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  Vec<float> p = all(1.0f / 720) * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // Half of n at a time, so that 2^128 does not overflow on the way.
  const Ints whole = (Ints)shifted - (Ints)magic, half = whole >> 1;
  const Vec<float> scale1 = (Vec<float>)((half + 127) << 23);
  const Vec<float> scale2 = (Vec<float>)((whole - half + 127) << 23);
  const Vec<float> result = p * scale1 * scale2;
  return x > limit ? all(__builtin_inff()) : result;
}

inline Vec<double> exp(Vec<double> x) {
  for (int64_t i = 0; i < kLanes<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}

}  // namespace locant::train::LOCANT_TRAIN_ISA
