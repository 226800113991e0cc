// Decoding over a cache of keys and values (locant/attention/decode.h, kv_cache.h). No gradients.
#pragma once

#include <cstdint>
#include <string>

#include "python/ops/arguments.h"

namespace locant::python {

// Caches: k [B, Hk, capacity, D] and v, or in pages [pages, Hk, page size, D] with block_table int32
// [B, blocks]; lengths int64 [B].
inline std::string decode_arguments() {
  return std::string(
             "Tensor q, Tensor k_cache, Tensor v_cache, Tensor lengths, Tensor? block_table, "
             "Tensor? number_per_key, Tensor? q_positions, Tensor? k_positions, ") +
         TermArguments::kTensors + ", " + TermArguments::kNumbers + ", " + kOptions +
         ", bool keys_turned";
}
inline constexpr const char* kAppendArguments =
    "Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor(c!) lengths, Tensor? block_table, Tensor k, "
    "Tensor v, Tensor? positions, Tensor? counts, Tensor? rotation, bool keys_turned";

// (arguments) -> (out, lse)
void decode(StableIValue* stack, uint64_t inputs, uint64_t outputs);
// (arguments) -> (); writes the caches and the lengths.
void cache_append(StableIValue* stack, uint64_t inputs, uint64_t outputs);

}  // namespace locant::python
