// Backward: the forward read from the end, for every query tile over the key tiles its mask keeps
//   1 scores        P = exp2(S - lse), S as in the forward
//   2 softmax       dS = P (dP - delta), dP = dO V^T (+ dO . value rows), delta = sum of dO O
//   3 outputs       dV += P^T dO, and P summed by rows of the value table
//   1 scores        dK += dS^T Q, dQ += dS K, and dS summed by entries, rows and keys of the terms
// dS carries the scale (Plan::gradient_factor), so that dQ and dK need no factor.
//
// Everything is summed in an order that depends on the shapes only: dQ over ascending key tiles, dK
// and dV over ascending query tiles, tables over the query tiles of a head and then over heads.
#pragma once

#include "locant/attention/adjoint-inl.h"
#include "locant/attention/forward-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// A query tile on its way over the keys.
struct QueryTile {
  int64_t b, h, index, rows;
  int32_t number;  // in the order of its unit
  bool fresh;      // dq holds nothing yet
  QueryRows q;
  Left dout;
  float* dq;  // in the caller's memory where rows are whole vectors
  int64_t dq_row;
  float *lse, *delta;     // [kTile], log2 units; times gradient_factor
  TermState terms;        // windows of q . rows and dO . rows
  Window dquery;          // gradient of q . rows
  Window value_sums;      // probabilities by value row
  SideSums dquery_sides, value_sides;
  NumberGradient number_gradient;
  float *q_rows, *q_bias;  // [kTile][width]
  float* dout_rows;        // [kTile][value_width]
  float* dq_rows;          // [kTile][width]
};

struct BackwardScratch {
  KeyStore keys;
  QueryTile* queries;  // [part_tiles]
  float *p, *ds;       // [kTile][kTileRow], zero beside the rows
  float* ds_inside;    // inside the softcap; without one the same as ds
  float* after;        // with a softcap: the terms outside of it
  float* dcontent;     // [width]
  Ahead* ahead;
};

inline float* cut_tile(Cutter& cutter) {
  float* at = cutter.cut<float>(kLanes + kTile * kTileRow + kLanes);
  if (!cutter.memory) return nullptr;
  for (float* c = at; c < at + kLanes + kTile * kTileRow + kLanes; c += kLanes) store(c, zero());
  return at + kLanes;
}

inline size_t cut_backward(const Plan& plan, BackwardScratch& s, char* memory) {
  Cutter cutter{memory};
  s = BackwardScratch();
  s.keys.tiles = plan.chunk_tiles;
  s.keys.copy_k = plan.k_turn.cosine || plan.keys_hidden || plan.bf16 || plan.D % kLanes != 0;
  s.keys.copy_v = plan.Dv % kLanes != 0 || plan.keys_hidden || plan.bf16;
  const int64_t chunk = plan.chunk_tiles * kTile;
  s.keys.packed = cutter.cut<uint8_t>(plan.chunk_tiles);
  s.keys.kt = cutter.cut<float>(chunk * plan.D);
  s.keys.vt = cutter.cut<float>(chunk * plan.Dv);
  if (s.keys.copy_k) s.keys.k = cutter.cut<float>(chunk * plan.width);
  if (s.keys.copy_v) s.keys.v = cutter.cut<float>(chunk * plan.value_width);
  if (plan.key_rows.on && plan.key_rows.panel) {
    s.keys.row_numbers = cutter.cut<float>(chunk * plan.key_rows.columns + kLanes);
    s.keys.side_numbers = cutter.cut<float>(2 * chunk);
  }
  s.queries = cutter.cut<QueryTile>(plan.part_tiles);
  float* distance_window = cutter.cut<float>(2 * kTile + 2 * kLanes);
  float* column_numbers = cutter.cut<float>(2 * kTile);
  float* gradient_window = cutter.cut<float>(2 * kTile + 2 * kLanes);
  for (int64_t n = 0; n < plan.part_tiles; ++n) {
    QueryTile query = {};
    if (plan.query_rows.on && plan.query_rows.panel) {
      cut_window(cutter, plan.query_rows, query.terms.query);
      cut_window(cutter, plan.query_rows, query.dquery);
      query.dquery_sides.data = cutter.cut<float>(2 * kTile * kLanes);
    }
    if (plan.value_rows.on && plan.value_rows.panel) {
      cut_window(cutter, plan.value_rows, query.terms.value);
      cut_window(cutter, plan.value_rows, query.value_sums);
      query.value_sides.data = cutter.cut<float>(2 * kTile * kLanes);
    }
    query.terms.distance_window = distance_window;
    query.terms.column_numbers = column_numbers;
    if (plan.number.gradient) {
      query.number_gradient.entries = cutter.cut<float>(plan.number.map.n + 2);
      query.number_gradient.sides = cutter.cut<double>(2);
      query.number_gradient.window = gradient_window + kLanes;
    }
    query.q_rows = cutter.cut<float>(kTile * plan.width);
    query.q_bias = cutter.cut<float>(kTile * plan.width);
    query.dout_rows = cutter.cut<float>(kTile * plan.value_width);
    query.lse = cutter.cut<float>(kTile);
    query.delta = cutter.cut<float>(kTile);
    query.dq_rows = cutter.cut<float>(kTile * plan.width);
    if (memory) s.queries[n] = query;
  }
  s.p = cut_tile(cutter);
  s.ds = s.ds_inside = cut_tile(cutter);
  if (plan.cap != 0 || plan.inside_factor != 1) s.ds_inside = cut_tile(cutter);
  if (plan.cap != 0) s.after = cut_tile(cutter);
  s.dcontent = cutter.cut<float>(plan.width);
  return cutter.used;
}

