// locant show: one scheme's numbers, in the terminal and as a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"
#include "locant/cli/cli.h"
#include "locant/cli/command.h"
#include "locant/cli/say.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"
#include "locant/study/distance_view.h"
#include "locant/study/heatmap.h"
#include "locant/study/json.h"

namespace locant::cli {
namespace {

struct ShowArguments {
  std::string scheme, svg;
  int64_t length = 0, heads = 4, head_size = 8;
  bool full = false, fit = false, json = false;
};

// Everything there is to show about one scheme at one length.
struct Shown {
  std::string specification;
  int64_t length = 0, heads = 0;
  bool causal = true, learns = false;
  Terms<double> terms;
  std::vector<double> embedding;  // [length][width] or empty
  int64_t width = 0;
};

Shown examine(const ShowArguments& args) {
  if (args.length < 1 || args.length > 4096) fail("show", "--length must be 1 to 4096, got ", args.length);
  if (args.heads < 1 || args.heads > 256) fail("show", "--heads must be 1 to 256, got ", args.heads);
  if (args.head_size < 1 || args.head_size > 1024) {
    fail("show", "--head-size must be 1 to 1024, got ", args.head_size);
  }
  if (args.heads * args.head_size > 16384) {
    fail("show", "heads times head size must be at most 16384, got ", args.heads * args.head_size);
  }
  const ParsedSpecification parsed = parse_specification(args.scheme);
  std::unique_ptr<Scheme> scheme = make_scheme(parsed.name);
  if (args.fit) scheme->fit(args.length, ModelConfig().initial_deviation);
  set_options(*scheme, parsed.options);

  scheme->check();
  const Sizes sizes{1, args.heads, args.head_size, args.heads * args.head_size, 0};
  // What is learned, as a model would begin with it.
  const InitialParameters parameters(*scheme, sizes);
  Shown shown;
  shown.specification = specification(*scheme);
  shown.length = args.length;
  shown.heads = args.heads;
  shown.causal = !args.full;
  shown.width = sizes.width;
  shown.learns = !parameters.empty();
  const int64_t reach = args.length - 1;
  shown.terms = study::terms_of(*scheme, sizes, parameters, 0, shown.causal, -reach, shown.causal ? 0 : reach);
  if (scheme->embeds()) {
    std::vector<int64_t> positions(static_cast<size_t>(args.length));
    std::iota(positions.begin(), positions.end(), 0);
    shown.embedding.resize(static_cast<size_t>(args.length * sizes.width));
    scheme->embed(positions.data(), args.length, sizes, parameters, shown.embedding.data());
  }
  return shown;
}

// "-64..-46 -> row 13" for every run of distances with one row.
std::vector<std::string> index_lines(const IndexMap& index, int64_t first, int64_t last) {
  std::vector<std::string> lines;
  for (int64_t begin = first; begin <= last;) {
    int64_t end = begin;
    while (end < last && index(end + 1) == index(begin)) ++end;
    const int32_t row = index(begin);
    const std::string where = begin == end ? fmt::format("{}", begin) : fmt::format("{}..{}", begin, end);
    lines.push_back(fmt::format("{:>12} -> {}", where, row == kNoRow ? "nothing" : fmt::format("row {}", row)));
    begin = end + 1;
  }
  return lines;
}

void print_index(const char* title, const IndexMap& index, const Shown& shown) {
  const int64_t reach = shown.length - 1;
  const auto lines = index_lines(index, -reach, shown.causal ? 0 : reach);
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

study::Matrix matrix_of(const Shown& shown, int64_t head) {
  study::Matrix m{fmt::format("head {}", head), shown.length, shown.length, {}};
  const auto& number = shown.terms.number;
  const auto& rows = shown.terms.query_rows ? shown.terms.query_rows : shown.terms.key_rows;
  for (int64_t i = 0; i < shown.length; ++i) {
    for (int64_t j = 0; j < shown.length; ++j) {
      double value = NAN;
      if (j <= i || !shown.causal) {
        value = 0;
        if (number) value = study::number_at(*number, head, j - i);
        if (shown.terms.hook) {
          const auto query = static_cast<int32_t>(i), key = static_cast<int32_t>(j);
          shown.terms.hook->add({0, head, i, j, 1, 1, &query, &key, 1}, &value);
        }
        // Rows meet a query or key that is not known here: their norm shows where they differ.
        if (!number && rows) {
          const int32_t r = rows->index(j - i);
          const double* row = r == kNoRow ? nullptr : rows->rows.row(head, r);
          for (int64_t c = 0; row && c < rows->rows.width; ++c) value += row[c] * row[c];
          value = std::sqrt(value);
        }
        if (!number && !rows && shown.terms.rotation) {
          const Rotation& turn = *shown.terms.rotation;
          for (size_t t = 0; t < turn.frequency.size(); ++t) {
            // xPos: the pair's factor, growth to the power of the query's distance from the key.
            const double factor = turn.log_growth.empty() ? 1 : std::exp(double(i - j) * turn.log_growth[t]);
            value += std::cos(double(j - i) * turn.frequency[t]) * factor;
          }
          value /= std::max<double>(1, double(turn.frequency.size()));
        }
      }
      m.values.push_back(value);
    }
  }
  return m;
}

const char* matrix_meaning(const Shown& shown) {
  if (shown.terms.number || shown.terms.hook) return "added to scores";
  if (shown.terms.query_rows || shown.terms.key_rows) return "norm of the row that q or k meets";
  if (shown.terms.rotation) return "mean over the pairs of the cosine of their relative angle, times xPos's factor (nothing is added to scores)";
  return "nothing is added to scores";
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

void print_shown(const Shown& shown) {
  fmt::print("{}, length {}, {} heads, {}\n", shown.specification, shown.length, shown.heads,
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
  fmt::print("\nHead 0, {}:\n", matrix_meaning(shown));
  print_matrix(matrix_of(shown, 0));
}

std::string list(const std::vector<double>& values) {
  std::vector<std::string> numbers;
  for (double v : values) numbers.push_back(std::isfinite(v) ? fmt::format("{}", v) : "null");
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::string json_of(const Shown& shown) {
  study::JsonObject json;
  json.text("scheme", shown.specification).integer("length", shown.length).integer("heads", shown.heads);
  json.raw("causal", shown.causal ? "true" : "false").real("scale_factor", shown.terms.scale_factor);
  const int64_t reach = shown.length - 1;
  const auto add_index = [&](const char* name, const IndexMap& index) {
    std::vector<int32_t> rows;
    for (int64_t d = -reach; d <= (shown.causal ? 0 : reach); ++d) rows.push_back(index(d));
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
  json.text("matrix_meaning", matrix_meaning(shown));
  std::vector<std::string> heads;
  for (int64_t h = 0; h < shown.heads; ++h) heads.push_back(list(matrix_of(shown, h).values));
  json.raw("matrix", fmt::format("[{}]", fmt::join(heads, ",")));
  return json.str();
}

int show_action(const ShowArguments& args) {
  const Shown shown = examine(args);
  if (args.json) {
    fmt::print("{}\n", json_of(shown));
  } else {
    print_shown(shown);
  }
  if (!args.svg.empty()) {
    if (args.length > 256) fail("show", "--svg draws up to 256 positions, got ", args.length);
    std::vector<study::Matrix> panels;
    for (int64_t h = 0; h < std::min<int64_t>(shown.heads, 16); ++h) panels.push_back(matrix_of(shown, h));
    write_atomically(args.svg, study::heatmap_svg(panels, shown.specification + ": " + matrix_meaning(shown)));
    say("Picture: {}\n", args.svg);
  }
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  auto args = std::make_shared<ShowArguments>();
  CLI::App* command = app.add_subcommand(
      "show", "Show one scheme: index map, slopes, frequencies, the matrix of what is added to scores.");
  command->add_option("scheme", args->scheme, "As in alibi or t5(buckets=32,max_distance=128)")->required();
  command->add_option("--length", args->length, "Positions 0 to N-1")->required();
  command->add_option("--heads", args->heads)->capture_default_str();
  command->add_option("--head-size", args->head_size)->capture_default_str();
  command->add_flag("--full", args->full, "Full attention, not causal");
  command->add_flag("--fit", args->fit, "Options you do not name as `compare` would fit them to --length");
  command->add_option("--svg", args->svg, "Draw the matrix of every head into this file");
  command->add_flag("--json", args->json, "Everything as one line of JSON");
  command->footer("Examples:\n  locant show alibi --length 8 --heads 8\n"
                  "  locant show t5 --length 128 --full --svg t5.svg\n"
                  "  locant show 'rope(scaling=yarn,factor=4,original=64)' --length 256 --head-size 64");
  command->callback([args, &action] { action = [args] { return show_action(*args); }; });
}

}  // namespace locant::cli
