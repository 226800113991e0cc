// What a tile hook costs, with little to calculate: ALiBi's penalty for keys to the left, its slopes
// learned, as a hook. The same as a number per distance costs next to nothing.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "locant/position/terms.h"

namespace locant::measure {

class PenaltyHook final : public TileHook {
 public:
  explicit PenaltyHook(std::vector<double> slopes) : slopes_(std::move(slopes)) {}

  void add(const ScoreTile& tile, double* scores) const override { add_to(tile, scores); }
  void add(const ScoreTile& tile, float* scores) const override { add_to(tile, scores); }
  int64_t gradient_size() const override { return 1; }
  int64_t heads() const override { return int64_t(slopes_.size()); }
  void add_backward(const ScoreTile& tile, const double* gradient, double* sums) const override {
    sum_of(tile, gradient, sums);
  }
  void add_backward(const ScoreTile& tile, const float* gradient, double* sums) const override {
    sum_of(tile, gradient, sums);
  }

 private:
  template <class T>
  void add_to(const ScoreTile& tile, T* scores) const {
    const T slope = T(slopes_[size_t(tile.head)]);
    for (int64_t i = 0; i < tile.queries; ++i) {
      const int32_t at = tile.q_positions[i];
      T* row = scores + i * tile.row;
      for (int64_t j = 0; j < tile.keys; ++j) row[j] += slope * T(std::max(0, at - tile.k_positions[j]));
    }
  }
  template <class T>
  void sum_of(const ScoreTile& tile, const T* gradient, double* sums) const {
    double sum = 0;
    for (int64_t i = 0; i < tile.queries; ++i) {
      const int32_t at = tile.q_positions[i];
      const T* row = gradient + i * tile.row;
      T of_row(0);
      for (int64_t j = 0; j < tile.keys; ++j) of_row += row[j] * T(std::max(0, at - tile.k_positions[j]));
      sum += double(of_row);
    }
    *sums += sum;
  }

  std::vector<double> slopes_;
};

}  // namespace locant::measure
