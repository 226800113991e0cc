#include "locant/study/scheme_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "locant/base/check.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"
#include "locant/study/distance_view.h"
#include "locant/train/model.h"

namespace locant::study {

SchemeView view_scheme(const std::string& text, const ViewOptions& args) {
  if (args.length < 1 || args.length > 4096) fail("show", "--length must be 1 to 4096, got ", args.length);
  if (args.heads < 1 || args.heads > 256) fail("show", "--heads must be 1 to 256, got ", args.heads);
  if (args.head_size < 1 || args.head_size > 1024) {
    fail("show", "--head-size must be 1 to 1024, got ", args.head_size);
  }
  if (args.heads * args.head_size > 16384) {
    fail("show", "heads times head size must be at most 16384, got ", args.heads * args.head_size);
  }
  const std::unique_ptr<Scheme> scheme =
      args.fit ? make_fitted_scheme(text, args.length, ModelConfig().initial_deviation) : make_scheme(text);
  scheme->check();
  const Sizes sizes{1, args.heads, args.head_size, args.heads * args.head_size, 0};
  // What is learned, as a model would begin with it.
  const InitialParameters parameters(*scheme, sizes);
  SchemeView shown;
  shown.name = scheme->name();
  shown.specification = specification(*scheme);
  shown.description = scheme->describe();
  shown.length = args.length;
  shown.heads = args.heads;
  shown.causal = !args.full;
  shown.width = sizes.width;
  shown.learns = !parameters.empty();
  shown.terms = terms_of(*scheme, sizes, parameters, 0, shown.causal, shown.first_distance(), shown.last_distance());
  if (scheme->embeds()) {
    std::vector<int64_t> positions(static_cast<size_t>(args.length));
    std::iota(positions.begin(), positions.end(), 0);
    shown.embedding.resize(static_cast<size_t>(args.length * sizes.width));
    scheme->embed(positions.data(), args.length, sizes, parameters, shown.embedding.data());
  }
  return shown;
}

std::vector<std::string> index_lines(const SchemeView& view, const IndexMap& index) {
  std::vector<std::string> lines;
  const int64_t last = view.last_distance();
  for (int64_t begin = view.first_distance(); begin <= last;) {
    int64_t end = begin;
    while (end < last && index(end + 1) == index(begin)) ++end;
    const int32_t row = index(begin);
    const std::string where = begin == end ? fmt::format("{}", begin) : fmt::format("{}..{}", begin, end);
    lines.push_back(fmt::format("{:>12} -> {}", where, row == kNoRow ? "nothing" : fmt::format("row {}", row + index.first_row)));
    begin = end + 1;
  }
  return lines;
}

Matrix matrix_of(const SchemeView& shown, int64_t head) {
  Matrix m{fmt::format("head {}", head), shown.length, shown.length, {}};
  const auto& number = shown.terms.number;
  const auto& rows = shown.terms.query_rows ? shown.terms.query_rows : shown.terms.key_rows;
  for (int64_t i = 0; i < shown.length; ++i) {
    for (int64_t j = 0; j < shown.length; ++j) {
      double value = NAN;
      if (j <= i || !shown.causal) {
        value = 0;
        if (number) value = number_at(*number, head, j - i);
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

const char* matrix_meaning(const SchemeView& shown) {
  if (shown.terms.number || shown.terms.hook) return "added to scores";
  if (shown.terms.query_rows || shown.terms.key_rows) return "norm of the row that q or k meets";
  if (shown.terms.rotation && shown.terms.rotation->log_growth.empty()) {
    return "mean over the pairs of the cosine of their relative angle (nothing is added to scores)";
  }
  if (shown.terms.rotation) {
    return "mean over the pairs of the cosine of their relative angle, times xPos's factor (nothing is added to scores)";
  }
  return "nothing is added to scores";
}

std::string distances_beside(const std::vector<SchemeView>& views) {
  std::string text = fmt::format("{:>9}", "distance");
  int64_t first = 0, last = 0;
  for (const SchemeView& view : views) {
    text += fmt::format("  {:>16}", view.name.substr(0, 16));
    first = std::min(first, view.first_distance());
    last = std::max(last, view.last_distance());
  }
  text += "\n";
  std::vector<Matrix> matrices;
  for (const SchemeView& view : views) matrices.push_back(matrix_of(view, 0));
  constexpr int64_t kEach = 12;  // from both ends of what is long
  for (int64_t d = last; d >= first; --d) {
    if (last - first >= 2 * kEach && d == last - kEach) {
      text += fmt::format("{:>9}\n", "...");
      d = first + kEach;
    }
    text += fmt::format("{:>9}", d);
    for (size_t n = 0; n < views.size(); ++n) {
      // The last query for keys before it, the first for keys after it: hooks may look at places, too.
      const int64_t length = views[n].length, i = d <= 0 ? length - 1 : 0, j = i + d;
      const bool inside = j >= 0 && j < length;
      const double v = inside ? matrices[n].values[static_cast<size_t>(i * length + j)] : NAN;
      text += fmt::format("  {:>16}", std::isfinite(v) ? fmt::format("{:.6g}", v + 0.0) : ".");
    }
    text += "\n";
  }
  return text;
}

}  // namespace locant::study
