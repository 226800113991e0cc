// locant schemes: what there is, and how each answers.
#include <fmt/format.h>

#include "locant/base/check.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/whole.h"
#include "locant/position/registry.h"
#include "locant/study/json.h"
#include "locant/study/words.h"

namespace locant::cli {
namespace {

struct SchemesArguments {
  std::string name;
  Sizes sizes{4, 4, 32, 128, 0};
  bool json = false;
};

std::string json_of(Scheme& scheme, const Sizes& sizes) {
  const Description d = scheme.describe();
  study::JsonObject json;
  json.text("name", scheme.name()).text("title", d.title).text("paper", d.paper).text("acts", d.acts);
  json.text("where", d.where).text("learns", d.learns).text("cost", d.cost).text("beyond", d.beyond);
  json.text("users", d.users).integer("position_parameters", parameter_count(scheme, sizes));
  std::vector<std::string> options;
  for (const OptionHelp& option : explain_options(scheme)) {
    study::JsonObject one;
    one.text("name", option.name).text("value", option.value).text("allowed", option.allowed);
    one.text("meaning", option.meaning);
    options.push_back(one.str());
  }
  json.raw("options", fmt::format("[{}]", fmt::join(options, ",")));
  return json.str();
}

void print_scheme(Scheme& scheme, const Sizes& sizes, bool options) {
  const Description d = scheme.describe();
  fmt::print("{}: {} ({})\n", scheme.name(), d.title, d.paper);
  const auto line = [](const char* label, const std::string& text) {
    fmt::print("  {:<20} {}\n", label, text);
  };
  line("acts on", d.acts);
  line("in", d.where);
  line("learns", d.learns);
  line("position parameters", std::to_string(parameter_count(scheme, sizes)));
  line("cost", d.cost);
  line("past the length", d.beyond);
  line("used by", d.users);
  const std::vector<OptionHelp> list = explain_options(scheme);
  if (!options && !list.empty()) {
    std::vector<std::string> names;
    for (const OptionHelp& option : list) names.push_back(option.name);
    line("options", fmt::format("{}", fmt::join(names, ", ")));
  }
  if (options) {
    fmt::print("  options{}\n", list.empty() ? ": none" : ", with defaults");
    for (const OptionHelp& option : list) {
      fmt::print("    {:<24} {}  [{}]\n", option.name + "=" + option.value, option.meaning, option.allowed);
    }
  }
}

int schemes_action(const SchemesArguments& args) {
  Sizes sizes = args.sizes;
  if (sizes.width % sizes.heads != 0) {
    fail("schemes", "--heads must divide --width, got ", sizes.heads, " heads and width ", sizes.width);
  }
  sizes.head_size = sizes.width / sizes.heads;
  std::vector<std::string> names = scheme_names();
  if (!args.name.empty()) names = {args.name};
  std::vector<std::unique_ptr<Scheme>> schemes;
  for (const std::string& name : names) schemes.push_back(make_scheme(name));
  if (!args.json) {
    fmt::print("Position parameters are counted for {}, {}, width {}.\n\n", study::counted(sizes.layers, "layer"),
               study::counted(sizes.heads, "head"), sizes.width);
  }
  for (const std::unique_ptr<Scheme>& scheme : schemes) {
    if (args.json) {
      fmt::print("{}\n", json_of(*scheme, sizes));
    } else {
      print_scheme(*scheme, sizes, !args.name.empty());
      fmt::print("\n");
    }
  }
  if (!args.json && args.name.empty()) fmt::print("`locant schemes NAME` explains the options of one.\n");
  return kDone;
}

}  // namespace

void add_schemes(CLI::App& app, Action& action) {
  auto args = std::make_shared<SchemesArguments>();
  CLI::App* command = app.add_subcommand(
      "schemes", "List every scheme: where it acts, what it learns and costs, what happens past the training length.");
  command->add_option("name", args->name, "Only this one, with its options explained; options may be given");
  add_whole(command, "--layers", args->sizes.layers, 1, 1024, "Count parameters for this many layers")
      ->capture_default_str();
  add_whole(command, "--heads", args->sizes.heads, 1, 4096, "Divides the width")->capture_default_str();
  add_whole(command, "--width", args->sizes.width, 1, 65536, "")->capture_default_str();
  command->add_flag("--json", args->json, "A line of JSON for each");
  command->footer("Examples:\n  locant schemes\n  locant schemes 't5(buckets=64)' --layers 12 --heads 12 --width 768");
  command->callback([args, &action] { action = [args] { return schemes_action(*args); }; });
}

}  // namespace locant::cli
