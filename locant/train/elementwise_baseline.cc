// For any CPU the compiler targets by default, and in double for the tests.
#define LOCANT_TRAIN_ISA baseline
#define LOCANT_VECTOR_BYTES 16
#include "locant/train/elementwise-inl.h"

namespace locant::train::baseline {
extern const Elementwise<double> kDoubleTable;
constexpr Elementwise<double> kDoubleTable = make_table<double>();
}  // namespace locant::train::baseline
