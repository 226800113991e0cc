// The schemes of the C++ registry for Python: what they are called, learn and lower to. Scalar double
// precision code that runs when a module is made, and in tests; not in every call of attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "python/ops/tensors.h"

namespace locant::python {

std::vector<std::string> scheme_names();

// {"name", "specification", "description": {...}, "options": [...], "parameters": [...],
// "embeds", "table_length"} as JSON. sizes: heads, head_size, width, value_size.
std::string scheme_info(std::string specification, std::vector<int64_t> sizes);

// Questions 2 to 4 for one call. call: heads, head_size, width, value_size, layer, causal,
// first_distance, last_distance, length. parameters: float64, contiguous, in the order of
// scheme_info. Returns 13 tensors, empty where a term is absent, float64 (maps int32):
// number [h, rows], left [h], right [h], its map, query rows [h, rows, D], map, key rows, map,
// value rows, map, content bias [h, D], rotation, [scale factor, scaled bits]. A scheme that acts
// through a tile hook is refused: attention takes it by its text.
std::vector<Tensor> scheme_lower(std::string specification, std::vector<int64_t> call,
                                 std::vector<Tensor> parameters);

// Question 2 alone, for schemes whose rotation depends on the length: as many numbers as `numbers`
// says, or an error.
Tensor scheme_rotation(std::string specification, int64_t head_size, int64_t layer, int64_t length,
                       int64_t numbers);

// Question 1: rows [n, width] float64 for positions int64 [n].
Tensor scheme_embed(std::string specification, std::vector<int64_t> sizes, Tensor positions,
                    std::vector<Tensor> parameters);

}  // namespace locant::python
