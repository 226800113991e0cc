#pragma once

// Seeded random attention problems: sizes, options and positions, small enough for the dense
// oracle, odd enough to reach every edge. The same seed gives the same problem on every machine.

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "tests/oracle/random.h"

namespace locant::oracle {

enum class PositionKind {
  kDefault,      // none given
  kOffset,       // consecutive, starting far from 0 (a cached step, a shard)
  kRepeated,     // documents packed in a row: counting starts again
  kGaps,         // growing, with holes
  kUnsorted,     // any order, repeats possible
  kFarApart,     // a span much larger than the lengths
  kLeftPadded,   // 0 0 0 1 2 ..., pads share position 0
  kCount
};

inline const char* position_kind_name(PositionKind kind) {
  const char* names[] = {"default", "offset",    "repeated",   "gaps",
                         "unsorted", "far apart", "left-padded"};
  return names[static_cast<int>(kind)];
}

// Positions of `count` tokens; kDefault gives them as the default would be.
inline Positions random_positions(Rng& rng, PositionKind kind, int count, std::int64_t start) {
  Positions result;
  std::int64_t next = start;
  switch (kind) {
    case PositionKind::kRepeated:
      next = 0;
      for (int t = 0; t < count; ++t) {
        if (t > 0 && rng.chance(0.25)) next = 0;
        result.push_back(next++);
      }
      break;
    case PositionKind::kGaps:
      for (int t = 0; t < count; ++t) {
        result.push_back(next);
        next += 1 + (rng.chance(0.3) ? rng.integer(1, 9) : 0);
      }
      break;
    case PositionKind::kUnsorted:
      for (int t = 0; t < count; ++t) result.push_back(rng.integer(0, 2 * count));
      break;
    case PositionKind::kFarApart:
      for (int t = 0; t < count; ++t) result.push_back(rng.integer(0, 1000000));
      break;
    case PositionKind::kLeftPadded: {
      const int pads = rng.integer(0, count);
      for (int t = 0; t < count; ++t) result.push_back(std::max(0, t - pads));
      break;
    }
    default:
      result = consecutive(count, start);
  }
  return result;
}

struct Shape {
  std::uint64_t seed = 0;
  int b = 1, h = 1, hk = 1, q = 1, k = 1, d = 1, dv = 1;
  bool causal = false;
  std::int64_t window_left = -1, window_right = -1;  // negative: no limit
  double softcap = 0;                                // 0: none
  double scale = 0;                                  // 0: the default 1/sqrt(d)
  bool key_numbers = false;                          // number per key, some of them -infinity
  PositionKind kind = PositionKind::kDefault;
  // One list a batch entry; empty for kDefault.
  std::vector<Positions> query_positions, key_positions;

  std::string text() const {
    std::ostringstream out;
    out << "seed " << seed << " B" << b << " H" << h << "/" << hk << " Q" << q << " K" << k << " D"
        << d << " Dv" << dv << (causal ? " causal" : "") << " window " << window_left << ","
        << window_right << " softcap " << softcap << " scale " << scale
        << (key_numbers ? " key numbers" : "") << " positions " << position_kind_name(kind);
    return out.str();
  }
};

struct ShapeLimits {
  int batch = 3, heads = 4, length = 40, width = 24;
};

inline Shape random_shape(std::uint64_t seed, const ShapeLimits& limits = {}) {
  Rng rng(seed);
  Shape s;
  s.seed = seed;
  s.b = rng.integer(1, limits.batch);
  s.hk = rng.integer(1, limits.heads);
  s.h = s.hk * rng.integer(1, std::max(1, limits.heads / s.hk));
  s.q = rng.integer(1, limits.length);
  s.k = rng.chance(0.4) ? s.q : rng.integer(1, limits.length);
  if (rng.chance(0.1)) s.q = 1;  // decoding
  s.d = rng.integer(1, limits.width);
  s.dv = rng.chance(0.5) ? s.d : rng.integer(1, limits.width);
  s.causal = rng.chance(0.5);
  if (rng.chance(0.4)) s.window_left = rng.integer(0, limits.length);
  if (rng.chance(0.3)) s.window_right = rng.integer(0, limits.length);
  if (rng.chance(0.3)) s.softcap = rng.uniform(0.5, 5);
  if (rng.chance(0.3)) s.scale = rng.uniform(0.05, 1.5);
  s.key_numbers = rng.chance(0.3);
  s.kind = static_cast<PositionKind>(rng.integer(0, static_cast<int>(PositionKind::kCount) - 1));
  if (s.kind == PositionKind::kDefault) return s;
  for (int b = 0; b < s.b; ++b) {
    const std::int64_t start = s.kind == PositionKind::kOffset ? rng.integer(0, 5000) : 0;
    Positions keys = random_positions(rng, s.kind, s.k, start);
    Positions queries;
    if (s.q == s.k && rng.chance(0.7)) {
      queries = keys;  // self attention
    } else {
      queries = random_positions(rng, s.kind, s.q, start + std::max(0, s.k - s.q));
    }
    s.key_positions.push_back(keys);
    s.query_positions.push_back(queries);
  }
  return s;
}

// Numbers for `count` keys, a fifth of them -infinity.
inline std::vector<double> random_key_numbers(Rng& rng, int count) {
  std::vector<double> result;
  for (int j = 0; j < count; ++j) {
    result.push_back(rng.chance(0.2) ? -std::numeric_limits<double>::infinity() : rng.normal());
  }
  return result;
}

}  // namespace locant::oracle
