// Index maps: from a distance d = j - i (key minus query position) to a row of a table. Integer
// code, run once per call. Every map is constant beyond its ends, so it holds for any distance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/position/terms.h"

namespace locant {

// What a table's rows count, upwards: j - i (row 0 is the farthest key to the left) or i - j (row 0
// is the farthest key to the right). The same window read in the other order is mirrored.
enum class Order { kKeyMinusQuery, kQueryMinusKey };
inline const std::vector<std::string> kOrderWords{"j-i", "i-j"};

// Largest number of distances that a map lists; the bound of every window and maximum distance.
inline constexpr int64_t kMaxDistance = 1'000'000;

// One row for each distance -left ... right, left + right + 1 in all. Outside it: no row.
IndexMap window_map(int64_t left, int64_t right, Order order = Order::kKeyMinusQuery);
// The same; outside it: the row of the nearest end.
IndexMap clip_map(int64_t left, int64_t right, Order order = Order::kKeyMinusQuery);

// The map with row(d) of the old one at -d.
IndexMap mirrored(const IndexMap& map);

// The rows of a map that the distances first ... last reach, renumbered from 0: row r of `map` here
// is row map.first_row + r of the table. At least one row. Other distances get no row.
struct Reach {
  IndexMap map;
  int64_t rows = 0;
};
Reach reach(const IndexMap& map, int64_t first, int64_t last);

// T5 (Raffel et al. 2019). One side has B buckets, e = B/2 (rounded down) of them for one distance
// each. A distance n >= e is in bucket e + t, where t is the largest whole number below B - e with
//   ln(n/e) / ln(max_distance/e) * (B - e) >= t.
// kExact decides that in whole numbers: n^(B-e) >= max_distance^t e^(B-e-t).
// kFloat32 computes the left side as PyTorch does, rounding to float after each step: what
// checkpoints were trained with. For the usual counts (32/128 ...) the two agree. The logarithm is
// rounded correctly, as PyTorch 1.13's is at all known ties; 2.13's is a unit off at a few of them.
enum class BucketRounding { kExact, kFloat32 };
inline const std::vector<std::string> kBucketRoundingWords{"exact", "float32"};

// starts[b] = the smallest n that is in bucket b or a later one; B of them.
// Needs B >= 2 and max_distance > e.
std::vector<int64_t> t5_starts(int64_t side_buckets, int64_t max_distance,
                               BucketRounding rounding = BucketRounding::kExact);

// Bidirectional: half of the buckets a side; keys to the right (d > 0) in the upper half, so row
// buckets/2 itself is never used. Unidirectional: all buckets for keys to the left, 0 to the right.
IndexMap t5_map(int64_t buckets, int64_t max_distance, bool bidirectional,
                BucketRounding rounding = BucketRounding::kExact);

// DeBERTa counts x = i - j = -d; row = clamp(rel(x) + S, 0, 2S - 1), so rel = +S is lost.
// v1: rel(x) = x.
IndexMap deberta_v1_map(int64_t span);

// v2, v3: log buckets. mid = S/2; rel(x) = x up to |x| = mid, then sign(x) (mid + t), where t is
// the smallest whole number with ln(|x|/mid) / ln((M - 1)/mid) * (mid - 1) <= t; M: maximum
// positions. kExact decides in whole numbers; kTransformers and kMicrosoft round to float as those
// two do (they differ at |x| = M - 1 for some S and M, never for 256/512).
enum class LogRounding { kExact, kTransformers, kMicrosoft };
inline const std::vector<std::string> kLogRoundingWords{"exact", "hf", "microsoft"};
// Past M - 1: microsoft cuts x to +-(M - 1) first, transformers does not. Then x <= -M has row 0 in
// transformers and row 1 in microsoft; on the other side both have row 2S - 1.
enum class LogEdge { kTransformers, kMicrosoft };
inline const std::vector<std::string> kLogEdgeWords{"hf", "microsoft"};

// ends[b] = the largest |x| in bucket b or an earlier one; S of them.
// Needs an even S >= 4 and M - 1 > S/2.
std::vector<int64_t> deberta_ends(int64_t span, int64_t max_positions,
                                  LogRounding rounding = LogRounding::kExact);
IndexMap deberta_v2_map(int64_t span, int64_t max_positions,
                        LogRounding rounding = LogRounding::kExact,
                        LogEdge edge = LogEdge::kTransformers);

}  // namespace locant
