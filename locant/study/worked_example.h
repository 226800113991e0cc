// One small attention step, number by number: a query, a few keys, what the scheme does to each score,
// the weights and the output. Every number comes out of the attention itself.
//
// Schemes with a textbook value show that very step (ALiBi: 10 - 0.5 x 6 = 7); the others, and schemes
// with options of your own, show four tokens in a row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace locant::study {

struct ExampleKey {
  int64_t position = 0;
  double content = 0;  // q.k times the scale
  double turned = 0;   // the same after the rotation of both
  double added = 0;    // what else the scheme adds
  double score = 0, weight = 0;
  // Schemes that add to embeddings: content and position of the query times those of the key.
  double products[4] = {0, 0, 0, 0};  // content content, content position, position content, position position
};

// A statement of a textbook, its number, and the one that came out here.
struct TextbookValue {
  std::string statement;
  double expected = 0, got = 0;
};

struct WorkedExample {
  std::string specification, summary;  // "one query at position 6, ..."
  bool embeds = false, turns = false;
  std::vector<ExampleKey> keys;
  std::vector<double> weighted;  // sum of weight times value
  std::vector<double> output;    // of the attention; differs where the scheme adds to values
  std::vector<TextbookValue> textbook;
  std::vector<std::string> notes;

  bool adds_to_values() const;  // output and weighted differ
};

// Throws std::invalid_argument for what is no scheme.
WorkedExample worked_example(const std::string& specification);

std::string text_of(const WorkedExample& example);
std::string page_of(const WorkedExample& example);  // HTML

}  // namespace locant::study
