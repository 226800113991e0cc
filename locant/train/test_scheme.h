// The scheme a model is tested with: its own, or another scaling of it that learns the same arrays.
#pragma once

#include <memory>
#include <string>

#include "locant/train/model.h"

namespace locant::train {

class TestScheme {
 public:
  // specification empty: the model's own, which must then outlive this. Throws std::invalid_argument, as
  // `operation`, unless the scheme learns what the model has learned.
  TestScheme(const Model& model, const std::string& specification, const char* operation);
  const Scheme& get() const { return *scheme_; }

 private:
  std::unique_ptr<Scheme> replacement_;
  const Scheme* scheme_;
};

}  // namespace locant::train
