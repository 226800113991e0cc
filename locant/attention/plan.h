// One call as plain data: what the code compiled per instruction set reads. No std:: in here, so
// that nothing inline can leak from one instruction set to another. Built by plan.cc, once a call.
//
// Scores are kept in units of log2: every factor of the score and log2(e) is folded into the packed
// keys, the tables and the numbers per key, so that exp is one exp2.
#pragma once

#include <cstdint>

#include "locant/position/tile_hook.h"

// Never a function of its own: the linker would keep one copy, compiled for whatever instruction set.
#define LOCANT_PLAN_INLINE __attribute__((always_inline))

namespace locant::attention {

// Queries and keys of a tile of scores; rows of a tile buffer are kTileRow apart. The gap is kept
// zero where a buffer is read along its diagonals.
constexpr int64_t kTile = 64;
constexpr int64_t kTileRow = 80;

// A masked score, and the least that any other can be: finite, so that no difference of two is NaN.
constexpr float kMasked = -1e30f, kLeast = -1e28f;

// One array [batch][head][token][channel] whose last stride is 1; or [head][token][channel] with the
// sequences one after the other.
template <class T>
struct Rows {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;  // strides
  const int64_t* start = nullptr;        // packed: first token of each sequence
  LOCANT_PLAN_INLINE T* at(int64_t b, int64_t h, int64_t r) const {
    return data + (start ? start[b] * row : b * batch) + h * head + r * row;
  }
  LOCANT_PLAN_INLINE explicit operator bool() const { return data != nullptr; }
};

// An array of the caller: of floats, or of bf16 numbers, which then stand in `bf16`.
template <class Float, class Half>
struct Array : Rows<Float> {
  Rows<Half> bf16;
  LOCANT_PLAN_INLINE explicit operator bool() const { return this->data || bf16.data; }
};
using ReadArray = Array<const float, const uint16_t>;
using WrittenArray = Array<float, uint16_t>;

// What masks and terms need to know of the positions in a tile of tokens.
struct TileSpan {
  int32_t min = 0, max = 0;
  int32_t consecutive = 0;  // token n stands at min + n
};

// Tokens of one side: how many, and where they stand. Arrays are padded to whole tiles with positions
// of -1, which no mask keeps. Packed sequences differ in length: each has whole tiles of its own.
struct Places {
  const int32_t* position = nullptr;  // [batch][padded], packed: sequence after sequence
  const TileSpan* tile = nullptr;     // [batch][tiles]
  int64_t length = 0, padded = 0, tiles = 0;  // packed: of the longest sequence
  int64_t batch = 0;                  // 0: shared by the batch, 1: one row of them each
  const int64_t* start = nullptr;       // packed: [B + 1] first tokens; null: not packed
  const int64_t* first_tile = nullptr;  // packed: [B + 1]
  LOCANT_PLAN_INLINE int64_t length_of(int64_t b) const { return start ? start[b + 1] - start[b] : length; }
  LOCANT_PLAN_INLINE int64_t tiles_of(int64_t b) const {
    return start ? first_tile[b + 1] - first_tile[b] : tiles;
  }
  // Tokens, and tiles, of all sequences before this one.
  LOCANT_PLAN_INLINE int64_t tokens_before(int64_t b) const { return start ? start[b] : b * length; }
  LOCANT_PLAN_INLINE int64_t tiles_before(int64_t b) const { return start ? first_tile[b] : b * tiles; }
  LOCANT_PLAN_INLINE int64_t own_tiles(int64_t b) const { return start ? first_tile[b] : b * batch * tiles; }
  LOCANT_PLAN_INLINE const int32_t* positions(int64_t b) const { return position + own_tiles(b) * kTile; }
  LOCANT_PLAN_INLINE const TileSpan* spans(int64_t b) const { return tile + own_tiles(b); }
};

// cos and sin (times magnitude and growth) of every token of one side: [batch][token][pairs].
struct Turn {
  const float* cosine = nullptr;  // null: no rotation
  const float* sine = nullptr;
  int64_t pairs = 0;
  bool interleaved = false;
  int64_t batch = 0;  // stride, 0: shared
  const int64_t* start = nullptr;  // packed: first tokens
  LOCANT_PLAN_INLINE int64_t at(int64_t b, int64_t token) const {
    return (start ? start[b] * pairs : b * batch) + token * pairs;
  }
};

// From a distance d to an entry e: 0 before `first`, 1 .. n inside, n+1 after; rows[e] is the table
// row, -1 for none. Clipped to the distances of the call.
struct Map {
  int64_t first = 0, n = 0;
  int64_t top = 0;               // no distance is larger: min(first + n, largest distance of the call)
  const int32_t* rows = nullptr;  // [n + 2]
  LOCANT_PLAN_INLINE int64_t entry(int64_t d) const {
    return d < first ? 0 : d - first < n ? d - first + 1 : n + 1;
  }
};

// Number per distance. values[h][n + 2], by entry. left and right: per step beyond the map.
struct NumberTerm {
  bool on = false;
  bool inside = false;  // of the scale, and of the softcap
  Map map;
  const float* values = nullptr;
  const float* left = nullptr;  // [heads] or null
  const float* right = nullptr;
  int64_t heads = 1;      // 1: shared
  double left_extra = 0;  // distance from the published first entry to the clipped one
  double right_extra = 0;
  // Gradients, one for each sum (Plan::sum_of): [sums][n + 2] and [sums][2]. Null: not wanted.
  float* gradient = nullptr;
  double* side_gradient = nullptr;
  LOCANT_PLAN_INLINE int64_t head(int64_t h) const { return heads == 1 ? 0 : h; }
};

// Query, key or value rows. Only rows reachable in this call are kept, as columns 1 .. of a product;
// column 0 and the one after the last are zero and stand for "no row".
struct RowsTerm {
  bool on = false;
  bool inside = false;
  Map map;
  int64_t heads = 1;          // 1: shared
  int64_t used = 0;           // columns that mean something: reachable rows + 2
  int64_t columns = 0;        // of a product; of a panel padded so that any pick stays inside
  int64_t first_row = 0;      // table row of column 1
  int64_t width = 0;          // of a row, padded to whole vectors
  const int32_t* column = nullptr;  // [map.n + 2], by entry
  bool by_pair = false;    // too large for products: every pair multiplies its row
  float* panel = nullptr;  // query and value rows: [heads][channels][columns], transposed, times the
                           // factor of its scores. Null: not needed
  float* rows = nullptr;   // [heads][used][width]: times `row_factor`
  float factor = 1, row_factor = 1;
  // kLanes neighbouring distances pick from kLanes neighbouring columns: the window that starts at
  // distance first - kLanes + w reads low[w] + lanes[w][.], w in [0, n + kLanes]. Null: some window
  // spans too many columns.
  const int32_t* low = nullptr;
  const uint8_t* lanes = nullptr;
  bool steady = false;  // neighbouring distances have neighbouring columns, or the same
  bool affine = false;  // inside the map, column = entry + affine_offset
  int64_t affine_offset = 0;
  int64_t window = 0;  // columns that one query tile and one chunk of keys can reach, at most `columns`
  // Gradients for each unit (b, h): [B * H][used][width]. Null: not wanted.
  float* gradient = nullptr;
  const float* source = nullptr;  // the caller's table [heads][count][source_width]
  int64_t count = 0, source_width = 0;
  LOCANT_PLAN_INLINE int64_t head(int64_t h) const { return heads == 1 ? 0 : h; }
  int64_t channels = 0;
  LOCANT_PLAN_INLINE const float* panel_of(int64_t h) const {
    return panel + head(h) * channels * columns;
  }
  LOCANT_PLAN_INLINE const float* rows_of(int64_t h) const { return rows + head(h) * used * width; }
};

// Dropout: pair (i, j) is kept when keyed_hash of j's token under the keys of row i reaches the
// threshold (dropout.h).
struct DropoutTerm {
  bool on = false;
  uint32_t threshold = 0;
  float keep_factor = 1;              // 1 / (1 - rate)
  float log2_keep_factor = 0;
  const int32_t* k_tokens = nullptr;  // [K padded], packed and given: one list for each sequence
  bool listed = false;                // they are given and packed
  // Fills keys[0][n] and keys[1][n] (kTile apart) for queries [i0, i0 + n) of (b, h).
  void (*draw)(const DropoutTerm& term, int64_t b, int64_t h, int64_t i0, int64_t n, int32_t* keys) = nullptr;
  const int64_t* q_start = nullptr;  // packed: first tokens
  const void* source = nullptr;      // what draw() reads: the call's Dropout
};

struct Plan {
  int64_t B = 0, H = 0, Hk = 0, D = 0, Dv = 0;  // B: batch, or packed sequences
  int64_t group = 1;                // query heads of a key head
  int64_t width = 0, value_width = 0;  // D and Dv rounded up to whole vectors

