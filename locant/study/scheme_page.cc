// The page of `locant show --html`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "locant/study/distance_view.h"
#include "locant/study/figure.h"
#include "locant/study/report_page.h"
#include "locant/study/scheme_view.h"

namespace locant::study {
namespace {

std::string answers(const SchemeView& view) {
  const Description& d = view.description;
  std::string html = fmt::format("<p>{}. {}.</p><table class=\"claims\">", escaped(d.title), escaped(d.paper));
  for (const auto& [question, answer] : std::initializer_list<std::pair<const char*, std::string>>{
           {"acts on", d.acts}, {"where", d.where}, {"learns", d.learns}, {"cost", d.cost},
           {"past the training length", d.beyond}, {"used by", d.users}}) {
    html += fmt::format("<tr><th>{}</th><td>{}</td></tr>", question, escaped(answer));
  }
  return html + "</table>";
}

// What a turn does to a product of two equal pairs: the cosine of the angle between them.
Plot turning(const SchemeView& view) {
  const Rotation& turn = *view.terms.rotation;
  Plot plot;
  plot.x_label = "distance, key position minus query position";
  plot.y_label = "cosine of a pair's relative angle";
  plot.height = 360;
  const size_t pairs = turn.frequency.size(), step = std::max<size_t>(1, (pairs + 3) / 4);
  for (size_t t = 0; t < pairs; t += step) {
    Line line;
    line.title = fmt::format("pair {}", t);
    for (int64_t d = view.first_distance(); d <= view.last_distance(); ++d) {
      const double grown = turn.log_growth.empty() ? 1 : std::exp(-double(d) * turn.log_growth[t]);
      line.points.emplace_back(double(d), std::cos(double(d) * turn.frequency[t]) * grown);
    }
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

Plot rows_of_positions(const SchemeView& view) {
  Plot plot;
  plot.x_label = "position";
  plot.y_label = "added to a channel of the embedding";
  plot.height = 360;
  for (int64_t c = 0; c < std::min<int64_t>(view.width, 6); ++c) {
    Line line;
    line.title = fmt::format("channel {}", c);
    for (int64_t p = 0; p < view.length; ++p) {
      line.points.emplace_back(double(p), view.embedding[static_cast<size_t>(p * view.width + c)]);
    }
    plot.lines.push_back(std::move(line));
  }
  return plot;
}

bool equal(const Matrix& a, const Matrix& b) {
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

std::string column(const SchemeView& view, bool narrow) {
  std::string html;
  if (narrow) html += fmt::format("<h2>{}</h2>", escaped(view.name));
  if (view.specification != view.name) html += fmt::format("<p><code>{}</code></p>", escaped(view.specification));
  html += answers(view);
  if (view.learns) html += "<p>What it learns is shown as a model begins with it.</p>";
  if (!view.embedding.empty()) {
    html += figure(rows_of_positions(view), view.name + ": rows of positions, first channels", narrow);
  }
  if (view.terms.rotation) html += figure(turning(view), view.name + ": how pairs of channels turn", narrow);
  for (const LearnedTable& table :
       tables_by_distance(view.terms, "every layer", view.first_distance(), view.last_distance())) {
    html += figure(plot_of(table, 360), view.name + ", " + table.title, narrow);
  }
  std::vector<Matrix> panels;
  const bool same = equal(matrix_of(view, 0), matrix_of(view, view.heads - 1));
  for (int64_t h = 0; h < (same ? 1 : std::min<int64_t>(view.heads, 8)); ++h) panels.push_back(matrix_of(view, h));
  if (same) panels.front().title = "every head";
  return html + heatmap_figure(panels, view.name + ": " + matrix_meaning(view), narrow);
}

}  // namespace

std::string scheme_page(const std::vector<SchemeView>& views) {
  std::string names, columns;
  for (const SchemeView& view : views) {
    names += (names.empty() ? "" : " beside ") + view.name;
    columns += fmt::format("<section>{}</section>", column(view, views.size() > 1));
  }
  return page("Locant: " + names,
              fmt::format("<h1>{}</h1><p>Positions 0 to {}, {}.</p><div class=\"beside\">{}</div>", escaped(names),
                          views.front().length - 1, views.front().causal ? "causal" : "full attention", columns));
}

}  // namespace locant::study
