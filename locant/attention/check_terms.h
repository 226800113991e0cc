// What is asked of terms, whoever made them: tables of the call's heads and widths, maps into them, a
// rotation that fits the head, gradients of the same shape.
#pragma once

#include "locant/base/check.h"
#include "locant/position/terms.h"

namespace locant::attention {

// Add what is wrong with terms for queries [.., H, .., D] and values [.., Dv]. T: float, double.
template <class T>
void check_terms(Check& check, int64_t H, int64_t D, int64_t Dv, const Terms<T>& terms);
template <class T>
void check_terms_gradient(Check& check, const Terms<T>& terms, const Terms<T>& gradient);
// Adds that a rotation's scales (xPos) leave single precision at a position; false then.
bool check_scales(Check& check, const char* name, const Rotation& rotation, int64_t position);

}  // namespace locant::attention
