#pragma once

// From a scheme's terms to a dense call of the oracle: what the terms add is written out for every
// pair of tokens, by the comments of position/terms.h. Random models, calls and positions for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "locant/position/registry.h"
#include "locant/position/scheme.h"
#include "tests/oracle/attention.h"
#include "tests/oracle/shapes.h"
#include "tests/oracle/tolerance.h"
#include "tests/position/scheme_probe.h"

namespace locant::dense {

using oracle::Attention;
using oracle::IndexMatrix;
using oracle::Matrix;
using oracle::Positions;
using oracle::Rng;

// Learned numbers by name.
using Arrays = std::map<std::string, std::vector<double>>;

inline Parameters views_of(const Arrays& arrays) {
  Parameters views;
  for (const auto& [name, array] : arrays) views.add(name, array.data());
  return views;
}

inline Matrix rows_of(const Table<double>& table, int64_t head) {
  Matrix result(static_cast<int>(table.rows), static_cast<int>(table.width));
  for (int r = 0; r < result.rows; ++r) {
    for (int c = 0; c < result.cols; ++c) result(r, c) = table.row(head, r)[c];
  }
  return result;
}

inline IndexMatrix indices(const IndexMap& map, const Positions& queries, const Positions& keys) {
  IndexMatrix result(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  for (int i = 0; i < result.rows; ++i) {
    for (int j = 0; j < result.cols; ++j) {
      result(i, j) = map(keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
    }
  }
  return result;
}

// What a hook adds, one pair of tiles after the other.
inline Matrix hook_numbers(const TileHook& hook, int64_t batch, int64_t head, const Positions& queries,
                           const Positions& keys) {
  Matrix result(static_cast<int>(queries.size()), static_cast<int>(keys.size()));
  const std::vector<int32_t> q(queries.begin(), queries.end()), k(keys.begin(), keys.end());
  for (int i = 0; i < result.rows; i += ScoreTile::kMost) {
    for (int j = 0; j < result.cols; j += ScoreTile::kMost) {
      ScoreTile tile;
      tile.batch = batch, tile.head = head;
      tile.first_query = i, tile.first_key = j;
      tile.queries = std::min<int64_t>(ScoreTile::kMost, result.rows - i);
      tile.keys = std::min<int64_t>(ScoreTile::kMost, result.cols - j);
      tile.q_positions = q.data() + i, tile.k_positions = k.data() + j;
      tile.row = result.cols;
      hook.add(tile, &result(i, j));
    }
  }
  return result;
}

// a with the terms of one head (counted inside the terms) written out. Entries that the mask of `a`
// removes may hold anything.
inline Attention with_terms(Attention a, const Terms<double>& terms, int64_t head) {
  const Positions queries = oracle::default_query_positions(a);
  const Positions keys = oracle::default_key_positions(a);
  a.q = probe::turned(terms.rotation, a.q, queries, +1);
  a.k = probe::turned(terms.rotation, a.k, keys, -1);
  a.scale *= terms.scale_factor;
  Matrix scaled(a.q.rows, a.k.rows);
  Matrix unscaled(a.q.rows, a.k.rows);
  if (terms.number) {
    Matrix& target = terms.number->scaled ? scaled : unscaled;
    for (int i = 0; i < target.rows; ++i) {
      for (int j = 0; j < target.cols; ++j) {
        target(i, j) += probe::number_at(
            terms, head, keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
      }
    }
  }
  if (const auto& t = terms.query_rows) {
    Matrix& target = t->scaled ? scaled : unscaled;
    target = oracle::sum(target, oracle::query_row_term(a.q, rows_of(t->rows, head),
                                                        indices(t->index, queries, keys)));
  }
  if (const auto& t = terms.key_rows) {
    Matrix& target = t->scaled ? scaled : unscaled;
    target = oracle::sum(target, oracle::key_row_term(a.k, rows_of(t->rows, head),
                                                      indices(t->index, queries, keys)));
  }
  if (const auto& t = terms.content_bias) {
    const Matrix bias = rows_of(*t, head);
    for (int i = 0; i < scaled.rows; ++i) {
      for (int j = 0; j < scaled.cols; ++j) scaled(i, j) += oracle::dot_rows(bias, 0, a.k, j);
    }
  }
  if (terms.hook) unscaled = oracle::sum(unscaled, hook_numbers(*terms.hook, 0, head, queries, keys));
  a.scaled = scaled;
  a.unscaled = unscaled;
  if (const auto& t = terms.value_rows) {
    a.value_table = rows_of(t->rows, head);
    a.value_index = indices(t->index, queries, keys);
  }
  return a;
}

// A random model, call and one head of it.
struct Case {
  Call call;
  int64_t head = 0;        // of the whole model
  Attention a;             // without terms
  std::string text;

  int64_t head_here() const { return head - call.first_head; }
  const Positions& queries() const { return a.query_positions; }
  const Positions& keys() const { return a.key_positions; }
};

constexpr int kCases = 60;  // of each scheme, or a multiple

template <class Number>
std::string text(Number x) {
  return std::to_string(x);
}
template <class Word>
Word pick(Rng& rng, std::initializer_list<Word> words) {
  return *(words.begin() + rng.integer(0, static_cast<int>(words.size()) - 1));
}

enum class Mask { kAny, kCausal, kFull };

struct Draw {
  Mask mask = Mask::kAny;
  int max_length = 24;
  bool consecutive = false;  // only 0, 1, 2 ... (schemes whose oracle is a shift)
  int64_t span = 1000000;    // positions stay below (schemes with a row for each distance)
};

inline Case random_case(Rng& rng, const Draw& draw = {}) {
  Case c;
  const int lk = rng.integer(1, draw.max_length);
  const int lq = draw.consecutive ? lk : rng.integer(1, draw.max_length);
  const int d = 2 * rng.integer(1, 5);
  c.call.sizes.layers = rng.integer(1, 3);
  c.call.sizes.heads = rng.integer(1, 6);
  c.call.sizes.head_size = d;
  c.call.sizes.width = c.call.sizes.heads * d;
  c.call.sizes.value_size = rng.chance(0.5) ? 0 : rng.integer(1, 5);
  c.call.layer = rng.integer(0, static_cast<int>(c.call.sizes.layers) - 1);
  if (rng.chance(0.4)) {  // a shard of the heads
    c.call.first_head = rng.integer(0, static_cast<int>(c.call.sizes.heads) - 1);
    c.call.heads = rng.integer(1, static_cast<int>(c.call.sizes.heads - c.call.first_head));
  }
  c.head = c.call.first_head + rng.integer(0, static_cast<int>(c.call.heads_here()) - 1);
  c.call.causal = draw.mask == Mask::kCausal || (draw.mask == Mask::kAny && rng.chance(0.5));

  Attention& a = c.a;
  a.q = oracle::random_matrix(rng, lq, d);
  a.k = oracle::random_matrix(rng, lk, d);
  a.v = oracle::random_matrix(
      rng, lk, static_cast<int>(c.call.sizes.value_size ? c.call.sizes.value_size : d));
  // The softcap tells what is inside the scale from what is outside.
  a.scale = rng.uniform(0.2, 0.6);
  a.softcap = 3;
  a.causal = c.call.causal;
  if (rng.chance(0.3)) a.window_left = rng.integer(0, draw.max_length);

  using oracle::PositionKind;
  const auto kind = draw.consecutive
                        ? PositionKind::kDefault
                        : static_cast<PositionKind>(
                              rng.integer(0, static_cast<int>(PositionKind::kCount) - 1));
  const int start = kind == PositionKind::kOffset ? rng.integer(0, 5000) : 0;
  a.key_positions = oracle::random_positions(rng, kind, lk, start);
  a.query_positions = oracle::random_positions(rng, kind, lq, start + std::max(0, lk - lq));
  if (lq == lk && rng.chance(0.5)) a.query_positions = a.key_positions;
  for (Positions* positions : {&a.key_positions, &a.query_positions}) {
    for (int64_t& p : *positions) p %= draw.span;
  }

  // The distances that the mask leaves.
  bool any = false;
  for (int64_t i : a.query_positions) {
    for (int64_t j : a.key_positions) {
      c.call.length = std::max({c.call.length, i + 1, j + 1});
      const int64_t distance = j - i;
      if (a.causal && distance > 0) continue;
      if (a.window_left >= 0 && distance < -a.window_left) continue;
      c.call.first_distance = any ? std::min(c.call.first_distance, distance) : distance;
      c.call.last_distance = any ? std::max(c.call.last_distance, distance) : distance;
      any = true;
    }
  }
  if (!any) return random_case(rng, draw);  // nothing to compare
  std::ostringstream text;
  text << "heads " << c.call.sizes.heads << " from " << c.call.first_head << " + " << c.call.heads
       << ", head " << c.head << ", Q " << lq << " K " << lk << " D " << d << ", "
       << (a.causal ? "causal" : "full") << ", window " << a.window_left << ", positions "
       << oracle::position_kind_name(kind) << ", distances " << c.call.first_distance << " to "
       << c.call.last_distance;
  c.text = text.str();
  return c;
}

inline Arrays random_arrays(Rng& rng, const Scheme& scheme, const Sizes& sizes) {
  Arrays arrays;
  for (const ParameterSpec& spec : scheme.learn(sizes)) {
    std::vector<double>& array = arrays[spec.name];
    for (int64_t n = 0; n < spec.size(); ++n) {
      array.push_back(spec.init == ParameterSpec::Init::kUniform
                          ? rng.uniform(spec.low, spec.high)
                          : 0.5 * rng.normal());
    }
  }
  return arrays;
}

// [rows][width] out of [heads][rows][width] (each = true) or [rows][width].
inline Matrix table_of(const std::vector<double>& array, bool each, int64_t head, int64_t rows,
                       int64_t width) {
  EXPECT_GE(static_cast<int64_t>(array.size()), (each ? head + 1 : 1) * rows * width);
  Matrix result(static_cast<int>(rows), static_cast<int>(width));
  const size_t from = each ? static_cast<size_t>(head * rows * width) : 0;
  for (size_t n = 0; n < result.values.size(); ++n) result.values[n] = array.at(from + n);
  return result;
}

// Logits and outputs of the scheme's terms against those of the oracle's call. Both are the same
// dense double code, so only the terms' own rounding is between them.
inline void expect_same(const Scheme& scheme, const Case& c, const Arrays& arrays,
                        const Attention& want_call, double extra = 1) {
  SCOPED_TRACE(specification(scheme, true) + ": " + c.text);
  const Terms<double> terms = lower(scheme, c.call, views_of(arrays));
  const auto got = oracle::attention(with_terms(c.a, terms, c.head_here()));
  const auto want = oracle::attention(want_call);
  std::vector<double> size;
  for (double x : want.score_size.values) size.push_back(1 + x);
  const int64_t n = static_cast<int64_t>(extra * 4 * (c.a.q.cols + 2));
  oracle::expect_close("logits", got.logits.values, want.logits.values, size, n,
                       oracle::kEpsDouble, {want.logits.rows, want.logits.cols});
  oracle::expect_close("out", got.out.values, want.out.values, want.magnitude.values,
                       n + c.a.k.rows, oracle::kEpsDouble, {want.out.rows, want.out.cols});
}

}  // namespace locant::dense
