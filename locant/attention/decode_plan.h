// One decode call as plain data: what the code compiled per instruction set reads (as plan.h is for
// the tiled kernel, whose rules hold here too). Built by decode_prepare.cc, once a call.
//
// The unit of reading is a step of 16 keys: its rows of K, then its rows of V, then the next. Splits
// of kSplit keys are computed apart and merged in order, so results do not depend on threads.
// Queries of all heads that share a key head are the rows of one unit: they share every read.
// Scores are in log2 units.
#pragma once

#include <cstddef>
#include <cstdint>

#include "locant/attention/plan.h"

namespace locant::attention {

constexpr int64_t kStep = 16;
constexpr int64_t kMostBlock = 64;  // keys whose scores are worked on together: whole steps
constexpr int64_t kSplit = 512;

// What stands where in a step of keys.
struct StepSpan {
  int32_t first = 0;
  int32_t consecutive = 0;  // key n stands at first + n
};

// An index map clipped to the distances of the call; its rows are read in place.
struct DecodeMap {
  int64_t first = 0, n = 0;
  const int32_t* rows = nullptr;  // [n], -1 for none
  int32_t before = -1, after = -1;
  int32_t step = 0;  // rows[e] = rows[0] + step e, step 1 or -1; 0: any rows
  LOCANT_PLAN_INLINE int32_t row(int64_t d) const {
    return d < first ? before : d - first < n ? rows[d - first] : after;
  }
};

struct DecodeNumbers {
  bool on = false;
  bool inside = false;  // of the scale and the softcap
  DecodeMap map;
  const float* table = nullptr;
  int64_t head = 0;  // stride between heads, 0: shared
  float factor = 1;
  const float* left = nullptr;  // per step beyond the whole map; null: none
  const float* right = nullptr;
  int64_t side_head = 0;
  int64_t left_from = 0, right_from = 0;  // the first and the last distance of the whole map
};

// Query, key or value rows. The rows that the map reaches are [first_row, first_row + count).
struct DecodeRows {
  bool on = false;
  bool inside = false;
  DecodeMap map;
  const float* table = nullptr;  // [heads][rows][width]
  int64_t head = 0, width = 0;
  int64_t first_row = 0, count = 0;
  float factor = 1;
  // Query and value rows: columns that a split keeps of every row; where `windowed`, they are those of
  // the split's distances, otherwise all `count`.
  bool windowed = false;
  int64_t columns = 0;
  // Query rows: q . row times factor. Sides: of the rows before and after the map.
  float* products = nullptr;  // [B][H][Q][count], null where windowed
  float* sides = nullptr;     // [B][H][Q][2]
};

struct DecodePlan {
  int64_t B = 0, H = 0, Hk = 0, Q = 0, D = 0, Dv = 0, group = 1;
  int64_t rows = 0;                    // group Q: query i of head hk group + g is row g Q + i
  int64_t width = 0, value_width = 0;  // D and Dv rounded up to whole vectors

  // Keys and values: [B][Hk][token] or, with a block table, [page][Hk][token]; float or bf16 bits.
  bool halves = false;
  const void* k = nullptr;
  const void* v = nullptr;
  int64_t k_batch = 0, k_head = 0, k_row = 0, v_batch = 0, v_head = 0, v_row = 0;
  const int32_t* block_table = nullptr;
  int64_t block_batch = 0, block_step = 0, page_size = 0;
  const int64_t* lengths = nullptr;  // [B]
  int64_t block = kStep;             // keys a block, whole steps

  const int32_t* q_position = nullptr;  // [B][Q]
  const int32_t* k_position = nullptr;  // [B or 1][padded], null: token n stands at n
  const StepSpan* k_span = nullptr;     // [B or 1][padded / kStep]
  int64_t padded = 0, k_batches = 0;    // k_batches: stride of the batch, 0 or 1
  int64_t left = 0, right = 0;          // kept: p_i - left <= p_j <= p_i + right

  // Queries, turned, with the factor of the scores and the content bias: what multiplies keys.
  // Variants 1 and 2 have the key rows before and after their map added.
  // Floats, or pairs of bf16 numbers where keys are multiplied as such; then the factor comes last.
  const float* q = nullptr;  // [B][Hk][variants][rows][q_row]
  int64_t q_row = 0, variants = 1;
  float product_factor = 1;
  // Queries without the content bias and factor: what multiplies query rows. [B][Hk][rows][width]
  const float* q_plain = nullptr;

  const float* key_numbers = nullptr;  // natural units, in place
  int64_t key_numbers_batch = 0, key_numbers_head = 0, key_numbers_key = 0;
  float cap = 0;  // as in Plan

  // Keys that are kept unturned are turned when read: [B or 1][tokens][pairs]. Null: nothing to do.
  Turn k_turn;

  const TileHook* hook = nullptr;
  DecodeNumbers number;
  DecodeRows query_rows, key_rows, value_rows;

  // Results of splits: [B][Hk][splits][rows][value_width], and per row its reference and sum.
  int64_t splits = 0;  // of the longest sequence
  const int64_t* split_range = nullptr;  // [B][2] first and end of those that some query may see
  float* partial_out = nullptr;
  float* partial_reference = nullptr;  // kMasked: saw nothing
  float* partial_sum = nullptr;
};

// A task: one split of one sequence, for the key heads [first, last).
struct DecodePart {
  int64_t b = 0, split = 0, first = 0, last = 0;
};

// What one instruction set offers for decoding.
struct DecodeSet {
  int lanes;   // floats in a vector
  bool pairs;  // bf16 keys are multiplied as pairs: D must be even
  // Query rows of key head hk: products with all rows of the table, and with the two side rows.
  void (*row_products)(const DecodePlan& plan, int64_t b, int64_t hk);
  size_t (*bytes)(const DecodePlan& plan, int64_t heads);  // scratch of a worker
  void (*split)(const DecodePlan& plan, const DecodePart& part, char* scratch);
  // The output [Dv] of a row, and its log-sum-exp (natural).
  float (*merge)(const DecodePlan& plan, int64_t b, int64_t hk, int64_t row, float* out);
};

namespace scalar {
extern const DecodeSet kDecodeSet;
}
namespace neon {
extern const DecodeSet kDecodeSet;
}
namespace avx2 {
extern const DecodeSet kDecodeSet;
}
namespace avx512 {
extern const DecodeSet kDecodeSet;
}
namespace avx512bf16 {
extern const DecodeSet kDecodeSet;  // for bf16 calls only
}

}  // namespace locant::attention
