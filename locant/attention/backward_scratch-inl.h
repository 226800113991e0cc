// The scratch of backward, and a query tile before and after its way over the keys: what is loaded for
// it, and where its gradients go. Query tiles add to what they share in turn, so that sums do not
// depend on who computes them.
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
  Left dout_values;             // as the left operand of dO V^T
  Right q_by_row, dout_by_row;  // right operands of products over rows
  float* dq;  // in the caller's memory where rows are whole vectors
  int64_t dq_row;
  float *lse, *delta;     // [kTile], log2 units, less log2_keep_factor; times delta_factor
  int32_t* drop_keys;     // [2][kTile]
  TermState terms;        // windows of q . rows and dO . rows
  Window dquery;          // gradient of q . rows
  Window value_sums;      // probabilities by value row
  SideSums dquery_sides, value_sides;
  NumberGradient number_gradient;
  float *q_rows, *q_bias;  // [kTile][width]
  float* dout_rows;        // [kTile][value_width]
  float *q_pairs, *dout_pairs;          // [kTile][units of a row]
  float *q_row_pairs, *dout_row_pairs;  // [units of kTile][width], [value_width]
  float* dq_rows;          // [kTile][width]
  float* dq_by_pair;       // [kTile][width], what query rows too many for a window give
};

struct BackwardScratch {
  KeyStore keys;
  QueryTile* queries;  // [part_tiles]
  float *p, *ds;       // [kTile][kTileRow], zero beside the rows
  float* ds_inside;    // inside the softcap; without one the same as ds
  float* after;        // with a softcap: the terms outside of it
  // Pairs only, of p and ds_inside: along the rows [units of kTile][kTile], along the columns
  // [kTile][units of kTile].
  float *p_row_pairs, *ds_row_pairs, *ds_column_pairs;
  bool ds_is_read;     // something besides products reads ds
  float* dcontent;     // [width]
  Ahead* ahead;
};

inline float* cut_tile(Cutter& cutter) {
  float* at = cutter.cut<float>(kLanes + kTile * kTileRow + kLanes);
  if (!cutter.memory) return nullptr;
  for (float* c = at; c < at + kLanes + kTile * kTileRow + kLanes; c += kLanes) store(c, zero());
  return at + kLanes;
}

// Sums by rows whose map is no straight line are added up with queries along the lanes.
inline void turn_window(const RowsTerm& term, Window& window) {
  if (term.affine) return;
  window.row = 1;
  window.step = kTile;
}

inline size_t cut_backward(const Plan& plan, BackwardScratch& s, char* memory) {
  Cutter cutter{memory};
  s = BackwardScratch();
  cut_keys(plan, true, s.keys, cutter);
  s.queries = cutter.cut<QueryTile>(plan.part_tiles);
  float* distance_window = cutter.cut<float>(2 * kTile + 2 * kLanes);
  float* column_numbers = cutter.cut<float>(2 * kTile);
  float* gradient_window = cutter.cut<float>(2 * kTile + 2 * kLanes);
  for (int64_t n = 0; n < plan.part_tiles; ++n) {
    QueryTile query = {};
    if (plan.query_rows.on && !plan.query_rows.by_pair) {
      cut_window(cutter, plan.query_rows, query.terms.query);
      cut_window(cutter, plan.query_rows, query.dquery);
      turn_window(plan.query_rows, query.dquery);
      query.dquery_sides.data = cutter.cut<float>(2 * kTile * kLanes);
    }
    if (plan.value_rows.on && !plan.value_rows.by_pair) {
      cut_window(cutter, plan.value_rows, query.terms.value);
      cut_window(cutter, plan.value_rows, query.value_sums);
      turn_window(plan.value_rows, query.value_sums);
      query.value_sides.data = cutter.cut<float>(2 * kTile * kLanes);
    }
    query.terms.distance_window = distance_window;
    query.terms.column_numbers = column_numbers;
    if (plan.number.gradient) {
      query.number_gradient.entries = cutter.cut<float>(plan.number.map.n + 2);
      query.number_gradient.sides = cutter.cut<double>(2);
      query.number_gradient.window = memory ? gradient_window + kLanes : nullptr;
    }
    query.q_rows = cutter.cut<float>(kTile * plan.width);
    query.q_bias = cutter.cut<float>(kTile * plan.width);
    query.dout_rows = cutter.cut<float>(kTile * plan.value_width);
    if (kPairs) {
      query.q_pairs = cutter.cut<float>(kTile * unit_row(plan.width));
      query.dout_pairs = cutter.cut<float>(kTile * unit_row(plan.value_width));
      query.q_row_pairs = cutter.cut<float>(units(kTile) * plan.width);
      query.dout_row_pairs = cutter.cut<float>(units(kTile) * plan.value_width);
    }
    query.lse = cutter.cut<float>(kTile);
    query.delta = cutter.cut<float>(kTile);
    query.drop_keys = cutter.cut<int32_t>(2 * kTile);
    query.dq_rows = cutter.cut<float>(kTile * plan.width);
    if (plan.query_rows.by_pair) query.dq_by_pair = cutter.cut<float>(kTile * plan.width);
    if (memory) s.queries[n] = query;
  }
  s.p = cut_tile(cutter);
  s.ds = s.ds_inside = cut_tile(cutter);
  if (plan.cap != 0 || plan.inside_factor != 1) s.ds_inside = cut_tile(cutter);
  if (plan.cap != 0) s.after = cut_tile(cutter);
  if (kPairs) {
    s.p_row_pairs = cutter.cut<float>(units(kTile) * kTile);
    s.ds_row_pairs = cutter.cut<float>(units(kTile) * kTile);
    s.ds_column_pairs = cutter.cut<float>(kTile * units(kTile));
  }
  s.ds_is_read = plan.number.gradient || plan.query_rows.on || plan.key_rows.on || plan.dkey_numbers ||
                 plan.dhook;
  s.dcontent = cutter.cut<float>(plan.width);
  return cutter.used;
}

