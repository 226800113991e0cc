// One tile of backward: gradients of its scores, and what they add to queries, keys and terms.
#pragma once

#include "locant/attention/backward_scratch-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Finish of step 1: probabilities; and their pairs along the rows, where wanted.
struct StoreProbabilities {
  float* data;
  const float* lse;
  float* row_pairs;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec row_lse = set(lse[r0 + r]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        acc[r][c] = probability_of(acc[r][c] - row_lse);
        store(data + (r0 + r) * kTileRow + c0 + c * kLanes, acc[r][c]);
      }
    }
    if constexpr (kPairs && R % 2 == 0) {
      if (row_pairs) store_row_pairs(acc, row_pairs + r0 / 2 * kTile + c0);
    }
  }
};

// Finish of step 2: gradients of the scores; and their pairs along the rows and the columns.
struct StoreScoreGradients {
  float* data;
  const float* p;
  const float* delta;
  float *row_pairs, *column_pairs;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec row_delta = set(delta[r0 + r]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const int64_t at = (r0 + r) * kTileRow + c0 + c * kLanes;
        acc[r][c] = load(p + at) * (acc[r][c] - row_delta);
        if (!kPairs || data) store(data + at, acc[r][c]);
      }
    }
    if constexpr (kPairs && R % 2 == 0 && C % 2 == 0) {
      if (row_pairs) {
        store_row_pairs(acc, row_pairs + r0 / 2 * kTile + c0);
        store_column_pairs(acc, column_pairs + r0 * units(kTile) + c0 / 2);
      }
    }
  }
};

// Steps 1 and 2 where every row sees every key and nothing lies between score and product. True when
// the pairs of both are made too.
inline bool whole_tile_gradients(const Plan& plan, const Tile& tile, const QueryTile& query,
                                 const float* kt, const float* vt, const Start& start,
                                 const Start& value_start, BackwardScratch& s) {
  // Pairs are made from blocks of an even number of rows.
  const bool paired = kPairs && kTileVecs == kBlockVecs && tile.rows % kBlockRows == 0;
  const StoreProbabilities probabilities{s.p, query.lse, paired ? s.p_row_pairs : nullptr, s.ahead};
  const StoreScoreGradients gradients{paired && !s.ds_is_read ? nullptr : s.ds, s.p, query.delta,
                                      paired ? s.ds_row_pairs : nullptr, s.ds_column_pairs, s.ahead};
  // In bands: what the first product leaves is still in the nearest cache for the second one.
  const int64_t step = kPairs ? kBand : kTile;
  for (int64_t r = 0; r < tile.rows; r += step) {
    const int64_t last = at_most(tile.rows, r + step);
    product_of(r, last, 0, kTileVecs, units(plan.D), query.q.scores, Right{kt, kTile}, start,
               probabilities, Scores{plan.score_factor});
    product_of(r, last, 0, kTileVecs, units(plan.Dv), query.dout_values, Right{vt, kTile}, value_start,
               gradients, Scores{plan.gradient_factor});
  }
  return paired;
}

// The same for the other tiles. Dropout zeroes dP, and then the P that multiplies the values.
inline void part_tile_gradients(const Plan& plan, const Tile& tile, const QueryTile& query,
                                const float* kt, const float* vt, const Start& start,
                                const Start& after, const Start& value_start, BackwardScratch& s) {
  const bool separate = s.ds_inside != s.ds;
  const int64_t step = tile.partial ? kBand : kTile;
  for (int64_t r = 0; r < tile.rows; r += step) {
    const int64_t n = at_most(step, tile.rows - r);
    Range vecs = vecs_of(seen_keys(plan, tile, r, n));
    if (vecs.empty()) vecs.last = vecs.first;
    product_of(r, r + n, vecs.first, vecs.last, units(plan.D), query.q.scores, Right{kt, kTile},
               start, StoreTo{s.p, kTileRow, s.ahead}, Scores{plan.score_factor});
    product_of(r, r + n, vecs.first, vecs.last, units(plan.Dv), query.dout_values, Right{vt, kTile},
               value_start, StoreTo{s.ds, kTileRow, s.ahead}, Scores{plan.gradient_factor});
    for (int64_t i = r; i < r + n; ++i) {
      const Band band = band_of(plan, tile.q_position[i]);
      const Vec lse = set(query.lse[i]), delta = set(query.delta[i]);
      for (int64_t c = 0; c < kTile; c += kLanes) {
        const int64_t at = i * kTileRow + c;
        if (c < vecs.first * kLanes || c >= vecs.last * kLanes) {
          store(s.p + at, zero());
          store(s.ds + at, zero());
          if (separate) store(s.ds_inside + at, zero());
          continue;
        }
        Vec x = load(s.p + at), slope = set(plan.inside_factor);
        if (plan.cap != 0) {
          const Vec tanh = tanh_of(x);
          slope = slope * (set(1.0f) - tanh * tanh);
          x = set(plan.cap) * tanh;
          if (after.data) x = x + load(after.data + i * after.row + c);
          if (after.number) x = x + set(after.number[i]);
        }
        Vec p = probability_of(x - lse), dp = load(s.ds + at);
        const Vec undropped = p;
        if (plan.dropout.on) {
          const Mask keep = kept(plan.dropout, iload(plan.dropout_tokens(query.b) + tile.j0 + c),
                                 query.drop_keys[i], query.drop_keys[kTile + i]);
          p = select(keep, p, zero());
          dp = select(keep, dp, zero());
        }
        Vec ds = undropped * (dp - delta), inside = ds * slope;
        if (tile.partial) {
          const Mask keep = keep_mask(tile, band, c);
          p = select(keep, p, zero());
          ds = select(keep, ds, zero());
          inside = select(keep, inside, zero());  // the slope of a masked pair may be NaN
        }
        store(s.p + at, p);
        store(s.ds + at, ds);
        if (separate) store(s.ds_inside + at, inside);
      }
    }
  }
}

