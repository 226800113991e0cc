// The pages of `locant show --example --html` and `--permute --html`: the words of text_of(), in tables.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "locant/study/permuted_sentence.h"
#include "locant/study/report_page.h"
#include "locant/study/worked_example.h"

namespace locant::study {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The first column names its row. What is too wide for a phone scrolls by itself.
std::string table(const std::vector<std::string>& header, const Rows& rows) {
  std::string html = "<div class=\"wide\" tabindex=\"0\"><table><thead><tr>";
  for (const std::string& cell : header) html += fmt::format("<th>{}</th>", escaped(cell));
  html += "</tr></thead><tbody>";
  for (const auto& row : rows) {
    html += "<tr>";
    for (size_t n = 0; n < row.size(); ++n) html += fmt::format("<{0}>{1}</{0}>", n == 0 ? "th" : "td", escaped(row[n]));
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

// Through the softmax's logarithm a zero may come back as a rounding.
std::string number(double x) { return fmt::format("{:.4f}", std::fabs(x) < 1e-12 ? 0 : x); }

}  // namespace

std::string page_of(const WorkedExample& e) {
  std::vector<std::string> header{"key at", "q.k"};
  if (e.embeds) header.insert(header.end(), {"q.position", "position.k", "position.position"});
  if (e.turns) header.push_back("turned");
  header.insert(header.end(), {"added", "score", "weight"});
  Rows keys;
  for (const ExampleKey& key : e.keys) {
    std::vector<std::string> row{std::to_string(key.position), number(key.content)};
    if (e.embeds) row.insert(row.end(), {number(key.products[1]), number(key.products[2]), number(key.products[3])});
    if (e.turns) row.push_back(number(key.turned));
    row.insert(row.end(), {number(key.added), number(key.score), number(key.weight)});
    keys.push_back(std::move(row));
  }
  std::vector<std::string> channels{""}, weighted{"weights times values"}, output{"output"};
  for (size_t n = 0; n < e.output.size(); ++n) {
    channels.push_back(fmt::format("channel {}", n));
    weighted.push_back(number(e.weighted[n]));
    output.push_back(number(e.output[n]));
  }
  std::string body = fmt::format("<h1>One step of attention</h1><p><code>{}</code>: {}</p>", escaped(e.specification),
                                 escaped(e.summary));
  body += "<h2>Scores and weights</h2>" + table(header, keys);
  body += "<h2>Output</h2>" + table(channels, {weighted, output});
  if (e.adds_to_values()) body += "<p>The difference is what the scheme adds to values.</p>";
  for (const std::string& note : e.notes) body += fmt::format("<p>{}</p>", escaped(note));
  if (!e.textbook.empty()) {
    body += "<h2>Textbook values, and what came out here</h2><ul>";
    for (const TextbookValue& value : e.textbook) {
      body += fmt::format("<li>{}: <strong>{:.6g}</strong></li>", escaped(value.statement), value.got + 0.0);
    }
    body += "</ul>";
  }
  return page("Locant: one step with " + e.specification, body);
}

std::string page_of(const PermutedSentence& r) {
  const std::string name = r.name();
  Rows rows;
  std::vector<std::string> header{"word", "places", "no positions, full attention", "no positions, causal mask"};
  if (name != "nope") header.insert(header.end(), {name + ", full attention", name + ", causal mask"});
  for (const PermutedWord& word : r.words) {
    std::vector<std::string> row{word.word, fmt::format("{} → {}", word.from, word.to)};
    for (size_t which = 0; row.size() < header.size(); ++which) row.push_back(change_text(word.change[which]));
    rows.push_back(std::move(row));
  }
  std::string body = fmt::format("<h1>The same words in another order</h1><p>“{}”<br>“{}”</p>", escaped(r.first), escaped(r.second));
  body += "<p>How far each word's output changes (its largest channel):</p>";
  body += table(header, rows);
  for (const std::string& sentence : conclusions(r)) body += fmt::format("<p>{}</p>", escaped(sentence));
  return page("Locant: a sentence in another order, " + r.specification, body);
}

}  // namespace locant::study
