#include "locant/train/evaluate.h"

#include <algorithm>
#include <map>
#include <memory>

#include "locant/base/check.h"
#include "locant/train/arrays.h"
#include "locant/train/attention_block.h"
#include "locant/train/embedding.h"
#include "locant/train/feed_forward.h"
#include "locant/train/positions.h"
#include "locant/train/test_scheme.h"

namespace locant {
namespace {

using namespace train;

constexpr int64_t kBlock = 256;  // rows that pass through the linear layers together
constexpr int64_t kLine = 16;

// Windows of one length that are read together, and where their losses go.
struct Group {
  int64_t length = 0;
  std::vector<const Window*> windows;
  std::vector<float*> losses;  // a window
};

struct Rows {
  int64_t first, size;
};

// The rows of a group whose logits are wanted, in stretches of at most kBlock.
std::vector<Rows> wanted_rows(const Group& group) {
  std::vector<Rows> joined;
  for (size_t w = 0; w < group.windows.size(); ++w) {
    const Window& window = *group.windows[w];
    if (window.n_targets == 0) continue;
    const int64_t first = static_cast<int64_t>(w) * group.length + window.first_target;
    if (!joined.empty() && joined.back().first + joined.back().size == first) {
      joined.back().size += window.n_targets;
    } else {
      joined.push_back({first, window.n_targets});
    }
  }
  std::vector<Rows> blocks;
  for (const Rows& rows : joined) {
    for (int64_t done = 0; done < rows.size; done += kBlock) {
      blocks.push_back({rows.first + done, std::min(kBlock, rows.size - done)});
    }
  }
  return blocks;
}

// Forward only: keeps one layer's activations, and what lies between attention and attention in blocks.
class Reader {
 public:
  Reader(const ModelConfig& config, int64_t rows, int64_t batch, int64_t length)
      : config_(config), logits_stride_((config.vocabulary + kLine - 1) / kLine * kLine),
        tokens_(static_cast<size_t>(rows)), x_(rows * config.width), qkv_(rows * 3 * config.width),
        mixed_(rows * config.width), lse_(batch * config.heads * length),
        normed_(kBlock * config.width), out_(kBlock * config.width), statistics_(2 * kBlock),
        hidden_(kBlock * config.hidden()), logits_(kBlock * logits_stride_), losses_(kBlock) {}

  void read(const Group& group, std::span<const int32_t> text, const ModelArrays<const float>& weights,
            const float* head, const PositionTerms<float>& positions) {
    const SingleThread single;
    const int64_t batch = static_cast<int64_t>(group.windows.size()), length = group.length;
    const int64_t rows = batch * length, width = config_.width;
    int64_t first_query = length;  // no window of the group wants anything before
    for (int64_t w = 0; w < batch; ++w) {
      const Window& window = *group.windows[static_cast<size_t>(w)];
      std::copy_n(text.begin() + window.start, length, tokens_.begin() + w * length);
      if (window.n_targets > 0) first_query = std::min(first_query, window.first_target);
    }
    const std::vector<Rows> wanted = wanted_rows(group);
    if (wanted.empty()) return;

    embedding_forward<float>(batch, length, width, tokens_.data(), weights.embedding,
                             positions.rows.empty() ? nullptr : positions.rows.data(), x_.data());
    each_block(rows, [&](Rows block) {
      Residual<float> residual{x_.data() + block.first * width};
      attention_in(block, weights.attention[0], residual);
    });
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      const bool last = layer == config_.layers - 1;
      const size_t l = static_cast<size_t>(layer);
      attention_block_mix<float>({batch, length, width, config_.heads, true, nullptr}, last ? first_query : 0,
                                 positions.layer(layer), qkv_.data(), mixed_.data(), lse_.data(),
                                 workspace_);
      if (last) break;
      each_block(rows, [&](Rows block) {
        Residual<float> residual = attention_out(block, weights, l);
        attention_in(block, weights.attention[l + 1], residual);
      });
    }
    for (const Rows& block : wanted) {
      Residual<float> residual =
          attention_out(block, weights, static_cast<size_t>(config_.layers - 1));
      predict(block, group, text, weights, head, residual);
    }
  }

 private:
  template <class F>
  static void each_block(int64_t rows, const F& f) {
    for (int64_t first = 0; first < rows; first += kBlock) {
      f(Rows{first, std::min(kBlock, rows - first)});
    }
  }

  NormMemory<float> norm_at(const Rows& block) {
    return {x_.data() + block.first * config_.width, normed_.data(), statistics_.data(),
            statistics_.data() + kBlock};
  }

  void attention_in(const Rows& block, const SublayerArrays<const float>& weights,
                    Residual<float>& residual) {
    NormMemory<float> norm = norm_at(block);
    attention_block_in(block.size, config_.width, weights, residual, norm,
                       qkv_.data() + block.first * 3 * config_.width);
  }

  // Attention's projection and the feed-forward block; what that gives still waits to be added.
  Residual<float> attention_out(const Rows& block, const ModelArrays<const float>& weights,
                                size_t layer) {
    const int64_t width = config_.width;
    multiply<float>(Operand::kAsIs, Operand::kAsIs, block.size, width, width,
                    mixed_.data() + block.first * width, width,
                    weights.attention[layer].out_weight, width, out_.data(), width, false);
    Residual<float> residual{x_.data() + block.first * width, out_.data(),
                             weights.attention[layer].out_bias};
    FeedForwardMemory<float> memory{norm_at(block), hidden_.data(), nullptr};
    feed_forward_forward({block.size, width, config_.hidden()}, weights.feed_forward[layer],
                         residual, memory, out_.data());
    return residual;
  }