// Finish of step 1: probabilities.
struct StoreProbabilities {
  float* data;
  const float* lse;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec row_lse = set(lse[r0 + r]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        store(data + (r0 + r) * kTileRow + c0 + c * kLanes, exp2(acc[r][c] - row_lse));
      }
    }
  }
};

// Finish of step 2: gradients of the scores.
struct StoreScoreGradients {
  float* data;
  const float* p;
  const float* delta;
  Ahead* ahead;
  template <int R, int C>
  void operator()(Vec (&acc)[R][C], int64_t r0, int64_t c0) const {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec row_delta = set(delta[r0 + r]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
        const int64_t at = (r0 + r) * kTileRow + c0 + c * kLanes;
        store(data + at, load(p + at) * (acc[r][c] - row_delta));
      }
    }
  }
};

// Steps 1 and 2 where every row sees every key and nothing lies between score and product.
inline void whole_tile_gradients(const Plan& plan, const Tile& tile, const QueryTile& query,
                                 const float* kt, const float* vt, const Start& start,
                                 const Start& value_start, BackwardScratch& s) {
  product(tile.rows, kTileVecs, plan.D, query.q.bias, Right{kt, kTile}, start,
          StoreProbabilities{s.p, query.lse, s.ahead});
  product(tile.rows, kTileVecs, plan.Dv, query.dout, Right{vt, kTile}, value_start,
          StoreScoreGradients{s.ds, s.p, query.delta, s.ahead});
}

// The same for the other tiles.
inline void part_tile_gradients(const Plan& plan, const Tile& tile, const QueryTile& query,
                                const float* kt, const float* vt, const Start& start,
                                const Start& after, const Start& value_start, BackwardScratch& s) {
  const bool separate = s.ds_inside != s.ds;
  for (int64_t r = 0; r < tile.rows; r += kBand) {
    const int64_t n = at_most(kBand, tile.rows - r);
    Range vecs = vecs_of(seen_keys(plan, tile, r, n));
    if (vecs.empty()) vecs.last = vecs.first;
    product_of(r, r + n, vecs.first, vecs.last, plan.D, query.q.bias, Right{kt, kTile}, start,
               StoreTo{s.p, kTileRow, s.ahead});
    product_of(r, r + n, vecs.first, vecs.last, plan.Dv, query.dout, Right{vt, kTile}, value_start,
               StoreTo{s.ds, kTileRow, s.ahead});
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
        Vec p = exp2(x - lse);
        Vec ds = p * (load(s.ds + at) - delta);
        if (tile.partial) {
          const Mask keep = keep_mask(tile, band, c);
          p = select(keep, p, zero());
          ds = select(keep, ds, zero());
        }
        store(s.p + at, p);
        store(s.ds + at, ds);
        if (separate) store(s.ds_inside + at, ds * slope);
      }
    }
  }
}

// Rows, or keys, of a partial tile that share their range of the other side.
constexpr int64_t kFine = 2 * kBlockRows;

