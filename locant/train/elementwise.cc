// Which table of functions runs.
#include "locant/train/elementwise.h"

#include "locant/simd/dispatch.h"

namespace locant::train {
namespace baseline {
extern const Elementwise<float> kFloatTable;
extern const Elementwise<double> kDoubleTable;
}  // namespace baseline
#ifdef LOCANT_TRAIN_X86
namespace avx2 {
extern const Elementwise<float> kFloatTable;
}
namespace avx512 {
extern const Elementwise<float> kFloatTable;
}
#endif

template <>
const Elementwise<float>& elementwise<float>() {
  switch (simd::chosen()) {
#ifdef LOCANT_TRAIN_X86
    case simd::Set::kAvx2:
      return avx2::kFloatTable;
    case simd::Set::kAvx512:
    case simd::Set::kAvx512Bf16:
      return avx512::kFloatTable;
#endif
    default:
      return baseline::kFloatTable;
  }
}

template <>
const Elementwise<double>& elementwise<double>() {
  return baseline::kDoubleTable;
}

}  // namespace locant::train