  void predict(const Rows& block, const Group& group, std::span<const int32_t> text,
               const ModelArrays<const float>& weights, const float* head,
               Residual<float>& residual) {
    const int64_t width = config_.width;
    NormMemory<float> norm = norm_at(block);
    norm_forward(residual, block.size, width, weights.norm_gain, weights.norm_bias, norm);
    multiply<float>(Operand::kAsIs, Operand::kAsIs, block.size, config_.vocabulary, width,
                    norm.out, width, head, config_.vocabulary, logits_.data(), logits_stride_,
                    false);
    int32_t targets[kBlock];
    for (int64_t i = 0; i < block.size; ++i) {
      const int64_t row = block.first + i;
      const Window& window = *group.windows[static_cast<size_t>(row / group.length)];
      targets[i] = text[static_cast<size_t>(window.start + row % group.length + 1)];
    }
    elementwise<float>().cross_entropy(
        {.rows = block.size, .vocabulary = config_.vocabulary, .stride = logits_stride_,
         .logits = logits_.data(), .targets = targets, .losses = losses_.data(),
         .gradient = false, .gradient_scale = 0});
    for (int64_t i = 0; i < block.size; ++i) {
      const int64_t row = block.first + i;
      const size_t w = static_cast<size_t>(row / group.length);
      group.losses[w][row % group.length - group.windows[w]->first_target] = losses_.data()[i];
    }
  }

  const ModelConfig& config_;
  int64_t logits_stride_;
  std::vector<int32_t> tokens_;
  Buffer<float> x_, qkv_, mixed_, lse_, normed_, out_, statistics_, hidden_, logits_, losses_;
  attention::Workspace workspace_;
};

void check_windows(const Model& model, std::span<const int32_t> text,
                   std::span<const Window> windows) {
  const int64_t size = static_cast<int64_t>(text.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto [start, length, first, targets] = windows[w];
    Check check("evaluate");
    check.require(length >= 1 && start >= 0 && start <= size && length <= size - start, "window ", w,
                  " reads ", length, " tokens from ", start, ", the text has ", size);
    check.require(first >= 0 && targets >= 0 && first <= length && targets <= length - first,
                  "window ", w, " of length ", length, " has no outputs ", first, " to ",
                  first + targets - 1);
    check.done();
    check.require(targets == 0 || start + first + targets < size, "window ", w,
                  ": its last target is token ", start + first + targets, ", the text has ", size);
    check.done();
  }
  const int64_t vocabulary = model.config().vocabulary;
  for (size_t t = 0; t < text.size(); ++t) {
    if (text[t] < 0 || text[t] >= vocabulary) {
      fail("evaluate", "tokens must be 0 to ", vocabulary - 1, ", got ", text[t], " at ", t);
    }
  }
}

}  // namespace

Evaluation evaluate(const Model& model, std::span<const int32_t> text,
                    std::span<const Window> windows, const EvaluationOptions& options,
                    Executor& executor) {
  check_windows(model, text, windows);
  const ModelConfig& config = model.config();
  if (config.encoder) fail("evaluate", "an encoder predicts no next token");
  const TestScheme test_scheme(model, options.scheme, "evaluate");
  const Scheme& scheme = test_scheme.get();
  PositionParameters parameters(scheme, config.sizes());
  parameters.read(model.layout(), model.values());
  const ModelArrays<const float> weights(model.layout(), config.layers, model.values());
  TransposedWeights<float> transposed(config);
  transposed.update(weights, false, executor);

  Evaluation evaluation;
  std::map<int64_t, Group> by_length;
  int64_t targets = 0;
  for (const Window& window : windows) targets += window.n_targets;
  evaluation.losses.resize(static_cast<size_t>(targets));
  float* losses = evaluation.losses.data();
  for (const Window& window : windows) {
    Group& all = by_length[window.length];
    all.length = window.length;
    all.windows.push_back(&window);
    all.losses.push_back(losses);
    losses += window.n_targets;
  }

  for (const auto& [length, all] : by_length) {
    const Positions positions(scheme, config, length, options.repeat_last_row);
    evaluation.repeated_rows |= positions.repeats_rows();
    const PositionTerms<float> terms = positions.lower<float>(parameters, executor);
    const int64_t total = static_cast<int64_t>(all.windows.size());
    const int64_t batch = std::min(std::max<int64_t>(kBlock / length, 1), total);
    std::vector<std::unique_ptr<Reader>> readers(static_cast<size_t>(executor.threads()));
    executor.run((total + batch - 1) / batch, [&](int64_t index, int worker) {
      std::unique_ptr<Reader>& reader = readers[static_cast<size_t>(worker)];
      if (!reader) reader = std::make_unique<Reader>(config, batch * length, batch, length);
      const auto first = index * batch, end = std::min(first + batch, total);
      const Group group{length, {all.windows.begin() + first, all.windows.begin() + end},
                        {all.losses.begin() + first, all.losses.begin() + end}};
      reader->read(group, text, weights, transposed.head(), terms);
    });
  }
  for (float loss : evaluation.losses) evaluation.mean += static_cast<double>(loss);
  if (targets > 0) evaluation.mean /= static_cast<double>(targets);
  return evaluation;
}

}  // namespace locant
