// Backward: the forward read from the end, for every query tile over the key tiles its mask keeps
//   1 scores        P = exp2(S - lse), S as in the forward
//   2 softmax       dS = P (dP - delta), dP = dO V^T (+ dO . value rows), delta = sum of dO O
//   3 outputs       dV += P^T dO, and P summed by rows of the value table
//   1 scores        dK += dS^T Q, dQ += dS K, and dS summed by entries, rows and keys of the terms
// dS carries the scale (Plan::gradient_factor), so that dQ and dK need no factor.
//
// Everything is summed in an order that depends on the shapes only: dQ over ascending key tiles, dK
// and dV over ascending query tiles, tables over the query tiles of a head and then over heads.
//
// Rooms: backward_scratch-inl.h (query tiles before and after), backward_tile-inl.h (one tile), here
// (query tiles over the keys, the end of a key head).
#pragma once

#include "locant/attention/backward_tile-inl.h"

namespace locant::attention::LOCANT_SIMD_NAMESPACE {

// Long sequences: what the next key tile will read while keys are packed; at the last key tile, the
// query tile that comes `step` later.
inline void look_ahead(const Plan& plan, const KeyStore& keys, const QueryTile& query, int64_t hk,
                       int64_t kt, int64_t step, Ahead& near) {
  near = Ahead();
  const int64_t b = query.b, h = query.h, next = kt + 1;
  if (next < plan.k_places.tiles_of(b)) {
    if (keys.packed[keys.slot(next)]) return;
    const int64_t first = next * kTile, last = at_most(plan.keys(b), first + kTile);
    near.add(plan.k, b, hk, first, last, plan.D);
    near.add(plan.v, b, hk, first, last, plan.Dv);
  } else if (query.index + step < plan.q_places.tiles_of(b)) {
    const int64_t first = (query.index + step) * kTile, last = at_most(plan.queries(b), first + kTile);
    near.add(plan.q, b, h, first, last, plan.D);
    near.add(plan.dout, b, h, first, last, plan.Dv);
    near.add(plan.out_in, b, h, first, last, plan.Dv);
  }
}

// Query tiles [first, last) of a unit, all of one head, over the keys together: what a key tile needs
// then stays in the cache for all of them.
inline void backward_part(const Plan& plan, BackwardScratch& s, const KeyUnit& unit, int64_t first,
                          int64_t last) {
  const int64_t query_tiles = plan.q_places.tiles_of(unit.b), h = unit.hk * plan.group + first / query_tiles;
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
  const bool looks_far = s.ahead;
  Ahead near;
  for (int64_t kt = 0; kt < plan.k_places.tiles_of(unit.b); ++kt) {
    for (int64_t n = first; n < last; ++n) {
      QueryTile& query = s.queries[n - first];
      Tile tile;
      if (find_tile(plan, unit.b, query.index, kt, tile)) {
        pack_tile(plan, s.keys, unit.b, h, kt, true);
        if (!looks_far) {
          look_ahead(plan, s.keys, query, unit.hk, kt, last - first, near);
          s.ahead = near.count ? &near : nullptr;
        }
        backward_tile(plan, s, unit, kt, tile, query);
      } else {
        int32_t* turn = unit.turn ? unit.turn + kt : nullptr;
        wait_for_turn(plan, turn, query.number);
        pass_turn(turn, query.number);
      }
    }
  }
  if (!looks_far) s.ahead = nullptr;
  for (int64_t n = first; n < last; ++n) finish_query_tile(plan, s, unit, s.queries[n - first]);
}

// What the next key head will read and write.
inline void look_ahead(const Plan& plan, int64_t b, int64_t hk, Ahead& ahead) {
  const int64_t h = hk * plan.group;
  ahead.add(plan.k, b, hk, 0, plan.keys(b), plan.D);
  ahead.add(plan.v, b, hk, 0, plan.keys(b), plan.Dv);
  ahead.add(plan.q, b, h, 0, plan.queries(b), plan.D);
  ahead.add(plan.dout, b, h, 0, plan.queries(b), plan.Dv);
  ahead.add(plan.out_in, b, h, 0, plan.queries(b), plan.Dv);
  ahead.add(plan.dq, b, h, 0, plan.queries(b), plan.D);
  ahead.add(plan.dv, b, hk, 0, plan.keys(b), plan.Dv);
  ahead.add(plan.dk, b, hk, 0, plan.keys(b), plan.D);
}

// The end of a key head: gradients through k . rows, back through the rotation, out.
inline void finish_keys(const Plan& plan, BackwardScratch& s, const KeyUnit& unit) {
  const RowsTerm& rows = plan.key_rows;
  const bool through_rows = rows.on && !rows.by_pair;
  for (int64_t kt = 0; kt < plan.k_places.tiles_of(unit.b); ++kt) {
    const int64_t j0 = kt * kTile, keys = at_most(kTile, plan.keys(unit.b) - j0);
    float* dk = unit.dk ? unit.dk + j0 * unit.dk_row : nullptr;
    float* dv = unit.dv ? unit.dv + j0 * unit.dv_row : nullptr;
    if (!unit.touched[kt]) {
      for (int64_t j = 0; dk && j < keys; ++j) clear(dk + j * unit.dk_row, plan.width);
      for (int64_t j = 0; dv && j < keys; ++j) clear(dv + j * unit.dv_row, plan.value_width);
    }
    for (int64_t h = unit.hk * plan.group; through_rows && unit.touched[kt] && h < (unit.hk + 1) * plan.group; ++h) {
      const float* gradient = unit.dk_rows + ((h - unit.hk * plan.group) * plan.k_places.tiles_of(unit.b) *
                                                     kTile + j0) * rows.columns;
      // Other columns hold zeros.
      const Range columns = key_columns(plan, unit.b, kt);
      gradient += columns.first * kTile;
      if (dk) {
        product(keys, rows.width / kLanes, columns.count(), Left{gradient, 1, kTile},
                Right{rows.rows_of(h) + columns.first * rows.width, rows.width},
                Start{dk, unit.dk_row, nullptr}, StoreTo{dk, unit.dk_row});
      }
      if (rows.gradient) {
        open_store(plan, s.keys, unit.b, h, 0);
        pack_tile(plan, s.keys, unit.b, h, kt, true);
        const KeyRows k = key_rows_of(plan, s.keys, unit.b, unit.hk, kt);
        float* out = rows.gradient + (plan.sum_of(unit.b, h) * rows.used + columns.first) * rows.width;
        product(columns.count(), rows.width / kLanes, keys, Left{gradient, kTile, 1},
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
