// The list of schemes: one line each, in the order in which they are shown.
#include "locant/position/registry.h"

#include "locant/base/check.h"
#include "locant/position/alibi.h"
#include "locant/position/deberta.h"
#include "locant/position/fire.h"
#include "locant/position/kerple.h"
#include "locant/position/learned.h"
#include "locant/position/mpnet.h"
#include "locant/position/music_transformer.h"
#include "locant/position/nope.h"
#include "locant/position/rope.h"
#include "locant/position/sandwich.h"
#include "locant/position/scalar_table.h"
#include "locant/position/shaw.h"
#include "locant/position/sinusoidal.h"
#include "locant/position/t5.h"
#include "locant/position/transformer_xl.h"
#include "locant/position/xpos.h"

namespace locant {
namespace {

struct Entry {
  std::string name;
  SchemeFactory factory;
};

template <class SchemeType>
Entry built_in(std::string name) {
  return {std::move(name), [] { return std::make_unique<SchemeType>(); }};
}

std::vector<Entry>& entries() {
  static std::vector<Entry> list{
      built_in<Sinusoidal>("sinusoidal"),
      built_in<Learned>("learned"),
      built_in<Nope>("nope"),
      built_in<Shaw>("shaw"),
      built_in<MusicTransformer>("music_transformer"),
      built_in<TransformerXl>("transformer_xl"),
      built_in<T5>("t5"),
      built_in<Mpnet>("mpnet"),
      built_in<ScalarTable>("scalar_table"),
      built_in<Deberta>("deberta"),
      built_in<Rope>("rope"),
      built_in<Xpos>("xpos"),
      built_in<Alibi>("alibi"),
      built_in<Kerple>("kerple"),
      built_in<Fire>("fire"),
      built_in<Sandwich>("sandwich"),
  };
  return list;
}

const Entry* find(std::string_view name) {
  for (const Entry& entry : entries()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

// With the options that are named, not yet checked against each other.
std::unique_ptr<Scheme> unchecked(const ParsedSpecification& parsed) {
  auto scheme = make_default_scheme(parsed.name);
  if (!scheme) {
    std::string known;
    for (const Entry& entry : entries()) known += (known.empty() ? "" : ", ") + entry.name;
    fail("scheme", "there is no scheme '", parsed.name, "'; there are: ", known);
  }
  set_options(*scheme, parsed.options);
  return scheme;
}

}  // namespace

void register_scheme(std::string name, SchemeFactory factory) {
  if (!factory) fail("register_scheme", "the factory of '", name, "' is empty");
  if (find(name)) fail("register_scheme", "the name '", name, "' is taken");
  const ParsedSpecification parsed = parse_specification(name);
  const auto scheme = factory();
  if (!scheme || scheme->name() != name || parsed.name != name) {
    fail("register_scheme", "'", name, "' must be the name() of what its factory makes, got '",
         scheme ? scheme->name() : "nothing", "'");
  }
  entries().push_back({std::move(name), std::move(factory)});
}

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Scheme> make_default_scheme(std::string_view name) {
  const Entry* entry = find(name);
  return entry ? entry->factory() : nullptr;
}

std::unique_ptr<Scheme> make_scheme(std::string_view specification) {
  auto scheme = unchecked(parse_specification(specification));
  scheme->check();
  return scheme;
}

std::unique_ptr<Scheme> make_fitted_scheme(std::string_view specification, int64_t train_length,
                                           double embedding_deviation) {
  const ParsedSpecification parsed = parse_specification(specification);
  auto scheme = unchecked(parsed);
  Fitting to{train_length, embedding_deviation};
  for (const auto& [option, value] : parsed.options) to.given.push_back(option);
  scheme->fit(to);
  set_options(*scheme, parsed.options);  // a scheme from outside may fit all it has
  return scheme;
}

}  // namespace locant
