// A hook of your own: what no number per distance can say. Tokens of the same line attract each other,
// and how much is learned: its gradient comes out of the backward pass.
#include <cstdio>
#include <vector>

#include "locant/attention/attention.h"
#include "locant/position/tile_hook.h"

struct SameLine : locant::TileHook {
  double strength = 0.5;
  int32_t width = 8;  // tokens of a line

  using TileHook::add, TileHook::add_backward;
  void add(const locant::ScoreTile& t, double* scores) const override {
    for (int64_t i = 0; i < t.queries; ++i) {
      for (int64_t j = 0; j < t.keys; ++j) scores[i * t.row + j] += same(t, i, j) ? strength : 0;
    }
  }
  int64_t gradient_size() const override { return 1; }
  void add_backward(const locant::ScoreTile& t, const double* gradient, double* sums) const override {
    for (int64_t i = 0; i < t.queries; ++i) {
      for (int64_t j = 0; j < t.keys; ++j) *sums += same(t, i, j) ? gradient[i * t.row + j] : 0;
    }
  }
  bool same(const locant::ScoreTile& t, int64_t i, int64_t j) const {
    return t.q_positions[i] / width == t.k_positions[j] / width;
  }
};

int main() {
  using namespace locant;
  const int64_t N = 32, D = 16;
  std::vector<float> q(N * D), k(N * D), v(N * D), out(N * D), lse(N), out_gradient(N * D);
  // How well do neighbours find each other?
  for (int64_t n = 0; n < N; ++n) v[n * D + n / 2] = out_gradient[n * D + n / 2] = 1;

  attention::Inputs<float> inputs;
  inputs.q = {q.data(), {1, 1, N, D}}, inputs.k = {k.data(), {1, 1, N, D}}, inputs.v = {v.data(), {1, 1, N, D}};
  Terms<float> terms;
  terms.hook = std::make_shared<SameLine>();
  const attention::Outputs<float> outputs{{out.data(), {1, 1, N, D}}, {lse.data(), {1, 1, N}}};
  attention::Gradients<float> gradients;
  Terms<float> terms_gradient = zeros_like(terms);
  gradients.terms = &terms_gradient;

  attention::Workspace workspace;
  SerialExecutor serial;
  attention::forward<float>(inputs, terms, {}, outputs, workspace, serial);
  attention::backward<float>(inputs, terms, {}, {outputs.out, outputs.lse},
                             {out_gradient.data(), {1, 1, N, D}}, gradients, workspace, serial);
  std::printf("log-sum-exp of a row %.4f, gradient of the strength %.4f\n", lse[0],
              terms_gradient.hook_gradient[0]);
}
