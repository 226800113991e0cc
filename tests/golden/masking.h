#pragma once

// Golden values: order of operations and masks of attention (public bug reports, toy of toy.h).

namespace locant::golden {

// Softcap: cap tanh(x / cap) after the scale, before bias and mask. Logits 1 2 3, cap 2.
inline constexpr double kSoftcapLogits[3] = {1, 2, 3};
inline constexpr double kSoftcapped[3] = {.924234, 1.523188, 1.810297};
inline constexpr double kSoftcapWeightsLastMasked[3] = {.354583, .645417, 0};
// Softcap wrongly applied after the mask: masked keys get weight.
inline constexpr double kSoftcapWeightsWrong[3] = {.347957, .633356, .018687};

// Two queries at positions 3 and 4, five keys: causal by absolute position.
inline constexpr int kCausal2x5[2][5] = {{1, 1, 1, 1, 0}, {1, 1, 1, 1, 1}};

// Window of 3 keys including self, five tokens.
inline constexpr int kWindow3[5][5] = {
    {1, 0, 0, 0, 0}, {1, 1, 0, 0, 0}, {1, 1, 1, 0, 0}, {0, 1, 1, 1, 0}, {0, 0, 1, 1, 1}};

}  // namespace locant::golden
