// See prepare_terms.h.
#include "locant/attention/prepare_terms.h"

#include <algorithm>
#include <limits>

namespace locant::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Wider panels of row terms than this are not made; pairs then multiply their rows one by one.
constexpr int64_t kMostColumns = 16384;
constexpr int64_t kMostPackedRows = int64_t{64} << 20;  // bytes of k . rows that a worker keeps

struct Clipped {
  Map map;
  double left_extra = 0, right_extra = 0;
};

// The part of an index map inside the reachable distances.
Clipped clip(const IndexMap& index, const Extremes& d, Arrays& arrays) {
  Clipped clipped;
  Map& map = clipped.map;
  if (index.last() < d.low) {
    map.first = d.low;
    clipped.right_extra = static_cast<double>(d.low - 1 - index.last());
  } else if (index.first > d.high) {
    map.first = d.high + 1;
    clipped.left_extra = static_cast<double>(index.first - map.first);
  } else {
    map.first = std::max(index.first, d.low);
    map.n = std::min(index.last(), d.high) - map.first + 1;
  }
  map.top = std::min<int64_t>(map.first + map.n, INT32_MAX);
  auto* rows = arrays.take<int32_t>(map.n + 2);
  rows[0] = index.before;
  for (int64_t e = 0; e < map.n; ++e) {
    rows[e + 1] = index.rows[static_cast<size_t>(map.first + e - index.first)];
  }
  rows[map.n + 1] = index.after;
  map.rows = rows;
  return clipped;
}

// A number of a score. -inf masks; others stay above that, whatever somebody means by -1e38.
float score_of(float x, double factor) {
  const double y = static_cast<double>(x) * factor;
  if (y == -std::numeric_limits<double>::infinity()) return kMasked;
  return y < static_cast<double>(kLeast) ? kLeast : static_cast<float>(y);
}

// Which columns neighbouring distances pick from (RowsTerm::low, lanes).
void find_picks(RowsTerm& term, int64_t lanes, Arrays& arrays) {
  const int64_t windows = term.map.n + lanes + 1;
  auto* low = arrays.take<int32_t>(windows);
  auto* picks = arrays.take<uint8_t>(windows * lanes);
  term.low = nullptr;
  for (int64_t w = 0; w < windows; ++w) {
    int32_t least = INT32_MAX, most = -1;
    int32_t columns[64];
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t e = std::clamp<int64_t>(w - lanes + l + 1, 0, term.map.n + 1);
      columns[l] = term.column[e];
      least = std::min(least, columns[l]);
      most = std::max(most, columns[l]);
    }
    if (most - least >= lanes) return;
    low[w] = least;
    for (int64_t l = 0; l < lanes; ++l) {
      picks[w * lanes + l] = static_cast<uint8_t>(columns[l] - least);
    }
  }
  term.low = low;
  term.lanes = picks;
}

}  // namespace

NumberTerm number_term(const NumberPerDistance<float>& term, double inside,
                       double outside, const Extremes& reach, Arrays& arrays) {
  NumberTerm out;
  out.on = true;
  out.inside = term.scaled;
  const double factor = term.scaled ? inside : outside;
  const Clipped clipped = clip(term.index, reach, arrays);
  out.map = clipped.map;
  out.left_extra = clipped.left_extra;
  out.right_extra = clipped.right_extra;
  out.heads = term.table.heads;
  const int64_t entries = out.map.n + 2;
  auto* values = arrays.take<float>(out.heads * entries);
  auto* left = arrays.take<float>(out.heads);
  auto* right = arrays.take<float>(out.heads);
  for (int64_t h = 0; h < out.heads; ++h) {
    const float* table = term.table.row(h, 0);
    float* to = values + h * entries;
    for (int64_t e = 0; e < entries; ++e) {
      const int32_t row = out.map.rows[e];
      to[e] = row == kNoRow ? 0.0f : score_of(table[row], factor);
    }
    if (!term.left.empty()) {
      const double slope = factor * static_cast<double>(term.left[static_cast<size_t>(h)]);
      left[h] = static_cast<float>(slope);
      to[0] += static_cast<float>(slope * out.left_extra);
    }
    if (!term.right.empty()) {
      const double slope = factor * static_cast<double>(term.right[static_cast<size_t>(h)]);
      right[h] = static_cast<float>(slope);
      to[entries - 1] += static_cast<float>(slope * out.right_extra);
    }
  }
  out.values = values;
  out.left = term.left.empty() ? nullptr : left;
  out.right = term.right.empty() ? nullptr : right;
  return out;
}

