// locant show: one scheme's numbers, in the terminal and as pictures; two beside each other; one step of
// attention by hand; a sentence in another order.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/memory.h"
#include "locant/cli/output_path.h"
#include "locant/cli/say.h"
#include "locant/cli/whole.h"
#include "locant/position/registry.h"
#include "locant/study/json.h"
#include "locant/study/permuted_sentence.h"
#include "locant/study/scheme_view.h"
#include "locant/study/words.h"
#include "locant/study/worked_example.h"

namespace locant::cli {
namespace {

using study::SchemeView;

struct ShowArguments {
  std::string scheme, compare, svg, html, permute;
  study::ViewOptions view;
  std::vector<NamedPath> outputs;
  bool json = false, example = false;
};

void print_index(const char* title, const IndexMap& index, const SchemeView& shown) {
  const auto lines = study::index_lines(shown, index);
  fmt::print("{} (distance = key - query position)\n", title);
  constexpr size_t kShown = 48;
  for (size_t n = 0; n < lines.size(); ++n) {
    if (lines.size() > kShown && n == kShown / 2) {
      n = lines.size() - kShown / 2;
      fmt::print("{:>12}\n", "...");
    }
    fmt::print("{}\n", lines[n]);
  }
}

void print_matrix(const study::Matrix& m) {
  constexpr int64_t kMost = 16;
  const int64_t rows = std::min(m.rows, kMost), columns = std::min(m.columns, kMost);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const double v = m.values[static_cast<size_t>(i * m.columns + j)];
      fmt::print("{:>11}", std::isfinite(v) ? fmt::format("{:.4g}", v + 0.0) : ".");
    }
    fmt::print("{}\n", columns < m.columns ? " ..." : "");
  }
  if (rows < m.rows) fmt::print("      ... ({} x {} in all; --svg FILE draws it)\n", m.rows, m.columns);
}

void print_rotation(const Rotation& turn) {
  fmt::print("Turns the first {} channels of q and k, pairs {}{}\n", turn.width,
             turn.layout == Rotation::Layout::kInterleaved ? "(2t, 2t+1)" : "(t, t + width/2)",
             turn.magnitude == 1 ? "" : fmt::format(", times {:.6g}", turn.magnitude));
  fmt::print("{:>6} {:>16} {:>16}{}\n", "pair", "frequency", "wavelength", turn.log_growth.empty() ? "" : "   growth a position");
  for (size_t t = 0; t < turn.frequency.size(); ++t) {
    fmt::print("{:>6} {:>16.8g} {:>16.6g}", t, turn.frequency[t],
               turn.frequency[t] == 0 ? INFINITY : 2 * std::numbers::pi / turn.frequency[t]);
    if (!turn.log_growth.empty()) fmt::print("   {:.8g}", std::exp(turn.log_growth[t]));
    fmt::print("\n");
  }
}

void print_shown(const SchemeView& shown) {
  fmt::print("{}, length {}, {}, {}\n", shown.specification, shown.length, study::counted(shown.heads, "head"),
             shown.causal ? "causal" : "full attention");
  if (shown.learns) fmt::print("What it learns is shown as drawn at the start (seed 0).\n");
  const Terms<double>& terms = shown.terms;
  if (!shown.embedding.empty()) {
    fmt::print("\nAdded to embeddings, positions 0 to {} (first channels):\n", std::min<int64_t>(shown.length, 8) - 1);
    for (int64_t p = 0; p < std::min<int64_t>(shown.length, 8); ++p) {
      for (int64_t c = 0; c < std::min<int64_t>(shown.width, 8); ++c) {
        fmt::print("{:>10.6f}", shown.embedding[static_cast<size_t>(p * shown.width + c)]);
      }
      fmt::print("{}\n", shown.width > 8 ? " ..." : "");
    }
  }
  if (terms.rotation) {
    fmt::print("\n");
    print_rotation(*terms.rotation);
  }
  if (terms.scale_factor != 1) fmt::print("\nThe scale is multiplied by {:.6g}.\n", terms.scale_factor);
  if (const auto& t = terms.number) {
    fmt::print("\nA number by distance, {} the scale.\n", t->scaled ? "inside" : "outside");
    if (!t->left.empty()) {
      fmt::print("Slope to the left, per head:");
      for (double m : t->left) fmt::print(" {:.8g}", m);
      fmt::print("\n");
    }
    if (!t->right.empty() && !shown.causal) {
      fmt::print("Slope to the right, per head:");
      for (double m : t->right) fmt::print(" {:.8g}", m);
      fmt::print("\n");
    }
    if (t->index.rows.size() > 1) print_index("Index map", t->index, shown);
  }
  if (terms.query_rows) {
    fmt::print("\n");
    print_index("Rows a query meets", terms.query_rows->index, shown);
  }
  if (terms.key_rows) {
    fmt::print("\n");
    print_index("Rows a key meets", terms.key_rows->index, shown);
  }
  if (terms.value_rows) {
    fmt::print("\n");
    print_index("Rows added to values", terms.value_rows->index, shown);
  }
  fmt::print("\nHead 0, {}:\n", study::matrix_meaning(shown));
  print_matrix(study::matrix_of(shown, 0));
}