// Turns: waits until all that comes before `number` is done with what the turn is for. Null: alone.
inline void wait_for_turn(const Plan& plan, const int32_t* turn, int32_t number) {
  if (!turn) return;
  while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != number) plan.wait();
}
inline void pass_turn(int32_t* turn, int32_t number) {
  if (turn) __atomic_store_n(turn, number + 1, __ATOMIC_RELEASE);
}

inline void begin_query_tile(const Plan& plan, QueryTile& query) {
  const int64_t b = query.b, h = query.h, i0 = query.index * kTile;
  query.rows = at_most(kTile, plan.queries(b) - i0);
  // A row that saw nothing has no probabilities, and its numbers, which may be NaN, are nobody's.
  bool blind[kTile], some_blind = false;
  for (int64_t i = 0; i < query.rows; ++i) {
    const float lse = plan.lse_in[plan.lse_at(b, h, i0 + i)];
    blind[i] = lse == -__builtin_inff();
    some_blind |= blind[i];
    query.lse[i] = blind[i] ? -kMasked : lse * 1.4426950408889634f - plan.dropout.log2_keep_factor;
  }
  query.q = load_queries(plan, b, h, query.index, true, some_blind ? blind : nullptr, query.q_rows, query.q_bias,
                         query.q_pairs);
  query.dout = Left{plan.dout.at(b, h, i0), plan.dout.row, 1};
  if (plan.bf16 || plan.Dv % kLanes != 0 || some_blind) {
    for (int64_t i = 0; i < query.rows; ++i) {
      float* row = query.dout_rows + i * plan.value_width;
      if (blind[i]) {
        clear(row, plan.value_width);
      } else {
        read_row(plan.dout, b, h, i0 + i, plan.Dv, row, plan.value_width);
      }
    }
    query.dout = Left{query.dout_rows, plan.value_width, 1};
  }
  query.dout_values = query.dout;
  query.q_by_row = Right{query.q.bias.data, query.q.bias.row};
  query.dout_by_row = Right{query.dout.data, query.dout.row};
  if constexpr (kPairs) {
    const int64_t width = plan.width, value_width = plan.value_width;
    pair_columns(query.dout.data, query.dout.row, query.rows, value_width, query.dout_pairs,
                 unit_row(value_width));
    pair_rows(query.q.bias.data, query.q.bias.row, query.rows, width, query.q_row_pairs, width);
    pair_rows(query.dout.data, query.dout.row, query.rows, value_width, query.dout_row_pairs,
              value_width);
    query.dout_values = Left{query.dout_pairs, unit_row(value_width), 1};
    query.q_by_row = Right{query.q_row_pairs, width};
    query.dout_by_row = Right{query.dout_row_pairs, value_width};
  }
  const bool in_place = plan.dq.data && plan.D % kLanes == 0;
  query.dq = in_place ? plan.dq.at(b, h, i0) : query.dq_rows;
  query.dq_row = in_place ? plan.dq.row : plan.width;
  if (plan.dropout.on) draw_row_keys(plan, b, h, query.index, query.drop_keys);
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
    store(query.delta + r, rows_sum(sums) * set(plan.delta_factor));
  }
  if (query.number_gradient.entries) {
    clear(query.number_gradient.entries, plan.number.map.n + 2);
    query.number_gradient.sides[0] = query.number_gradient.sides[1] = 0;
  }
  if (query.dq_by_pair) clear(query.dq_by_pair, kTile * plan.width);
  if (plan.keys(b) == 0) return;
  const Range d = distances_of(plan, b, query.index, 0, plan.k_places.tiles_of(b));
  if (plan.query_rows.on && !plan.query_rows.by_pair) {
    open_rows(plan.query_rows, h, d.first, d.last, query.q.plain, query.rows, query.terms.query);
    clear_window(plan.query_rows, d.first, d.last, query.rows, query.dquery, query.dquery_sides, plan.simple);
  }
  if (plan.value_rows.on && !plan.value_rows.by_pair) {
    open_rows(plan.value_rows, h, d.first, d.last, query.dout, query.rows, query.terms.value);
    clear_window(plan.value_rows, d.first, d.last, query.rows, query.value_sums, query.value_sides, plan.simple);
  }
}

