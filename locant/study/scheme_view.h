// One scheme at one length, ready to be shown: what it adds, turns and looks up, for a model of a given shape
// with what it learns as a model would begin with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/position/scheme.h"
#include "locant/study/heatmap.h"

namespace locant::study {

struct ViewOptions {
  int64_t length = 0, heads = 4, head_size = 8;
  bool full = false;  // full attention, not causal
  bool fit = false;   // options not named as a comparison fits them to the length
};

struct SchemeView {
  std::string name, specification;
  Description description;
  int64_t length = 0, heads = 0;
  bool causal = true, learns = false;
  Terms<double> terms;
  std::vector<double> embedding;  // [length][width] or empty
  int64_t width = 0;

  int64_t first_distance() const { return -(length - 1); }
  int64_t last_distance() const { return causal ? 0 : length - 1; }
};

// Throws std::invalid_argument for what is no scheme, or sizes out of range.
SchemeView view_scheme(const std::string& specification, const ViewOptions& options);

// What matrix_meaning() says, for every pair; not finite where the mask is.
Matrix matrix_of(const SchemeView& view, int64_t head);
const char* matrix_meaning(const SchemeView& view);

// Distances that share a row, "-64..-46 -> row 13"; rows as the scheme's own table has them.
std::vector<std::string> index_lines(const SchemeView& view, const IndexMap& index);

// By distance, head 0: what each of the views adds to a score (matrix_meaning), as lines of a table.
std::string distances_beside(const std::vector<SchemeView>& views);

// A page of one scheme, or of several beside each other: its five answers, lines by distance, the matrix.
std::string scheme_page(const std::vector<SchemeView>& views);

}  // namespace locant::study