std::string list(const std::vector<double>& values) {
  std::vector<std::string> numbers;
  for (double v : values) numbers.push_back(std::isfinite(v) ? fmt::format("{}", v) : "null");
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string json_of(const SchemeView& shown) {
  study::JsonObject json;
  json.text("scheme", shown.specification).integer("length", shown.length).integer("heads", shown.heads);
  json.raw("causal", shown.causal ? "true" : "false").real("scale_factor", shown.terms.scale_factor);
  const int64_t reach = shown.length - 1;
  // Rows of the scheme's own table; -1: none.
  const auto add_index = [&](const char* name, const IndexMap& index) {
    std::vector<int64_t> rows;
    for (int64_t d = -reach; d <= (shown.causal ? 0 : reach); ++d) {
      rows.push_back(index(d) == kNoRow ? -1 : index(d) + index.first_row);
    }
    study::JsonObject one;
    one.integer("first_distance", -reach).raw("rows", fmt::format("[{}]", fmt::join(rows, ",")));
    json.raw(name, one.str());
  };
  if (!shown.embedding.empty()) {
    json.integer("width", shown.width).raw("embedding_rows", list(shown.embedding));
  }
  if (const auto& t = shown.terms.rotation) {
    json.text("layout", t->layout == Rotation::Layout::kInterleaved ? "interleaved" : "half_split");
    json.integer("rotary_width", t->width).raw("frequency", list(t->frequency)).real("magnitude", t->magnitude);
    json.raw("log_growth", list(t->log_growth));
  }
  if (const auto& t = shown.terms.number) {
    json.raw("scaled", t->scaled ? "true" : "false").raw("slope_left", list(t->left)).raw("slope_right", list(t->right));
    add_index("number_index", t->index);
  }
  if (const auto& t = shown.terms.query_rows) add_index("query_rows_index", t->index);
  if (const auto& t = shown.terms.key_rows) add_index("key_rows_index", t->index);
  if (const auto& t = shown.terms.value_rows) add_index("value_rows_index", t->index);
  json.text("matrix_meaning", study::matrix_meaning(shown));
  std::vector<std::string> heads;
  for (int64_t h = 0; h < shown.heads; ++h) heads.push_back(list(study::matrix_of(shown, h).values));
  json.raw("matrix", fmt::format("[{}]", fmt::join(heads, ",")));
  return json.str();
}

void print_beside(const std::vector<SchemeView>& views) {
  for (const SchemeView& view : views) {
    const Description& d = view.description;
    fmt::print("{}\n  acts on {}; learns {}; past the training length: {}\n", view.specification, d.acts, d.learns, d.beyond);
  }
  for (const SchemeView& view : views) fmt::print("\n{}, head 0: {}", view.name, study::matrix_meaning(view));
  fmt::print("\n\n{}", study::distances_beside(views));
}

void write_page(const std::string& path, const std::string& page) {
  write_atomically(path, page);
  say("Page: {}\n", path);
}

// A scheme's learned numbers at the sizes they are shown at.
void check_memory(const std::string& text, const study::ViewOptions& view) {
  const std::unique_ptr<Scheme> scheme = make_scheme(text);
  const int64_t width = view.heads * view.head_size;
  const int64_t numbers = parameter_count(*scheme, {1, view.heads, view.head_size, width, 0});
  require_memory("show", fmt::format("{} with its {} learned numbers", text, numbers), 8.0 * double(numbers));
}

int show_action(const ShowArguments& args) {
  check_outputs("show", args.outputs, {});
  for (const std::string& text : {args.scheme, args.compare}) {
    if (!text.empty()) check_memory(text, args.view);
  }
  const auto show_whole = [&](const auto& shown) {
    fmt::print("{}", study::text_of(shown));
    std::fflush(stdout);
    if (!args.html.empty()) write_page(args.html, study::page_of(shown));
    return kDone;
  };
  if (args.example) return show_whole(study::worked_example(args.scheme));
  if (!args.permute.empty()) return show_whole(study::permuted_sentence(args.scheme, args.permute));
  std::vector<SchemeView> views{study::view_scheme(args.scheme, args.view)};
  if (!args.compare.empty()) views.push_back(study::view_scheme(args.compare, args.view));
  if ((!args.svg.empty() || !args.html.empty()) && args.view.length > 256) {
    fail("show", "--svg and --html draw up to 256 positions, got ", args.view.length);
  }
  if (args.json) {
    for (const SchemeView& view : views) fmt::print("{}\n", json_of(view));
  } else if (views.size() > 1) {
    print_beside(views);
  } else {
    print_shown(views.front());
  }
  std::fflush(stdout);  // before words on standard error: both may go to one file
  if (!args.svg.empty()) {
    std::vector<study::Matrix> panels;
    const int64_t heads = std::min<int64_t>(args.view.heads, 16);
    // Two schemes: a row for each head, one scheme left, the other right.
    for (int64_t h = 0; h < heads; ++h) {
      for (const SchemeView& view : views) {
        panels.push_back(study::matrix_of(view, h));
        if (views.size() > 1) panels.back().title = view.name + ", " + panels.back().title;
      }
    }
    std::string caption = views.front().specification + ": " + study::matrix_meaning(views.front());
    if (views.size() > 1) caption = views[0].name + " and " + views[1].name + ", one scale";
    write_atomically(args.svg, study::heatmap_svg(panels, caption, views.size() > 1 ? 2 : 4));
    say("Picture: {}\n", args.svg);
  }
  if (!args.html.empty()) write_page(args.html, study::scheme_page(views));
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  auto args = std::make_shared<ShowArguments>();
  CLI::App* command = app.add_subcommand(
      "show", "Show one scheme: index map, slopes, frequencies, the matrix of what is added to scores; or one step "
              "of attention by hand.");
  command->add_option("scheme", args->scheme, "As in alibi or t5(buckets=32,max_distance=128)")->required();
  CLI::Option* length = add_whole(command, "--length", args->view.length, 1, 4096, "Positions 0 to N-1");
  CLI::Option* heads = add_whole(command, "--heads", args->view.heads, 1, 256, "")->capture_default_str();
  CLI::Option* head_size = add_whole(command, "--head-size", args->view.head_size, 1, 1024, "")->capture_default_str();
  CLI::Option* full = command->add_flag("--full", args->view.full, "Full attention, not causal");
  CLI::Option* fit = command->add_flag("--fit", args->view.fit, "Options you do not name as `compare` would fit them to --length");
  CLI::Option* compare = command->add_option("--compare", args->compare, "Another scheme, beside it");
  CLI::Option* svg = command->add_option("--svg", args->svg, "Draw the matrix of every head into this file");
  command->add_option("--html", args->html, "Make a page of it, with all pictures");
  CLI::Option* json = command->add_flag("--json", args->json, "Everything as one line of JSON");
  CLI::Option* example = command->add_flag("--example", args->example,
                                           "One small step of attention by hand: scores, what is added, weights, output");
  CLI::Option* permute = command->add_option("--permute", args->permute,
                                             "A sentence in another order, with and without positions and mask");
  for (CLI::Option* option : {example, permute}) {
    for (CLI::Option* other : {length, heads, head_size, full, fit, compare, svg, json}) option->excludes(other);
  }
  example->excludes(permute);
  command->footer("Examples:\n  locant show alibi --length 8 --heads 8\n"
                  "  locant show t5 --length 128 --full --svg t5.svg\n"
                  "  locant show t5 --compare alibi --length 64 --html both.html\n"
                  "  locant show alibi --example\n"
                  "  locant show nope --permute 'the dog bit the man'\n"
                  "  locant show 'rope(scaling=yarn,factor=4,original=64)' --length 256 --head-size 64");
  command->callback([args, command, length, example, permute, &action] {
    if (!length->count() && !example->count() && !permute->count()) {
      throw CLI::RequiredError(fmt::format("--length N is required (or --example, or --permute 'WORDS'), as in: "
                                           "locant show '{}' --length 16", args->scheme), CLI::ExitCodes::RequiredError);
    }
    if (permute->count() && args->permute.empty()) throw CLI::ValidationError("--permute", "is empty");
    args->outputs = paths_of(*command, {"--svg", "--html"});
    action = [args] { return show_action(*args); };
  });
}

}  // namespace locant::cli
