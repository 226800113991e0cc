// A term as a hook: what a hook does can then be compared with what the term does.
#pragma once

#include <memory>

#include "locant/position/tile_hook.h"
#include "tests/attention/engines.h"

namespace locant::test {

// A number per distance outside the scale, as a hook: then all there is of that term is the expectation.
class NumberHook final : public TileHook {
 public:
  explicit NumberHook(const NumberPerDistance<double>& number) : number_(number) {}
  using TileHook::add;
  using TileHook::add_backward;
  void add(const ScoreTile& tile, double* scores) const override {
    each(tile, [&](int64_t at, int64_t row) { scores[at] += *number_.table.row(tile.head, row); });
  }
  int64_t heads() const override { return number_.table.heads; }
  int64_t gradient_size() const override { return number_.table.rows; }
  void add_backward(const ScoreTile& tile, const double* gradient, double* sums) const override {
    each(tile, [&](int64_t at, int64_t row) { sums[row] += gradient[at]; });
  }

 private:
  template <class F>
  void each(const ScoreTile& tile, F f) const {
    for (int64_t i = 0; i < tile.queries; ++i) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        const int64_t d = int64_t(tile.k_positions[j]) - tile.q_positions[i];
        const int32_t row = number_.index(d);
        if (row != kNoRow) f(i * tile.row + j, row);
      }
    }
  }
  const NumberPerDistance<double> number_;
};

inline Call<double> with_hook(Call<double> call) {
  call.terms.hook = std::make_shared<NumberHook>(*call.terms.number);
  call.terms.number.reset();
  return call;
}
// And its gradient back in the table.
inline Results<double> as_number(const Call<double>& like, Results<double> results) {
  NumberPerDistance<double> number = *like.terms.number;
  number.table.data = results.dterms.hook_gradient;
  results.dterms.number = number;
  results.dterms.hook.reset();
  results.dterms.hook_gradient.clear();
  return results;
}

// A random call with such a number.
inline Call<double> number_call(uint64_t seed, unsigned terms, const oracle::ShapeLimits& limits) {
  Call<double> call = rounded(random_call(seed, terms | kNumber, limits));
  call.terms.number->scaled = false;
  call.terms.number->left.clear(), call.terms.number->right.clear();
  return call;
}

}  // namespace locant::test