RowsTerm rows_term(const IndexMap& index, const Table<float>& table, int64_t lanes, const Plan& plan,
                   const Extremes& reach, bool windowed, double factor, double row_factor,
                   Arrays& arrays) {
  RowsTerm out;
  out.on = true;
  out.map = clip(index, reach, arrays).map;
  out.heads = table.heads;
  out.source = table.data.data();
  out.count = table.rows;
  out.source_width = table.width;
  out.channels = table.width;
  out.width = round_up(table.width, lanes);
  const int64_t entries = out.map.n + 2;
  int64_t last_row = -1;
  out.first_row = INT32_MAX;
  for (int64_t e = 0; e < entries; ++e) {
    const int32_t row = out.map.rows[e];
    if (row == kNoRow) continue;
    out.first_row = std::min<int64_t>(out.first_row, row);
    last_row = std::max<int64_t>(last_row, row);
  }
  if (last_row < 0) out.first_row = 0;
  const int64_t count = last_row < 0 ? 0 : last_row - out.first_row + 1;
  out.used = count + 2;
  auto* column = arrays.take<int32_t>(entries);
  out.column = column;
  // "No row" takes the zero column that is nearer to the entry's neighbour.
  int32_t neighbour = 0;
  for (int64_t e = 0; e < entries; ++e) {
    const int32_t row = out.map.rows[e];
    if (row != kNoRow) {
      column[e] = static_cast<int32_t>(row - out.first_row + 1);
      neighbour = column[e];
      continue;
    }
    if (e == 0) {
      for (int64_t n = 1; n < entries && neighbour == 0; ++n) {
        if (out.map.rows[n] != kNoRow) {
          neighbour = static_cast<int32_t>(out.map.rows[n] - out.first_row + 1);
        }
      }
    }
    column[e] = static_cast<int32_t>(neighbour > out.used / 2 ? out.used - 1 : 0);
  }
  bool steady = true, affine = out.map.n > 0;
  for (int64_t e = 1; e < entries; ++e) {
    const int32_t step = column[e] - column[e - 1];
    steady &= step >= -1 && step <= 1;
    if (e >= 2 && e < entries - 1) affine &= step == 1;
  }
  out.affine = affine;
  out.steady = steady;
  if (affine) out.affine_offset = column[1] - 1;
  out.columns = windowed ? round_up(out.used + lanes, kTile) : out.used;
  // A chunk of keys and a tile of queries see so many distances, the mask's edges included.
  const int64_t span = (plan.chunk_tiles + 8) * kTile;
  out.window = windowed && steady && plan.simple ? std::min(out.columns, span) : out.columns;
  // Rows of a window are read side by side: one cache set further each.
  if (windowed) out.window = round_up(out.window, 1024) + 16;
  const bool fits = windowed ? out.window <= kMostColumns + 1024
                             : out.columns <= kMostColumns && plan.chunk_tiles * kTile * out.columns *
                                   static_cast<int64_t>(sizeof(float)) <= kMostPackedRows;
  out.by_pair = !fits;
  out.factor = static_cast<float>(factor);
  out.row_factor = static_cast<float>(row_factor);
  out.rows = arrays.take<float>(out.heads * out.used * out.width);
  for (int64_t h = 0; h < out.heads; ++h) {
    float* to = out.rows + h * out.used * out.width;
    std::fill_n(to, out.width, 0.0f);
    for (int64_t r = 0; r < count; ++r) {
      to += out.width;
      const float* from = table.row(h, out.first_row + r);
      for (int64_t c = 0; c < table.width; ++c) to[c] = from[c] * out.row_factor;
      std::fill(to + table.width, to + out.width, 0.0f);
    }
    std::fill_n(to + out.width, out.width, 0.0f);
  }
  if (fits && windowed) {
    find_picks(out, lanes, arrays);
    out.panel = arrays.take<float>(out.heads * out.channels * out.columns);
  }
  return out;
}

void key_numbers(const View<const float, 3>& numbers, Plan& plan, Arrays& arrays) {
  const Places& places = plan.k_places;
  const bool packed = places.start != nullptr;
  const int64_t batches = packed ? plan.B : numbers.shape[0], heads = numbers.shape[1];
  const int64_t padded = packed ? places.first_tile[plan.B] * kTile : places.padded;
  auto* out = arrays.take<float>((packed ? 1 : batches) * heads * padded);
  plan.key_numbers = out;
  plan.key_numbers_batch = !packed && batches > 1 ? heads * padded : 0;
  plan.key_numbers_head = heads > 1 ? padded : 0;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      const float* in = numbers.data + h * numbers.stride[1] +
                        (packed ? places.start[b] * numbers.stride[2] : b * numbers.stride[0]);
      float* to = out + (plan.key_numbers_of(b, h) - out);
      for (int64_t j = 0; j < places.length_of(b); ++j) {
        const float x = in[j * numbers.stride[2]];
        plan.keys_hidden |= x == -kInfinity;
        to[j] = score_of(x, kLog2e);
      }
      for (int64_t j = places.length_of(b); j < places.tiles_of(b) * kTile; ++j) to[j] = 0;
    }
  }
  plan.hidden_by_head = plan.keys_hidden && heads > 1 && plan.group > 1;
}

}  // namespace locant::attention