// Rows, or keys, of a partial tile that share their range of the other side.
constexpr int64_t kFine = 2 * kBlockRows;

// out[j] += sum over rows of x[i][j] y[i]: dV and dK.
inline void add_to_keys(const Plan& plan, const Tile& tile, const Left& columns, const Right& y,
                        int64_t width, bool fresh, float* out, int64_t out_row, Ahead* ahead) {
  const auto add = [&](int64_t c, int64_t n, const Range& seeing) {
    float* to = out + c * out_row;
    const Range rows = units_of(seeing);
    product(n, width / kLanes, rows.count(), columns.from(c, rows.first), y.from(rows.first),
            fresh ? Start{} : Start{to, out_row}, StoreTo{to, out_row, ahead}, Sums());
  };
  if (!tile.partial || !tile.consecutive) {
    add(0, tile.keys, {0, tile.rows});
    return;
  }
  for (int64_t c = 0; c < tile.keys; c += kFine) {
    const int64_t n = at_most(kFine, tile.keys - c);
    add(c, n, seeing_rows(plan, tile, c, n));
  }
}

// dQ += dS K.
inline void add_to_queries(const Plan& plan, const Tile& tile, const Left& rows, const Right& k,
                           bool fresh, float* dq, int64_t dq_row, Ahead* ahead) {
  const int64_t vecs = plan.width / kLanes;
  const auto add = [&](int64_t r, int64_t n, const Range& seen) {
    float* to = dq + r * dq_row;
    const Range keys = units_of(seen);
    product(n, vecs, keys.count(), rows.from(r, keys.first), k.from(keys.first),
            fresh ? Start{} : Start{to, dq_row}, StoreTo{to, dq_row, ahead}, Sums());
  };
  if (!tile.partial || !tile.consecutive) {
    add(0, tile.rows, {0, tile.keys});
    return;
  }
  for (int64_t r = 0; r < tile.rows; r += kFine) {
    const int64_t n = at_most(kFine, tile.rows - r);
    add(r, n, seen_keys(plan, tile, r, n));
  }
}

