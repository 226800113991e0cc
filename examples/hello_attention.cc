// Attention with a position scheme, in a dozen lines. Prints how much of its weight the last token
// gives to each of the 16 keys: queries and keys are all zero, so only the scheme speaks.
//   hello_attention [SCHEME]     as in: hello_attention "alibi(max_exponent=4)"
#include <cstdio>
#include <exception>
#include <vector>

#include "locant/attention/scheme_call.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"

int main(int argc, char** argv) try {
  using namespace locant;
  const int64_t B = 1, H = 2, N = 16, D = 16;  // batch, heads, tokens, head size
  std::vector<float> q(B * H * N * D), k(q), v(q), out(q), lse(B * H * N);
  for (int64_t n = 0; n < N; ++n) v[n * D + n] = v[(N + n) * D + n] = 1;

  attention::Inputs<float> inputs;
  inputs.q = {q.data(), {B, H, N, D}};
  inputs.k = {k.data(), {B, H, N, D}};
  inputs.v = {v.data(), {B, H, N, D}};
  attention::Options options;
  options.causal = true;

  const auto scheme = make_scheme(argc > 1 ? argv[1] : "alibi");  // or "rope(base=500000)" ...
  const Call call = attention::call_of(inputs, options);
  const InitialParameters learned(*scheme, call.sizes);  // nothing for ALiBi; or your checkpoint's
  const auto terms = cast<float>(lower(*scheme, call, learned));

  attention::Workspace workspace;
  ThreadPool threads(2);
  attention::forward<float>(inputs, terms, options,
                            {{out.data(), {B, H, N, D}}, {lse.data(), {B, H, N}}}, workspace,
                            threads);
  for (int64_t h = 0; h < H; ++h) {
    std::printf("%s, head %d:", specification(*scheme).c_str(), static_cast<int>(h));
    for (int64_t n = 0; n < D; ++n) std::printf(" %.3f", out[((h + 1) * N - 1) * D + n]);
    std::printf("\n");
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "hello_attention: %s\n", error.what());
  return 2;
}
