// See tile_hook.h: the float calls by way of the double ones.
#include "locant/position/tile_hook.h"

namespace locant {
namespace {

// A tile in double, close together.
struct Widened {
  ScoreTile tile;
  double numbers[ScoreTile::kMost * ScoreTile::kMost];
  explicit Widened(const ScoreTile& from) : tile(from) { tile.row = from.keys; }
};

}  // namespace

TileHook::~TileHook() = default;

void TileHook::add(const ScoreTile& tile, float* scores) const {
  Widened wide(tile);
  for (int64_t n = 0; n < tile.queries * tile.keys; ++n) wide.numbers[n] = 0;
  add(wide.tile, wide.numbers);
  for (int64_t i = 0; i < tile.queries; ++i) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      scores[i * tile.row + j] += static_cast<float>(wide.numbers[i * tile.keys + j]);
    }
  }
}

int64_t TileHook::gradient_size() const { return 0; }
int64_t TileHook::heads() const { return 1; }

void TileHook::add_backward(const ScoreTile&, const double*, double*) const {}

void TileHook::add_backward(const ScoreTile& tile, const float* gradient, double* sums) const {
  Widened wide(tile);
  for (int64_t i = 0; i < tile.queries; ++i) {
    for (int64_t j = 0; j < tile.keys; ++j) {
      wide.numbers[i * tile.keys + j] = static_cast<double>(gradient[i * tile.row + j]);
    }
  }
  add_backward(wide.tile, wide.numbers, sums);
}

}  // namespace locant