inline void backward_tile(const Plan& plan, BackwardScratch& s, const KeyUnit& unit, int64_t kt,
                          const Tile& tile, QueryTile& query) {
  const int64_t b = query.b, h = query.h, slot = s.keys.slot(kt);
  const KeyRows k = key_rows_of(plan, s.keys, b, unit.hk, kt);
  const float* k_panel = s.keys.kt + slot * units(plan.D) * kTile;
  const float* v_panel = s.keys.vt + slot * units(plan.Dv) * kTile;

  // 1 scores, 2 softmax
  const Start start = start_values(plan, tile, b, h, kt, true, s.keys, k, query.q.plain, query.terms, s.p);
  Start value_start;
  float far_values[kTile];
  if (plan.value_rows.on) {
    Sources sources;
    sources.buffer = s.ds;
    add_rows(plan, plan.value_rows, tile, h, query.terms.value, query.dout, far_values, sources);
    value_start = sources.sum(tile.rows);
  }
  bool paired = false;
  if (!tile.partial && s.ds_inside == s.ds && !plan.dropout.on) {
    paired = whole_tile_gradients(plan, tile, query, k_panel, v_panel, start, value_start, s);
  } else {
    Start after;
    if (plan.cap != 0) {
      after = start_values(plan, tile, b, h, kt, false, s.keys, k, query.q.plain, query.terms, s.after);
    }
    part_tile_gradients(plan, tile, query, k_panel, v_panel, start, after, value_start, s);
  }

  if (kPairs && !paired) {
    pair_rows(s.p, kTileRow, tile.rows, kTile, s.p_row_pairs, kTile);
    pair_rows(s.ds_inside, kTileRow, tile.rows, kTile, s.ds_row_pairs, kTile);
    pair_columns(s.ds_inside, kTileRow, tile.rows, kTile, s.ds_column_pairs, units(kTile));
  }

  // 1 scores, the queries' side
  add_to_queries(plan, tile, tile_rows(s.ds_inside, s.ds_column_pairs),
                 keys_of(plan, s.keys, b, unit.hk, kt), query.fresh, query.dq, query.dq_row, s.ahead);
  const auto gradient_of = [&](bool inside) { return inside ? s.ds_inside : s.ds; };
  if (query.number_gradient.entries) {
    number_adjoint(plan.number, tile, gradient_of(plan.number.inside), query.number_gradient);
  }
  const RowsTerm& rows = plan.query_rows;
  if (rows.on) {
    const float* ds = gradient_of(rows.inside);
    if (!rows.by_pair) {
      scatter_rows(rows, tile, ds, query.dquery, query.dquery_sides);
    } else {
      add_row_per_pair(rows, tile, h, ds, query.dq_by_pair, plan.width);
      if (rows.gradient) {
        add_gradient_per_pair(rows, tile, ds, query.q.plain.data, query.q.plain.row, false,
                              rows.gradient + plan.sum_of(b, h) * rows.used * rows.width);
      }
    }
  }
  const RowsTerm& values = plan.value_rows;
  if (values.gradient) {
    if (!values.by_pair) {
      scatter_rows(values, tile, s.p, query.value_sums, query.value_sides);
    } else {
      add_gradient_per_pair(values, tile, s.p, query.dout.data, query.dout.row, false,
                            values.gradient + plan.sum_of(b, h) * values.used * values.width);
    }
  }

  // 3 outputs and 1 scores, the keys' side: in turn
  int32_t* turn = unit.turn ? unit.turn + kt : nullptr;
  wait_for_turn(plan, turn, query.number);
  const bool first = !unit.touched[kt];
  unit.touched[kt] = 1;
  if (unit.dv) {
    add_to_keys(plan, tile, tile_columns(s.p, s.p_row_pairs), query.dout_by_row, plan.value_width, first,
                unit.dv + tile.j0 * unit.dv_row, unit.dv_row, s.ahead);
  }
  if (unit.dk) {
    add_to_keys(plan, tile, tile_columns(s.ds_inside, s.ds_row_pairs), query.q_by_row, plan.width, first,
                unit.dk + tile.j0 * unit.dk_row, unit.dk_row, s.ahead);
  }
  if (plan.dkey_numbers) {
    float* to = plan.dkey_numbers_of(b, h) + tile.j0;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      Vec sum = zero();
      for (int64_t i = 0; i < tile.rows; ++i) sum = sum + load(s.ds + i * kTileRow + c);
      store(to + c, load(to + c) + sum);
    }
  }
  if (plan.dhook) plan.hook->add_backward(score_tile(tile, b, h), s.ds, plan.dhook_of(b, h, kt));
  const RowsTerm& key_rows = plan.key_rows;
  if (key_rows.on) {
    const float* ds = gradient_of(key_rows.inside);
    if (!key_rows.by_pair) {
      const int64_t in_group = h - unit.hk * plan.group;
      scatter_key_rows(key_rows, tile, ds,
                       unit.dk_rows + (in_group * plan.k_places.tiles_of(b) * kTile + tile.j0) * key_rows.columns);
    } else {
      for (int64_t j = 0; unit.dk && j < tile.keys; ++j) {
        float* to = unit.dk + (tile.j0 + j) * unit.dk_row;
        for (int64_t i = 0; i < tile.rows; ++i) {
          const int64_t d = static_cast<int64_t>(tile.k_position[j]) - tile.q_position[i];
          const float* row = key_rows.rows_of(h) + column_at(key_rows, d) * key_rows.width;
          const Vec x = set(ds[i * kTileRow + j]);
          for (int64_t c = 0; c < plan.width; c += kLanes) {
            store(to + c, fma(x, load(row + c), load(to + c)));
          }
        }
      }
      if (key_rows.gradient) {
        add_gradient_per_pair(key_rows, tile, ds, k.data, k.row, true,
                              key_rows.gradient + plan.sum_of(b, h) * key_rows.used * key_rows.width);
      }
    }
  }
  pass_turn(turn, query.number);
  query.fresh = false;
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
