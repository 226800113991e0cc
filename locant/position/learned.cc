#include "locant/position/learned.h"

#include "locant/base/check.h"

namespace locant {
namespace {
constexpr const char* kTable = "position_embeddings.weight";  // GPT-2 calls it wpe.weight
}

Description Learned::describe() const {
  return {.title = "Learned absolute positions",
          .paper = "Devlin et al. 2018, arXiv 1810.04805",
          .acts = "embeddings",
          .where = "once, before the first layer",
          .learns = "one row for each position",
          .cost = "none in attention",
          .beyond = "no rows: an error, or the last row again (if asked, and in studies, which mark it)",
          .users = "BERT, GPT-2, RoBERTa, OPT"};
}

void Learned::options(OptionVisitor& visit) {
  visit.integer("rows", rows, 1, int64_t{1} << 31, "rows of the table");
  visit.integer("first_row", first_row, 0, int64_t{1} << 31,
                "row of position 0; 2 in RoBERTa and OPT");
  visit.word("beyond", beyond, {"error", "repeat"},
             "past the table: an error, or the last row again");
  visit.real("deviation", deviation, 0, 10, "standard deviation of the initial rows");
}

void Learned::check() const {
  if (first_row >= rows) {
    fail(name(), "first_row must be less than rows, got ", first_row, " of ", rows);
  }
}

void Learned::fit(const Fitting& to) {
  if (to.free("rows")) rows = first_row + to.train_length;
}

int64_t Learned::row_of(int64_t position) const {
  const int64_t end = table_length();
  if (position < 0) fail(name(), "positions must be 0 or more, got ", position);
  if (position < end) return first_row + position;
  if (beyond == Beyond::kRepeat) return rows - 1;
  fail(name(), "position ", position, " needs length ", position + 1, ", the table has rows for ",
       end, "; longer texts need another scheme, or beyond=repeat");
}

// 1.
void Learned::embed(const int64_t* positions, int64_t n, const Sizes& sizes,
                    const Parameters& parameters, double* out) const {
  const double* table = parameters[kTable];
  for (int64_t r = 0; r < n; ++r) {
    const double* row = table + row_of(positions[r]) * sizes.width;
    for (int64_t c = 0; c < sizes.width; ++c) out[r * sizes.width + c] += row[c];
  }
}

void Learned::embed_backward(const int64_t* positions, int64_t n, const Sizes& sizes,
                             const double* rows_gradient, ParameterGradients& gradients) const {
  double* table = gradients[kTable];
  for (int64_t r = 0; r < n; ++r) {
    double* row = table + row_of(positions[r]) * sizes.width;
    for (int64_t c = 0; c < sizes.width; ++c) row[c] += rows_gradient[r * sizes.width + c];
  }
}

// 2. nothing  3. nothing  4. nothing

// 5.
std::vector<ParameterSpec> Learned::learn(const Sizes& sizes) const {
  return {{.name = kTable,
           .shape = {rows, sizes.width},
           .init = ParameterSpec::Init::kNormal,
           .scale = deviation}};
}

}  // namespace locant
