// Which instruction set runs: found once, overridable with the environment variable LOCANT_ISA.
// Nothing here is compiled for a special instruction set.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace locant::simd {

// In ascending order of preference on their own machines.
enum class Set {
  kScalar,      // portable code, no flags: runs everywhere
  kNeon,        // AArch64
  kAvx2,        // AVX2 and FMA
  kAvx512,      // AVX-512 F, BW, DQ, VL
  kAvx512Bf16,  // and the bf16 dot product
};

// "scalar", "neon", "avx2", "avx512", "avx512bf16": as LOCANT_ISA and set_by_name take them.
std::string_view name(Set set);

// Every set there is, whatever the machine.
const std::vector<Set>& all();
// Sets that this machine can run and this build contains, best last; never empty.
const std::vector<Set>& available();
// Their names, as in "scalar, avx2".
std::string available_names();

// The set in use: the best available one, or what LOCANT_ISA asks for.
Set chosen();

// Why LOCANT_ISA was not followed ("LOCANT_ISA=avx512: not available here (scalar, avx2)");
// empty when it was, or is not set. The library itself prints nothing: a program should show this.
const std::string& override_problem();

// For tests and benchmarks: uses `set` from now on; false (and no change) when it is not available.
// Not thread-safe against running calls.
bool choose(Set set);
bool choose(std::string_view set_name);

}  // namespace locant::simd