inline void finish_query_tile(const Plan& plan, BackwardScratch& s, const KeyUnit& unit,
                              const QueryTile& query) {
  const int64_t b = query.b, h = query.h, i0 = query.index * kTile;
  const int64_t sum = plan.sum_of(b, h);
  for (int64_t i = 0; query.fresh && i < query.rows; ++i) clear(query.dq + i * query.dq_row, plan.width);
  if (plan.dcontent) {
    for (int64_t c = 0; c < plan.width; c += kLanes) {
      Vec total = zero();
      for (int64_t i = 0; i < query.rows; ++i) total = total + load(query.dq + i * query.dq_row + c);
      store(s.dcontent + c, total);
    }
  }
  const bool query_window = plan.query_rows.on && !plan.query_rows.by_pair && plan.keys(b) > 0;
  if (query_window) {
    add_sides(plan.query_rows, query.rows, query.dquery_sides, query.dquery);
    add_window_rows(plan.query_rows, h, query.rows, query.dquery, query.dq, query.dq_row);
  }
  for (int64_t i = 0; query.dq_by_pair && i < query.rows; ++i) {
    for (int64_t c = 0; c < plan.width; c += kLanes) {
      float* to = query.dq + i * query.dq_row + c;
      store(to, load(to) + load(query.dq_by_pair + i * plan.width + c));
    }
  }
  for (int64_t i = 0; plan.dq && i < query.rows; ++i) {
    float* row = query.dq + i * query.dq_row;
    if (plan.q_turn.cosine) turn_row(plan.q_turn, plan.q_turn.at(b, i0 + i), true, row);
    if (plan.bf16 || row != plan.dq.at(b, h, i0 + i)) write_row(row, plan.D, 1, plan.dq, b, h, i0 + i);
  }
  if (plan.value_rows.gradient && !plan.value_rows.by_pair && plan.keys(b) > 0) {
    add_sides(plan.value_rows, query.rows, query.value_sides, query.value_sums);
  }
  // The tables, in turn.
  const int32_t number = unit.tables_before + query.number;
  wait_for_turn(plan, unit.table_turn, number);
  if (query.number_gradient.entries) {
    const int64_t n = plan.number.map.n + 2;
    float* to = plan.number.gradient + sum * n;
    int64_t e = 0;
    for (; e + kLanes <= n; e += kLanes) store(to + e, load(to + e) + load(query.number_gradient.entries + e));
    for (; e < n; ++e) to[e] += query.number_gradient.entries[e];
    for (int side = 0; side < 2; ++side) {
      plan.number.side_gradient[sum * 2 + side] += query.number_gradient.sides[side];
    }
  }
  if (plan.dcontent) {
    float* to = plan.dcontent + sum * plan.width;
    for (int64_t c = 0; c < plan.width; c += kLanes) store(to + c, load(to + c) + load(s.dcontent + c));
  }
  if (query_window && plan.query_rows.gradient) {
    const RowsTerm& term = plan.query_rows;
    add_window_gradient(term, query.dquery, query.rows, query.q.plain.data, query.q.plain.row,
                        term.gradient + sum * term.used * term.width);
  }
  if (plan.value_rows.gradient && !plan.value_rows.by_pair && plan.keys(b) > 0) {
    const RowsTerm& term = plan.value_rows;
    add_window_gradient(term, query.value_sums, query.rows, query.dout.data, query.dout.row,
                        term.gradient + sum * term.used * term.width);
  }
  pass_turn(unit.table_turn, number);
}

}  // namespace locant::attention::LOCANT_SIMD_NAMESPACE