// out[j] += sum over rows of x[i][j] y[i]: dV and dK.
inline void add_to_keys(const Plan& plan, const Tile& tile, const float* x, const Left& y, int64_t width,
                        bool fresh, float* out, int64_t out_row, Ahead* ahead) {
  const auto add = [&](int64_t c, int64_t n, const Range& rows) {
    float* to = out + c * out_row;
    product(n, width / kLanes, at_least(0, rows.last - rows.first),
            Left{x + rows.first * kTileRow + c, 1, kTileRow}, Right{y.data + rows.first * y.row, y.row},
            fresh ? Start{} : Start{to, out_row}, StoreTo{to, out_row, ahead});
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
inline void add_to_queries(const Plan& plan, const Tile& tile, const float* ds, const KeyRows& k,
                           bool fresh, float* dq, int64_t dq_row, Ahead* ahead) {
  const int64_t vecs = plan.width / kLanes;
  const auto add = [&](int64_t r, int64_t n, const Range& keys) {
    float* to = dq + r * dq_row;
    product(n, vecs, at_least(0, keys.last - keys.first), Left{ds + r * kTileRow + keys.first, kTileRow, 1},
            Right{k.data + keys.first * k.row, k.row}, fresh ? Start{} : Start{to, dq_row},
            StoreTo{to, dq_row, ahead});
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

// Turns: wait until all earlier query tiles are done with key tile kt (or with the tables).
inline void wait_for_turn(const Plan& plan, const KeyUnit& unit, int64_t kt, int32_t number) {
  if (!unit.turn) return;
  while (__atomic_load_n(unit.turn + kt, __ATOMIC_ACQUIRE) != number) plan.wait();
}
inline void pass_turn(const KeyUnit& unit, int64_t kt, int32_t number) {
  if (unit.turn) __atomic_store_n(unit.turn + kt, number + 1, __ATOMIC_RELEASE);
}

inline void backward_tile(const Plan& plan, BackwardScratch& s, const KeyUnit& unit, int64_t kt,
                          const Tile& tile, QueryTile& query) {
  const int64_t b = query.b, h = query.h, slot = s.keys.slot(kt);
  const KeyRows k = key_rows_of(plan, s.keys, b, unit.hk, kt, true);
  const float* k_panel = s.keys.kt + slot * plan.D * kTile;
  const float* v_panel = s.keys.vt + slot * plan.Dv * kTile;

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
  if (!tile.partial && s.ds_inside == s.ds) {
    whole_tile_gradients(plan, tile, query, k_panel, v_panel, start, value_start, s);
  } else {
    Start after;
    if (plan.cap != 0) {
      after = start_values(plan, tile, b, h, kt, false, s.keys, k, query.q.plain, query.terms, s.after);
    }
    part_tile_gradients(plan, tile, query, k_panel, v_panel, start, after, value_start, s);
  }

  // 1 scores, the queries' side
  add_to_queries(plan, tile, s.ds_inside, k, query.fresh, query.dq, query.dq_row, s.ahead);
  const auto gradient_of = [&](bool inside) { return inside ? s.ds_inside : s.ds; };
  if (query.number_gradient.entries) {
    number_adjoint(plan.number, tile, gradient_of(plan.number.inside), query.number_gradient);
  }
  const RowsTerm& rows = plan.query_rows;
  if (rows.on) {
    const float* ds = gradient_of(rows.inside);
    if (rows.panel) {
      scatter_rows(rows, tile, ds, query.dquery, query.dquery_sides);
    } else {
      add_row_per_pair(rows, tile, h, ds, query.dq, query.dq_row);
      if (rows.gradient) {
        add_gradient_per_pair(rows, tile, ds, query.q.plain.data, query.q.plain.row, false,
                              rows.gradient + (b * plan.H + h) * rows.used * rows.width);
      }
    }
  }
  const RowsTerm& values = plan.value_rows;
  if (values.gradient) {
    if (values.panel) {
      scatter_rows(values, tile, s.p, query.value_sums, query.value_sides);
    } else {
      add_gradient_per_pair(values, tile, s.p, query.dout.data, query.dout.row, false,
                            values.gradient + (b * plan.H + h) * values.used * values.width);
    }
  }

  // 3 outputs and 1 scores, the keys' side: in turn
  wait_for_turn(plan, unit, kt, query.number);
  const bool first = !unit.touched[kt];
  unit.touched[kt] = 1;
  if (unit.dv) {
    add_to_keys(plan, tile, s.p, query.dout, plan.value_width, first, unit.dv + tile.j0 * unit.dv_row,
                unit.dv_row, s.ahead);
  }
  if (unit.dk) {
    add_to_keys(plan, tile, s.ds_inside, query.q.bias, plan.width, first,
                unit.dk + tile.j0 * unit.dk_row, unit.dk_row, s.ahead);
  }
  if (plan.dkey_numbers) {
    float* to = plan.dkey_numbers + (b * plan.H + h) * plan.k_places.padded + tile.j0;
    for (int64_t c = 0; c < kTile; c += kLanes) {
      Vec sum = zero();
      for (int64_t i = 0; i < tile.rows; ++i) sum = sum + load(s.ds + i * kTileRow + c);
      store(to + c, load(to + c) + sum);
    }
  }
  const RowsTerm& key_rows = plan.key_rows;
  if (key_rows.on) {
    const float* ds = gradient_of(key_rows.inside);
    if (key_rows.panel) {
      const int64_t in_group = h - unit.hk * plan.group;
      scatter_key_rows(key_rows, tile, ds,
                       unit.dk_rows + (in_group * plan.k_places.padded + tile.j0) * key_rows.columns);
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
                              key_rows.gradient + (b * plan.H + h) * key_rows.used * key_rows.width);
      }
    }
  }
  pass_turn(unit, kt, query.number);
  query.fresh = false;
}

inline void begin_query_tile(const Plan& plan, QueryTile& query) {
  const int64_t b = query.b, h = query.h, i0 = query.index * kTile;
  query.rows = at_most(kTile, plan.Q - i0);
  query.q = load_queries(plan, b, h, query.index, true, query.q_rows, query.q_bias);
  query.dout = Left{plan.dout.at(b, h, i0), plan.dout.row, 1};
  if (plan.bf16 || plan.Dv % kLanes != 0) {
    for (int64_t i = 0; i < query.rows; ++i) {
      read_row(plan.dout, b, h, i0 + i, plan.Dv, query.dout_rows + i * plan.value_width, plan.value_width);
    }
    query.dout = Left{query.dout_rows, plan.value_width, 1};
  }
  const bool in_place = plan.dq.data && plan.D % kLanes == 0;
  query.dq = in_place ? plan.dq.at(b, h, i0) : query.dq_rows;
  query.dq_row = in_place ? plan.dq.row : plan.width;
  for (int64_t i = 0; i < query.rows; ++i) {
    const float lse = plan.lse_in[b * plan.lse_batch + h * plan.lse_head + (i0 + i) * plan.lse_row];
    // A row that saw nothing has no probabilities.
    query.lse[i] = lse == -__builtin_inff() ? -kMasked : lse * 1.4426950408889634f;
  }
  for (int64_t r = 0; r < query.rows; r += kLanes) {
    Vec sums[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) {
      sums[l] = zero();
      if (r + l >= query.rows) continue;
      const float* x = query.dout.data + (r + l) * query.dout.row;
      const auto multiply = [&](const auto* y, auto load_y, auto load_first_y) {
        int64_t c = 0;
        for (; c + kLanes <= plan.Dv; c += kLanes) sums[l] = fma(load(x + c), load_y(y + c), sums[l]);
        const int n = static_cast<int>(plan.Dv - c);
        if (n > 0) sums[l] = fma(load_first(x + c, n), load_first_y(y + c, n), sums[l]);
      };
      if (plan.bf16) {
        multiply(plan.out_in.bf16.at(b, h, i0 + r + l), load_bf16, load_first_bf16);
      } else {
        multiply(plan.out_in.at(b, h, i0 + r + l), load, load_first);
      }
    }
    store(query.delta + r, rows_sum(sums) * set(plan.gradient_factor));
  }
  if (query.number_gradient.entries) {
    clear(query.number_gradient.entries, plan.number.map.n + 2);
    query.number_gradient.sides[0] = query.number_gradient.sides[1] = 0;
  }
  if (plan.K == 0) return;
  const Range d = distances_of(plan, b, query.index, 0, plan.k_places.tiles);
  if (plan.query_rows.on && plan.query_rows.panel) {
    open_rows(plan.query_rows, h, d.first, d.last, query.q.plain, query.rows, query.terms.query);
    clear_window(plan.query_rows, d.first, d.last, query.rows, query.dquery, query.dquery_sides);
  }
  if (plan.value_rows.on && plan.value_rows.panel) {
    open_rows(plan.value_rows, h, d.first, d.last, query.dout, query.rows, query.terms.value);
    clear_window(plan.value_rows, d.first, d.last, query.rows, query.value_sums, query.value_sides);
  }
}

inline void finish_query_tile(const Plan& plan, BackwardScratch& s, const KeyUnit& unit,
                              const QueryTile& query) {
  const int64_t b = query.b, h = query.h, i0 = query.index * kTile, bh = b * plan.H + h;
  for (int64_t i = 0; query.fresh && i < query.rows; ++i) clear(query.dq + i * query.dq_row, plan.width);
  if (plan.dcontent) {
    for (int64_t c = 0; c < plan.width; c += kLanes) {
      Vec sum = zero();
      for (int64_t i = 0; i < query.rows; ++i) sum = sum + load(query.dq + i * query.dq_row + c);
      store(s.dcontent + c, sum);
    }
  }
  const bool query_window = plan.query_rows.on && plan.query_rows.panel && plan.K > 0;
  if (query_window) {
    add_sides(plan.query_rows, query.rows, query.dquery_sides, query.dquery);
    add_window_rows(plan.query_rows, h, query.rows, query.dquery, query.dq, query.dq_row);
  }
  for (int64_t i = 0; plan.dq && i < query.rows; ++i) {
    float* row = query.dq + i * query.dq_row;
    if (plan.q_turn.cosine) turn_row(plan.q_turn, plan.q_turn.at(b, i0 + i), true, row);
    if (plan.bf16 || row != plan.dq.at(b, h, i0 + i)) write_row(row, plan.D, 1, plan.dq, b, h, i0 + i);
  }
  if (plan.value_rows.gradient && plan.value_rows.panel && plan.K > 0) {
    add_sides(plan.value_rows, query.rows, query.value_sides, query.value_sums);
  }
  // The tables, in turn.
  const int64_t last = plan.k_places.tiles;
  wait_for_turn(plan, unit, last, query.number);
  if (query.number_gradient.entries) {
    const int64_t n = plan.number.map.n + 2;
    float* to = plan.number.gradient + bh * n;
    int64_t e = 0;
    for (; e + kLanes <= n; e += kLanes) store(to + e, load(to + e) + load(query.number_gradient.entries + e));
    for (; e < n; ++e) to[e] += query.number_gradient.entries[e];
    for (int side = 0; side < 2; ++side) {
      plan.number.side_gradient[bh * 2 + side] += query.number_gradient.sides[side];
    }
  }
  if (plan.dcontent) {
    float* to = plan.dcontent + bh * plan.width;
    for (int64_t c = 0; c < plan.width; c += kLanes) store(to + c, load(to + c) + load(s.dcontent + c));
  }
  if (query_window && plan.query_rows.gradient) {
    const RowsTerm& term = plan.query_rows;
    add_window_gradient(term, query.dquery, query.rows, query.q.plain.data, query.q.plain.row,
                        term.gradient + bh * term.used * term.width);
  }
  if (plan.value_rows.gradient && plan.value_rows.panel && plan.K > 0) {
    const RowsTerm& term = plan.value_rows;
    add_window_gradient(term, query.value_sums, query.rows, query.dout.data, query.dout.row,
                        term.gradient + bh * term.used * term.width);
  }
  pass_turn(unit, last, query.number);
}

// Query tiles [first, last) of a unit, all of one head, over the keys together: what a key tile needs
// then stays in the cache for all of them.
inline void backward_part(const Plan& plan, BackwardScratch& s, const KeyUnit& unit, int64_t first,
                          int64_t last) {
  const int64_t query_tiles = plan.q_places.tiles, h = unit.hk * plan.group + first / query_tiles;
  for (int64_t n = first; n < last; ++n) {
    QueryTile& query = s.queries[n - first];
    query.b = unit.b;
    query.h = h;
    query.index = n % query_tiles;
    query.number = static_cast<int32_t>(n);
    query.fresh = true;
    begin_query_tile(plan, query);
  }
  open_store(plan, s.keys, unit.b, h, 0);
  for (int64_t kt = 0; kt < plan.k_places.tiles; ++kt) {
    for (int64_t n = first; n < last; ++n) {
      QueryTile& query = s.queries[n - first];
      Tile tile;
      if (find_tile(plan, unit.b, query.index, kt, tile)) {
        pack_tile(plan, s.keys, unit.b, h, kt, true);
        backward_tile(plan, s, unit, kt, tile, query);
      } else {
        wait_for_turn(plan, unit, kt, query.number);
        pass_turn(unit, kt, query.number);
      }
    }
  }
  for (int64_t n = first; n < last; ++n) finish_query_tile(plan, s, unit, s.queries[n - first]);
}

// What the next key head will read and write.
inline void look_ahead(const Plan& plan, int64_t b, int64_t hk, Ahead& ahead) {
  const int64_t h = hk * plan.group;
  ahead.add(plan.k, b, hk, plan.K, plan.D);
  ahead.add(plan.v, b, hk, plan.K, plan.Dv);
  ahead.add(plan.q, b, h, plan.Q, plan.D);
  ahead.add(plan.dout, b, h, plan.Q, plan.Dv);
  ahead.add(plan.out_in, b, h, plan.Q, plan.Dv);
  ahead.add(plan.dq, b, h, plan.Q, plan.D);
  ahead.add(plan.dv, b, hk, plan.K, plan.Dv);
  ahead.add(plan.dk, b, hk, plan.K, plan.D);
}

// The end of a key head: gradients through k . rows, back through the rotation, out.
inline void finish_keys(const Plan& plan, BackwardScratch& s, const KeyUnit& unit) {
  const RowsTerm& rows = plan.key_rows;
  const bool through_rows = rows.on && rows.panel;
  for (int64_t kt = 0; kt < plan.k_places.tiles; ++kt) {
    const int64_t j0 = kt * kTile, keys = at_most(kTile, plan.K - j0);
    float* dk = unit.dk ? unit.dk + j0 * unit.dk_row : nullptr;
    float* dv = unit.dv ? unit.dv + j0 * unit.dv_row : nullptr;
    if (!unit.touched[kt]) {
      for (int64_t j = 0; dk && j < keys; ++j) clear(dk + j * unit.dk_row, plan.width);
      for (int64_t j = 0; dv && j < keys; ++j) clear(dv + j * unit.dv_row, plan.value_width);
    }
    for (int64_t h = unit.hk * plan.group; through_rows && h < (unit.hk + 1) * plan.group; ++h) {
      const float* gradient = unit.dk_rows + ((h - unit.hk * plan.group) * plan.k_places.padded + j0) *
                                                 rows.columns;
      if (dk) {
        product(keys, rows.width / kLanes, rows.used, Left{gradient, rows.columns, 1},
                Right{rows.rows_of(h), rows.width}, Start{dk, unit.dk_row, nullptr},
                StoreTo{dk, unit.dk_row});
      }
      if (rows.gradient) {
        open_store(plan, s.keys, unit.b, h, 0);
        pack_tile(plan, s.keys, unit.b, h, kt, true);
        const KeyRows k = key_rows_of(plan, s.keys, unit.b, unit.hk, kt, true);
        float* out = rows.gradient + (unit.b * plan.H + h) * rows.used * rows.width;
        product(rows.used, rows.width / kLanes, keys, Left{gradient, 1, rows.columns},
                Right{k.data, k.row}, Start{out, rows.width, nullptr}, StoreTo{out, rows.width});
      }
    }
    for (int64_t j = 0; j < keys; ++j) {
      if (dk) {
        float* row = dk + j * unit.dk_row;
        if (plan.k_turn.cosine) turn_row(plan.k_turn, plan.k_turn.at(unit.b, j0 + j), true, row);
        if (plan.bf16 || row != plan.dk.at(unit.b, unit.hk, j0 + j)) {
          write_row(row, plan.D, 1, plan.dk, unit.b, unit.hk, j0 + j);
        }
      }
      if (dv) {
        const float* row = dv + j * unit.dv_row;
        if (plan.bf16 || row != plan.dv.at(unit.b, unit.hk, j0 + j)) {
          write_row(row, plan.Dv, 1, plan.dv, unit.b, unit.hk, j0 + j);
        }
      }
    }
  }
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
