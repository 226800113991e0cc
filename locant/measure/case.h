// A case: one attention call to measure, written as words, "b1 h8 q2048 k2048 d64 causal t5 f32 fwd+bwd t2".
//
//   b batch   h heads   g key heads (default h)   q queries   k keys (default q)   d head size
//   v value size (default d)   t threads (five are threads=5: t5 is a scheme)
//   causal   window=W (causal, W keys with the query's own)   softcap=C   dropout=R
//   packed (the B sequences end to end, with cumulative lengths)   hook (a penalty by tile hook)
//   decode (new queries over a cache of K tokens; q1 unless said)   pages=P (the cache in pages of P tokens)
//   a scheme as in the registry, with its options, as in shaw(k=16)
//   f32 | bf16   fwd | bwd | fwd+bwd   isa=SET (an instruction set; default the chosen one)
// Words come in any order, each once. What is left out: b1 h8 q2048 d64, full, no scheme, f32, fwd, t1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace locant::measure {

struct Case {
  int64_t b = 1, h = 8, g = 8, q = 2048, k = 2048, d = 64, v = 64;
  bool causal = false;
  int64_t window = 0;  // keys seen, the query's own among them; 0: all
  double softcap = 0, dropout = 0;
  std::string scheme = "nope";  // as specification() writes it
  bool bf16 = false, packed = false, hook = false, decode = false;
  int64_t pages = 0;  // tokens of a page of the cache; 0: in one piece
  bool forward = true, backward = false;
  int threads = 1;
  std::string isa;  // empty: the chosen set

  // 4 B H Q K D forward, half when causal and no decoding (what a window keeps, where there is one), backward 2.5
  // times that; with another value size 2 (D + Dv) for 4 D. Terms are not counted.
  double flops() const;
  // Of the keys and values that are read once: what decoding is bound by.
  double bytes() const;
  // The case in words, always in the same order: parse_case reads it back.
  std::string text() const;
  // Without what is done to the scores: no scheme, hook, softcap or dropout. The same keys are seen.
  Case plain() const;
  bool is_plain() const;
  // Whether this machine and build have its instruction set.
  bool runs_here() const;
};

// Throws std::invalid_argument naming the word that is wrong and what there is.
Case parse_case(std::string_view text);
// The case with some words replaced: "t1", "f32 fwd".
Case changed(const Case& c, std::string_view words);

}  // namespace locant::measure
