#include "locant/study/distance_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "locant/train/positions.h"

namespace locant::study {
namespace {

double norm(const double* row, int64_t width) {
  return std::sqrt(std::inner_product(row, row + width, row, 0.0));
}

LearnedTable rows_by_distance(const std::string& title, const IndexMap& index,
                              const Table<double>& rows, int64_t first, int64_t last) {
  LearnedTable out{title, {}, std::vector<std::vector<double>>(static_cast<size_t>(rows.heads))};
  for (int64_t d = first; d <= last; ++d) {
    out.distances.push_back(d);
    const int32_t r = index(d);
    for (int64_t h = 0; h < rows.heads; ++h) {
      out.heads[static_cast<size_t>(h)].push_back(r == kNoRow ? 0 : norm(rows.row(h, r), rows.width));
    }
  }
  return out;
}

// What a hook adds when the query stands at the end of the distances.
LearnedTable hook_by_distance(const TileHook& hook, const std::string& where, int64_t first,
                              int64_t last) {
  LearnedTable out{where + ": added to scores of the last query", {},
                   std::vector<std::vector<double>>(static_cast<size_t>(hook.heads()))};
  const auto query = static_cast<int32_t>(-std::min<int64_t>(first, 0));
  for (int64_t d = first; d <= last; ++d) {
    out.distances.push_back(d);
    const auto key = static_cast<int32_t>(query + d);
    for (int64_t h = 0; h < hook.heads(); ++h) {
      double number = 0;
      hook.add({0, h, query, key, 1, 1, &query, &key, 1}, &number);
      out.heads[static_cast<size_t>(h)].push_back(number);
    }
  }
  return out;
}

train::PositionParameters parameters_of(const Model& model) {
  train::PositionParameters parameters(model.scheme(), model.config().sizes());
  parameters.read(model.layout(), model.values());
  return parameters;
}

LearnedTable embedding_likeness(const Model& model) {
  const Sizes sizes = model.config().sizes();
  const int64_t n = model.config().length;
  const int64_t end = model.scheme().table_length() < 0 ? n : std::min(n, model.scheme().table_length());
  std::vector<int64_t> positions(static_cast<size_t>(end));
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<double> rows(static_cast<size_t>(end * sizes.width));
  const train::PositionParameters parameters = parameters_of(model);
  model.scheme().embed(positions.data(), end, sizes, parameters.views(0), rows.data());
  LearnedTable out{"likeness of two positions' rows (cosine)", {}, {{}}};
  for (int64_t d = -(end - 1); d <= 0; ++d) {
    double sum = 0;
    for (int64_t p = -d; p < end; ++p) {
      const double* a = &rows[static_cast<size_t>(p * sizes.width)];
      const double* b = &rows[static_cast<size_t>((p + d) * sizes.width)];
      sum += std::inner_product(a, a + sizes.width, b, 0.0) /
             std::max(1e-30, norm(a, sizes.width) * norm(b, sizes.width));
    }
    out.distances.push_back(d);
    out.heads[0].push_back(sum / double(end + d));
  }
  return out;
}

}  // namespace

Terms<double> terms_of(const Scheme& scheme, const Sizes& sizes, const Parameters& parameters,
                       int64_t layer, bool causal, int64_t first_distance, int64_t last_distance) {
  Call call;
  call.sizes = sizes;
  call.layer = static_cast<int>(layer);
  call.causal = causal;
  call.first_distance = first_distance;
  call.last_distance = last_distance;
  call.length = std::max(-first_distance, last_distance) + 1;
  return lower(scheme, call, parameters);
}

double number_at(const NumberPerDistance<double>& term, int64_t head, int64_t distance) {
  const int32_t r = term.index(distance);
  double value = r == kNoRow ? 0 : *term.table.row(head, r);
  const auto h = static_cast<size_t>(term.table.heads == 1 ? 0 : head);
  const int64_t before = term.index.first - distance, after = distance - term.index.last();
  if (before > 0 && !term.left.empty()) value += term.left[h] * double(before);
  if (after > 0 && !term.right.empty()) value += term.right[h] * double(after);
  return value;
}

std::vector<LearnedTable> tables_by_distance(const Terms<double>& terms, const std::string& where,
                                             int64_t first, int64_t last) {
  std::vector<LearnedTable> tables;
  if (const auto& t = terms.number) {
    LearnedTable out{where + ": added to scores", {},
                     std::vector<std::vector<double>>(static_cast<size_t>(t->table.heads))};
    for (int64_t d = first; d <= last; ++d) {
      out.distances.push_back(d);
      for (int64_t h = 0; h < t->table.heads; ++h) {
        out.heads[static_cast<size_t>(h)].push_back(number_at(*t, h, d));
      }
    }
    tables.push_back(std::move(out));
  }
  if (terms.hook && terms.hook->gradient_size() > 0) {
    tables.push_back(hook_by_distance(*terms.hook, where, first, last));
  }
  if (const auto& t = terms.query_rows) {
    tables.push_back(rows_by_distance(where + ": norm of the row a query meets", t->index, t->rows, first, last));
  }
  if (const auto& t = terms.key_rows) {
    tables.push_back(rows_by_distance(where + ": norm of the row a key meets", t->index, t->rows, first, last));
  }
  if (const auto& t = terms.value_rows) {
    tables.push_back(rows_by_distance(where + ": norm of the row added to values", t->index, t->rows, first, last));
  }
  return tables;
}

Plot plot_of(const LearnedTable& table, int height) {
  Plot plot;
  plot.x_label = "distance, key position minus query position";
  plot.y_label = table.title;
  plot.height = height;
  for (size_t h = 0; h < table.heads.size(); ++h) {
    Line line;
    line.title = table.heads.size() == 1 ? "all heads" : fmt::format("head {}", h);
    for (size_t n = 0; n < table.distances.size(); ++n) {
      line.points.emplace_back(double(table.distances[n]), table.heads[h][n]);
    }
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

std::vector<LearnedTable> learned_tables(const Model& model, int64_t longest) {
  const Scheme& scheme = model.scheme();
  std::vector<LearnedTable> tables;
  if (scheme.learn(model.config().sizes()).empty()) return tables;
  if (scheme.embeds()) tables.push_back(embedding_likeness(model));
  const train::PositionParameters parameters = parameters_of(model);
  const bool same = scheme.same_in_every_layer();
  const int64_t layers = same ? 1 : model.config().layers;
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string where = same ? "every layer" : fmt::format("layer {}", layer);
    const Terms<double> terms = terms_of(scheme, model.config().sizes(), parameters.views(layer),
                                         layer, true, -(longest - 1), 0);
    for (LearnedTable& table : tables_by_distance(terms, where, -(longest - 1), 0)) {
      tables.push_back(std::move(table));
    }
  }
  return tables;
}

}  // namespace locant::study
