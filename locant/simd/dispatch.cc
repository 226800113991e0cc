// Finds the instruction sets of this machine and picks one.
#include "locant/simd/dispatch.h"

#include <atomic>
#include <cstdlib>

namespace locant::simd {
namespace {

bool machine_has(Set set) {
  switch (set) {
    case Set::kScalar:
      return true;
#if defined(__x86_64__) || defined(__i386__)
    case Set::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Set::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("fma");
    case Set::kAvx512Bf16:
      return machine_has(Set::kAvx512) && __builtin_cpu_supports("avx512bf16");
#elif defined(__aarch64__)
    case Set::kNeon:  // part of the architecture
      return true;
#endif
    default:  // not in this build
      return false;
  }
}

std::vector<Set> find_available() {
  std::vector<Set> sets;
  for (Set set : all()) {
    if (machine_has(set)) sets.push_back(set);
  }
  return sets;
}

bool is_available(Set set) {
  for (Set one : available()) {
    if (one == set) return true;
  }
  return false;
}

struct Choice {
  std::atomic<Set> set;
  std::string problem;

  Choice() : set(available().back()) {
    const char* wish = std::getenv("LOCANT_ISA");
    if (!wish || !*wish) return;
    for (Set one : available()) {
      if (name(one) == wish) {
        set = one;
        return;
      }
    }
    problem = std::string("LOCANT_ISA=") + wish + ": not available here (" + available_names() + ")";
  }
};

Choice& choice() {
  static Choice only;
  return only;
}

}  // namespace

std::string_view name(Set set) {
  switch (set) {
    case Set::kScalar: return "scalar";
    case Set::kNeon: return "neon";
    case Set::kAvx2: return "avx2";
    case Set::kAvx512: return "avx512";
    case Set::kAvx512Bf16: return "avx512bf16";
  }
  return "?";
}

const std::vector<Set>& all() {
  static const std::vector<Set> sets{Set::kScalar, Set::kNeon, Set::kAvx2, Set::kAvx512, Set::kAvx512Bf16};
  return sets;
}

const std::vector<Set>& available() {
  static const std::vector<Set> sets = find_available();
  return sets;
}

std::string available_names() {
  std::string names;
  for (Set set : available()) names += (names.empty() ? "" : ", ") + std::string(name(set));
  return names;
}

Set chosen() { return choice().set.load(std::memory_order_relaxed); }

const std::string& override_problem() { return choice().problem; }

bool choose(Set set) {
  if (!is_available(set)) return false;
  choice().set = set;
  return true;
}

bool choose(std::string_view set_name) {
  for (Set set : all()) {
    if (name(set) == set_name) return choose(set);
  }
  return false;
}

}  // namespace locant::simd
