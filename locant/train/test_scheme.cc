#include "locant/train/test_scheme.h"

#include <algorithm>

#include "locant/base/check.h"
#include "locant/position/registry.h"

namespace locant::train {
namespace {

// "rows [4, 32] (one for all layers)"
std::string learned_text(const Scheme& scheme, const Sizes& sizes) {
  std::string text;
  for (const ParameterSpec& spec : scheme.learn(sizes)) {
    text += (text.empty() ? "" : ", ") + spec.name + " [";
    for (size_t d = 0; d < spec.shape.size(); ++d) {
      text += (d ? ", " : "") + std::to_string(spec.shape[d]);
    }
    text += spec.per_layer ? "] in each layer" : "]";
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

TestScheme::TestScheme(const Model& model, const std::string& specification, const char* operation)
    : scheme_(&model.scheme()) {
  if (specification.empty()) return;
  replacement_ = make_scheme(specification);
  scheme_ = replacement_.get();
  const ModelConfig& config = model.config();
  const std::string trained = learned_text(model.scheme(), config.sizes());
  const std::string wanted = learned_text(*replacement_, config.sizes());
  Check check(operation);
  check.require(trained == wanted, "scheme ", specification, " learns ", wanted,
                "; the model was trained with ", config.scheme, ", which learns ", trained);
  check.done();
}

}  // namespace locant::train

namespace locant {

Model stretched(const Model& model, int64_t length, const std::string& scheme) {
  const train::TestScheme checked(model, scheme, "stretch");
  ModelConfig config = model.config();
  config.length = length;
  config.scheme = scheme.empty() ? config.scheme : scheme;
  Model longer(config);
  std::copy_n(model.values(), model.layout().size(), longer.values());
  return longer;
}

}  // namespace locant
