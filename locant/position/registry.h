// Names to schemes: for the command line, checkpoints and records, nothing else.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "locant/position/scheme.h"

namespace locant {

using SchemeFactory = std::function<std::unique_ptr<Scheme>()>;

// Adds a scheme from outside the library; throws std::invalid_argument if the name is taken.
// Call it before main's work begins; not thread-safe against other calls here.
void register_scheme(std::string name, SchemeFactory factory);
template <class SchemeType>
void register_scheme() {
  register_scheme(SchemeType().name(), [] { return std::make_unique<SchemeType>(); });
}

// In the order of registration: the built-in ones first.
std::vector<std::string> scheme_names();

// From "alibi" or "t5(buckets=32,max_distance=128)". An unknown name, option or value throws
// std::invalid_argument, which says what exists.
std::unique_ptr<Scheme> make_scheme(std::string_view specification);

// The same, with the options that are not named fitted to those that are and to a training length; not
// checked against each other yet (Scheme::check).
std::unique_ptr<Scheme> make_fitted_scheme(std::string_view specification, int64_t train_length,
                                           double embedding_deviation);

// A scheme with its default options; null if there is none of that name.
std::unique_ptr<Scheme> make_default_scheme(std::string_view name);

}  // namespace locant
