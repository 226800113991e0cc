// Terms: all that a position scheme can ask of attention, as plain data. The kernel executes terms
// and knows no scheme. Distance is key position minus query position, j - i, everywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "locant/position/tile_hook.h"

namespace locant {

// Row number that means "nothing is added at this distance".
inline constexpr int32_t kNoRow = -1;

// From a distance to a row of a table: rows[d - first] inside, one constant row on each side.
// Every map of the field has this form: identity, clip, T5 bucket, log bucket, zero outside.
struct IndexMap {
  int64_t first = 0;          // distance of rows[0]
  std::vector<int32_t> rows;  // never empty in a term
  int32_t before = kNoRow;    // row for distances < first
  int32_t after = kNoRow;     // row for distances > last()
  int64_t first_row = 0;      // of the scheme's own table, where a term holds a part of it: its row 0

  int64_t last() const { return first + static_cast<int64_t>(rows.size()) - 1; }
  int32_t operator()(int64_t distance) const {
    if (distance < first) return before;
    if (distance > last()) return after;
    return rows[static_cast<size_t>(distance - first)];
  }
};

// [heads][rows][width], contiguous; heads is 1 (shared by all heads) or H.
template <class T>
struct Table {
  int64_t heads = 0, rows = 0, width = 0;
  std::vector<T> data;

  Table() = default;
  Table(int64_t heads, int64_t rows, int64_t width)
      : heads(heads), rows(rows), width(width), data(static_cast<size_t>(heads * rows * width)) {}
  T* row(int64_t head, int64_t r) {
    return data.data() + ((heads == 1 ? 0 : head) * rows + r) * width;
  }
  const T* row(int64_t head, int64_t r) const {
    return data.data() + ((heads == 1 ? 0 : head) * rows + r) * width;
  }
};

// Adds table[h][index(j-i)] to a score (width 1). Where `left` is given, distances before
// index.first add left[h] * (first - distance) on top, and `right` the same after index.last():
// so a linear penalty (ALiBi) is a table of one zero, whatever the span of the positions.
template <class T>
struct NumberPerDistance {
  bool scaled = false;  // inside the scale (and the softcap), or outside
  IndexMap index;
  Table<T> table;              // [1 or H][rows][1]
  std::vector<T> left, right;  // [table.heads] each, or empty
};

// Adds q_i . rows[h][index(j-i)] (query rows) or k_j . rows[h][index(j-i)] (key rows) to a score.
// Rows are indexed by query head also under grouped heads.
template <class T>
struct RowPerDistance {
  bool scaled = true;
  IndexMap index;
  Table<T> rows;  // [1 or H][rows][D]
};

// Adds sum_j p_ij rows[h][index(j-i)] to an output.
template <class T>
struct ValuePerDistance {
  IndexMap index;
  Table<T> rows;  // [1 or H][rows][Dv]
};

// Turns q and k once per call, before the tiles, by each token's own position p: pair number t of
// the first `width` channels turns by p * frequency[t] and is multiplied by `magnitude` and, where
// log_growth is given (xPos), q also by exp((p - center) log_growth[t]), k by the inverse.
// Angles are computed in double.
struct Rotation {
  enum class Layout { kInterleaved, kHalfSplit };  // pairs (2t, 2t+1) or (t, t + width/2)
  Layout layout = Layout::kHalfSplit;
  int64_t width = 0;              // even, at most the head size; the other channels pass through
  std::vector<double> frequency;  // [width/2], radians per position
  double magnitude = 1;
  std::vector<double> log_growth;  // [width/2] or empty
  int64_t center = 0;
  // The frequencies are those of this length of the sequence and of no other (dynamic NTK, LongRoPE):
  // keys that were turned at another length do not fit.
  bool follows_length = false;
};

// What one attention call adds. Absent terms are std::nullopt. The same struct holds gradients.
template <class T>
struct Terms {
  std::optional<NumberPerDistance<T>> number;
  std::optional<RowPerDistance<T>> query_rows;
  std::optional<RowPerDistance<T>> key_rows;
  std::optional<ValuePerDistance<T>> value_rows;
  // [1 or H][1][D]: added to every query in the product with keys only, so each key gets one number
  // bias . k_j inside the scale (Transformer-XL's u). Applied after the rotation of k.
  std::optional<Table<T>> content_bias;
  std::optional<Rotation> rotation;
  // Multiplies the scale of the call (DeBERTa: 1/sqrt(1 + number of terms)).
  double scale_factor = 1;
  // What terms cannot say (position/tile_hook.h), and in gradients what it learns by it:
  // [hook->heads()][hook->gradient_size()].
  std::shared_ptr<const TileHook> hook;
  std::vector<T> hook_gradient;
};

// Same numbers in another type; gradients' containers of the same shape, all zero; zeros in place.
template <class To, class From>
Terms<To> cast(const Terms<From>& terms);
template <class T>
Terms<T> zeros_like(const Terms<T>& terms);
template <class T>
void set_zero(Terms<T>& terms);

namespace detail {
template <class To, class From>
std::vector<To> cast_vector(const std::vector<From>& from) {
  return std::vector<To>(from.begin(), from.end());
}
template <class To, class From>
Table<To> cast_table(const Table<From>& from) {
  Table<To> to;
  to.heads = from.heads;
  to.rows = from.rows;
  to.width = from.width;
  to.data = cast_vector<To>(from.data);
  return to;
}
}  // namespace detail

template <class To, class From>
Terms<To> cast(const Terms<From>& terms) {
  Terms<To> to;
  if (const auto& t = terms.number) {
    to.number = NumberPerDistance<To>{t->scaled, t->index, detail::cast_table<To>(t->table),
                                      detail::cast_vector<To>(t->left),
                                      detail::cast_vector<To>(t->right)};
  }
  if (const auto& t = terms.query_rows) {
    to.query_rows = RowPerDistance<To>{t->scaled, t->index, detail::cast_table<To>(t->rows)};
  }
  if (const auto& t = terms.key_rows) {
    to.key_rows = RowPerDistance<To>{t->scaled, t->index, detail::cast_table<To>(t->rows)};
  }
  if (const auto& t = terms.value_rows) {
    to.value_rows = ValuePerDistance<To>{t->index, detail::cast_table<To>(t->rows)};
  }
  if (const auto& t = terms.content_bias) to.content_bias = detail::cast_table<To>(*t);
  to.rotation = terms.rotation;
  to.scale_factor = terms.scale_factor;
  to.hook = terms.hook;
  to.hook_gradient = detail::cast_vector<To>(terms.hook_gradient);
  return to;
}

template <class T>
void set_zero(Terms<T>& terms) {
  const auto clear = [](std::vector<T>& numbers) { numbers.assign(numbers.size(), T(0)); };
  if (terms.number) {
    clear(terms.number->table.data);
    clear(terms.number->left);
    clear(terms.number->right);
  }
  if (terms.query_rows) clear(terms.query_rows->rows.data);
  if (terms.key_rows) clear(terms.key_rows->rows.data);
  if (terms.value_rows) clear(terms.value_rows->rows.data);
  if (terms.content_bias) clear(terms.content_bias->data);
  if (terms.hook) {
    const int64_t size = terms.hook->heads() * terms.hook->gradient_size();
    terms.hook_gradient.assign(static_cast<size_t>(size), T(0));
  }
}

template <class T>
Terms<T> zeros_like(const Terms<T>& terms) {
  Terms<T> zero = terms;
  set_zero(zero);
  return zero;
}

}  // namespace locant