  ReadArray q, k, v;
  WrittenArray out;
  float* lse = nullptr;  // strides as below; null: not wanted
  const float* lse_in = nullptr;
  int64_t lse_batch = 0, lse_head = 0, lse_row = 0;

  bool bf16 = false;  // these and their gradients are bf16: rows are widened before and rounded after

  Places q_places, k_places;
  LOCANT_PLAN_INLINE int64_t queries(int64_t b) const { return q_places.length_of(b); }
  LOCANT_PLAN_INLINE int64_t keys(int64_t b) const { return k_places.length_of(b); }
  LOCANT_PLAN_INLINE int64_t lse_at(int64_t b, int64_t h, int64_t i) const {
    return (q_places.start ? q_places.start[b] * lse_row : b * lse_batch) + h * lse_head + i * lse_row;
  }
  int64_t left = 0, right = 0;  // kept: p_i - left <= p_j <= p_i + right
  bool wide = false;            // distances do not fit 32-bit arithmetic: scalar code per pair

  // Keys that no query's mask keeps, and that products would meet: 1. Their k and v are not to be looked
  // at. [B or 1][K padded], packed: sequence after sequence; null: none.
  const uint8_t* unseen = nullptr;
  int64_t unseen_batch = 0;  // 0: shared
  LOCANT_PLAN_INLINE const uint8_t* unseen_of(int64_t b) const {
    return unseen + (k_places.start ? k_places.first_tile[b] * kTile : b * unseen_batch);
  }

