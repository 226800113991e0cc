#include "locant/position/nope.h"

namespace locant {

Description Nope::describe() const {
  return {.title = "NoPE, no positions",
          .paper = "Kazemnejad et al. 2023, arXiv 2305.19466",
          .acts = "nowhere",
          .where = "nowhere",
          .learns = "nothing",
          .cost = "none",
          .beyond = "defined; a language model's loss rises, about as much as with unscaled RoPE",
          .users = "some layers of SmolLM3 and Llama-4"};
}

// 1. nothing  2. nothing  3. nothing  4. nothing  5. nothing, no end

}  // namespace locant
