// NoPE: the five questions have one answer.
#include "locant/position/nope.h"

#include "tests/golden/toy.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

oracle::Attention toy(bool causal) {
  oracle::Attention a;
  a.q = oracle::matrix(golden::kToyQ);
  a.k = oracle::matrix(golden::kToyK);
  a.v = oracle::matrix(golden::kToyV);
  a.scale = 1 / std::sqrt(2.0);
  a.causal = causal;
  return a;
}

// 1. to 5. Nothing.
TEST(Nope, AddsNothing) {
  const Nope scheme;
  EXPECT_FALSE(scheme.embeds());
  EXPECT_TRUE(scheme.learn({}).empty());
  EXPECT_EQ(scheme.table_length(), -1);
  for (bool causal : {false, true}) {
    const auto terms = lower(scheme, probe::square_call(3, causal), {});
    EXPECT_FALSE(terms.rotation || terms.number || terms.query_rows || terms.key_rows ||
                 terms.value_rows || terms.content_bias);
    EXPECT_EQ(terms.scale_factor, 1);
    const auto result = probe::attend(terms, toy(causal));
    if (causal) {
      probe::expect_matrix(result.weights, golden::kToyCausalWeights, golden::kSixDigits);
      probe::expect_matrix(result.out, golden::kToyCausalOut, golden::kSixDigits);
    } else {
      probe::expect_matrix(result.weights, golden::kToyFullWeights, golden::kSixDigits);
      probe::expect_matrix(result.out, golden::kToyFullOut, golden::kSixDigits);
    }
  }
}

}  // namespace
}  // namespace locant