  // Keys are taken in chunks of so many tiles, queries in parts of at most so many.
  int64_t chunk_tiles = 1, part_tiles = 1;
  // Forward, the key tiles of a chunk from the last to the first: where a query's nearest keys are the
  // last it sees, its first reference is likely right for all, and need not move tile by tile (ALiBi).
  bool downwards = false;
  bool simple = false;  // every sequence stands at consecutive positions
  LOCANT_PLAN_INLINE bool one_chunk() const { return k_places.tiles <= chunk_tiles; }

  float score_factor = 1;  // folded into the packed keys
  float cap = 0;           // softcap in log2 units: cap t / (t + 2), t = exp2(x) - 1; 0: none

  // [Bc][Hc][K padded], log2 units, -inf beyond K. Null: none.
  const float* key_numbers = nullptr;
  int64_t key_numbers_batch = 0, key_numbers_head = 0;  // strides, 0: shared
  LOCANT_PLAN_INLINE const float* key_numbers_of(int64_t b, int64_t h) const {
    return key_numbers + (k_places.start ? k_places.first_tile[b] * kTile : b * key_numbers_batch) +
           h * key_numbers_head;
  }
  bool keys_hidden = false;        // some are -inf: those keys' k and v are not to be looked at
  bool hidden_by_head = false;     // ... and query heads of one key head differ in that

  const float* content_bias = nullptr;  // [heads][width], natural units
  int64_t content_bias_heads = 1;
  Turn q_turn, k_turn;

  NumberTerm number;
  RowsTerm query_rows, key_rows, value_rows;
  const TileHook* hook = nullptr;
  DropoutTerm dropout;
  LOCANT_PLAN_INLINE const int32_t* dropout_tokens(int64_t b) const {
    return dropout.k_tokens + (dropout.listed ? k_places.first_tile[b] * kTile : 0);
  }

  // Backward only. Gradients of tables are kept for each head of so many sequences in a row and summed
  // up in order at the end; the terms hold those of theirs. Null: not wanted.
  int64_t sequences_a_sum = 1;
  LOCANT_PLAN_INLINE int64_t sum_of(int64_t b, int64_t h) const { return b / sequences_a_sum * H + h; }
  LOCANT_PLAN_INLINE int64_t sums() const { return (B + sequences_a_sum - 1) / sequences_a_sum * H; }
  ReadArray out_in, dout;
  WrittenArray dq, dk, dv;
  float gradient_factor = 1;      // folded into the packed values: dS carries it, that is the scale
  float inside_factor = 1;        // what the gradient inside the scale lacks of it
  float delta_factor = 1;         // of delta: gradient_factor, less what dropout puts into P
  float* dcontent = nullptr;      // [sums][width]
  double* dhook = nullptr;        // [B][H][key tiles][hook_size]
  int64_t hook_size = 0;
  LOCANT_PLAN_INLINE double* dhook_of(int64_t b, int64_t h, int64_t kt) const {
    return dhook + (k_places.tiles_before(b) * H + h * k_places.tiles_of(b) + kt) * hook_size;
  }
  float* dkey_numbers = nullptr;  // [B][H][K padded]
  LOCANT_PLAN_INLINE float* dkey_numbers_of(int64_t b, int64_t h) const {
    return dkey_numbers + (k_places.tiles_before(b) * H + h * k_places.tiles_of(b)) * kTile;
  }
  void (*wait)() = nullptr;       // called while a worker waits for its turn
};

// Which part of the work one task is.
struct Part {
  int64_t b = 0, h = 0;
  int64_t first_tile = 0, last_tile = 0;  // query tiles [first, last)
  int64_t next_b = -1, next_h = 0;        // what the same worker will do next, if worth a prefetch
};

// Backward: the gradients of one key head (b, hk), and whose turn it is to add to them. The query
// tiles of all its heads are numbered in order; each adds to a key tile when its number comes up.
struct KeyUnit {
  int64_t b = 0, hk = 0;
  float* dk = nullptr;  // [K] rows, width floats each; null: not wanted
  int64_t dk_row = 0;
  float* dv = nullptr;
  int64_t dv_row = 0;
  uint8_t* touched = nullptr;  // [key tiles] something was added already
  float* dk_rows = nullptr;    // [group][key tiles][key row columns][kTile]: gradients of rows . k
  int64_t next_b = -1, next_hk = 0;  // what the same worker will do next, if worth a prefetch
  int32_t* turn = nullptr;        // [key tiles] next number. Null: alone
  int32_t* table_turn = nullptr;  // the same for the tables, shared by the sequences of a sum
  int32_t tables_before = 0;      // query tiles that add to the tables in earlier sequences
};

}  // namespace locant::attention
