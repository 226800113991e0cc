// Cases in words: what is left out, what comes back, what is refused and how, and their FLOPs.
#include "locant/measure/case.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "locant/position/registry.h"
#include "locant/simd/dispatch.h"

namespace locant::measure {
namespace {

// The message of the refusal; empty when it is accepted.
std::string refusal(std::string_view text) {
  try {
    parse_case(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}
#define EXPECT_REFUSED(text, what) EXPECT_NE(refusal(text).find(what), std::string::npos) << refusal(text)

TEST(Case, ReadsTheWordsOfTheExample) {
  const Case c = parse_case("b1 h8 q2048 k2048 d64 causal t5 f32 fwd+bwd t2");
  EXPECT_EQ(c.b, 1);
  EXPECT_EQ(c.h, 8);
  EXPECT_EQ(c.q, 2048);
  EXPECT_EQ(c.k, 2048);
  EXPECT_EQ(c.d, 64);
  EXPECT_TRUE(c.causal && c.forward && c.backward);
  EXPECT_EQ(c.scheme, "t5");
  EXPECT_EQ(c.threads, 2);
  EXPECT_EQ(c.text(), "b1 h8 q2048 k2048 d64 causal t5 f32 fwd+bwd t2");
}

TEST(Case, WhatIsLeftOutFollows) {
  const Case c = parse_case("h4 q100 d32");
  EXPECT_EQ(c.text(), "b1 h4 q100 k100 d32 f32 fwd t1");
  EXPECT_EQ(c.g, 4);
  EXPECT_EQ(c.v, 32);
  EXPECT_EQ(parse_case("bwd").forward, false);
  EXPECT_EQ(parse_case("fwd").backward, false);
}

TEST(Case, DecodeHasOneQueryUnlessSaid) {
  EXPECT_EQ(parse_case("k4096 decode").text(), "b1 h8 q1 k4096 d64 decode f32 fwd t1");
  EXPECT_EQ(parse_case("decode q4 k4096").q, 4);
  EXPECT_EQ(parse_case("decode causal k100 h1 d8").flops(), 4.0 * 100 * 8);
  EXPECT_EQ(parse_case("h8 g2 k100 d8 v16 decode").bytes(), 2.0 * 100 * (8 + 16) * 4);
  EXPECT_EQ(parse_case("h8 g2 k100 d8 v16 decode window=10 bf16").bytes(), 2.0 * 10 * (8 + 16) * 2);
  EXPECT_REFUSED("decode k100 fwd+bwd", "decode is a forward pass");
  EXPECT_REFUSED("decode k100 dropout=0.1", "decode is a forward pass");
  EXPECT_REFUSED("decode q9 k4", "k4");
  EXPECT_REFUSED("pages=16", "decode only");
}

TEST(Case, TextIsReadBack) {
  for (const char* text :
       {"b2 h8 g2 q17 k300 d80 v16 window=128 softcap=30.5 shaw(k=4) f32 bwd isa=scalar t3",
        "b1 h8 q2048 k2048 d64 dropout=0.1 alibi bf16 fwd threads=5", "b3 h1 q5 k5 d16 causal packed hook f32 fwd t1",
        "b2 h8 g2 q3 k500 d64 decode pages=16 rope bf16 fwd t2"}) {
    EXPECT_EQ(parse_case(text).text(), text);
  }
  for (const std::string& name : scheme_names()) {
    const std::string text = parse_case("q64 causal " + name).text();
    EXPECT_EQ(parse_case(text).text(), text);
    EXPECT_EQ(text.find(name) != std::string::npos, name != "nope");
  }
  EXPECT_EQ(parse_case("t5( buckets = 16, max_distance = 64 ) q64").scheme, "t5(buckets=16,max_distance=64)");
}

TEST(Case, RefusalsNameTheWordAndWhatThereIs) {
  EXPECT_REFUSED("", "empty");
  EXPECT_REFUSED("q0", "\"q0\" must be an integer from 1");
  EXPECT_REFUSED("q99999999999999999999", "\"q99999999999999999999\"");
  EXPECT_REFUSED("q-5", "\"q-5\"");
  EXPECT_REFUSED("x12", "\"x12\" is no size");
  EXPECT_REFUSED("alibbi", "alibi");
  EXPECT_REFUSED("q8 q9", "q is given twice");
  EXPECT_REFUSED("t2 threads=3", "t is given twice");
  EXPECT_REFUSED("alibi t5", "scheme is given twice");
  EXPECT_REFUSED("fwd bwd", "direction is given twice");
  EXPECT_REFUSED("h8 g3", "3 key heads do not divide h8");
  EXPECT_REFUSED("window=0", "window=0");
  EXPECT_REFUSED("window=many", "window=many");
  EXPECT_REFUSED("softcap=nan", "softcap=nan");
  EXPECT_REFUSED("softcap=-1", "softcap=-1");
  EXPECT_REFUSED("dropout=1", "dropout=1");
  EXPECT_REFUSED("f32 bf16", "number type is given twice");
  EXPECT_REFUSED("isa=mmx", "scalar");
  for (const char* known : {"neon", "avx2", "avx512", "avx512bf16"}) {  // on every machine
    EXPECT_EQ(parse_case(std::string("isa=") + known).isa, known);
  }
  EXPECT_REFUSED("t5(buckets=0)", "buckets");
  EXPECT_REFUSED("shaw(k=4", "')'");
}

TEST(Case, Flops) {
  EXPECT_EQ(parse_case("b2 h3 q10 k20 d16").flops(), 4.0 * 2 * 3 * 10 * 20 * 16);
  EXPECT_EQ(parse_case("b2 h3 q10 d16 causal").flops(), 2.0 * 2 * 3 * 10 * 10 * 16);
  EXPECT_EQ(parse_case("b1 h1 q10 d16 bwd").flops(), 2.5 * 4 * 10 * 10 * 16);
  EXPECT_EQ(parse_case("b1 h1 q10 d16 fwd+bwd shaw").flops(), 3.5 * 4 * 10 * 10 * 16);
  EXPECT_EQ(parse_case("b1 h1 q10 d16 v32").flops(), 2.0 * 10 * 10 * (16 + 32));
}

TEST(Case, FlopsOfAWindowAreThePairsItKeeps) {
  for (const auto& [q, k, w] : {std::array{10, 10, 3}, {4, 12, 5}, {12, 4, 3}, {6, 6, 100}}) {
    int pairs = 0;
    for (int i = 0; i < q; ++i) {
      const int position = std::max(0, k - q) + i;
      for (int j = 0; j < k; ++j) pairs += j <= position && j > position - w;
    }
    const Case c = parse_case("b1 h1 d1 q" + std::to_string(q) + " k" + std::to_string(k) + " window=" +
                              std::to_string(w));
    EXPECT_EQ(c.flops(), 4.0 * pairs) << c.text();
    EXPECT_TRUE(c.causal);
  }
}

TEST(Case, PlainKeepsShapeAndMask) {
  const Case c = parse_case("b2 h4 g2 q100 d32 window=16 softcap=20 dropout=0.1 alibi fwd+bwd t2");
  EXPECT_FALSE(c.is_plain());
  EXPECT_EQ(c.plain().text(), "b2 h4 g2 q100 k100 d32 window=16 f32 fwd+bwd t2");
  EXPECT_TRUE(c.plain().is_plain());
  EXPECT_EQ(c.plain().flops(), c.flops());
}

TEST(Case, ChangedReplacesWords) {
  const Case c = parse_case("b2 h4 q100 d32 alibi fwd t2");
  EXPECT_EQ(changed(c, "t1").text(), "b2 h4 q100 k100 d32 alibi f32 fwd t1");
  EXPECT_EQ(changed(c, "q50 h8").text(), "b2 h8 q50 k50 d32 alibi f32 fwd t2");
  EXPECT_EQ(changed(parse_case("h8 g2 q10 k99"), "h4 q20").text(), "b1 h4 g2 q20 k99 d64 f32 fwd t1");
  EXPECT_THROW(changed(c, "nonsense"), std::invalid_argument);
}

}  // namespace
}  // namespace locant::measure
