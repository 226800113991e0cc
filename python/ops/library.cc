// The operators' schemas and where they are found. Loaded by python/locant/_ops.py.
#include <string>

#include "locant/simd/dispatch.h"
#include "python/ops/attention_ops.h"
#include "python/ops/decode_ops.h"
#include "python/ops/scheme_ops.h"

// "avx512": the instruction set in use.
static std::string instruction_set() {
  return std::string(locant::simd::name(locant::simd::chosen()));
}

// Why LOCANT_ISA was not followed, and what is used instead; empty when it was, or is not set.
static std::string instruction_set_problem() {
  const std::string& problem = locant::simd::override_problem();
  return problem.empty() ? problem : problem + "; using " + instruction_set();
}

STABLE_TORCH_LIBRARY(locant, library) {
  const std::string arguments = locant::python::attention_arguments();
  const std::string forward = "(" + arguments + ") -> (Tensor, Tensor)";
  const std::string backward =
      "(Tensor out_gradient, Tensor out, Tensor lse, int wanted, " + arguments + ") -> Tensor[]";
  // Twice the same: `attention` has an autograd formula for compiling and exporting; eager calls go
  // straight to `attention_forward` and bring their own.
  library.def(("attention" + forward).c_str());
  library.def(("attention_forward" + forward).c_str());
  library.def(("attention_backward" + backward).c_str());
  library.def(("decode(" + locant::python::decode_arguments() + ") -> (Tensor, Tensor)").c_str());
  library.def((std::string("cache_append(") + locant::python::kAppendArguments + ") -> ()").c_str());
  library.def("scheme_names() -> str[]");
  library.def("scheme_info(str specification, int[] sizes) -> str");
  library.def("scheme_lower(str specification, int[] call, Tensor[] parameters) -> Tensor[]");
  library.def(
      "scheme_embed(str specification, int[] sizes, Tensor positions, Tensor[] parameters) "
      "-> Tensor");
  library.def(
      "scheme_rotation(str specification, int head_size, int layer, SymInt length, int numbers) "
      "-> Tensor");
  library.def("instruction_set() -> str");
  library.def("instruction_set_problem() -> str");
}

STABLE_TORCH_LIBRARY_IMPL(locant, CPU, library) {
  library.impl("attention", locant::python::attention_forward);
  library.impl("attention_forward", locant::python::attention_forward);
  library.impl("attention_backward", locant::python::attention_backward);
  library.impl("decode", locant::python::decode);
  library.impl("cache_append", locant::python::cache_append);
}

STABLE_TORCH_LIBRARY_IMPL(locant, CompositeExplicitAutograd, library) {
  library.impl("scheme_names", TORCH_BOX(&locant::python::scheme_names));
  library.impl("scheme_info", TORCH_BOX(&locant::python::scheme_info));
  library.impl("scheme_lower", TORCH_BOX(&locant::python::scheme_lower));
  library.impl("scheme_embed", TORCH_BOX(&locant::python::scheme_embed));
  library.impl("scheme_rotation", TORCH_BOX(&locant::python::scheme_rotation));
  library.impl("instruction_set", TORCH_BOX(&instruction_set));
  library.impl("instruction_set_problem", TORCH_BOX(&instruction_set_problem));
}
