#include "locant/train/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "locant/attention/decode.h"
#include "locant/base/check.h"
#include "locant/position/registry.h"
#include "locant/train/attention_block.h"
#include "locant/train/forward_pass.h"
#include "locant/train/positions.h"
#include "locant/train/test_scheme.h"

namespace locant {

using namespace train;

namespace {

void check_tokens(const char* operation, std::span<const int32_t> tokens, const ModelConfig& config) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config.vocabulary) {
      fail(operation, "tokens must be 0 to ", config.vocabulary - 1, ", got ", token);
    }
  }
}

int32_t likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

struct Generator::State {
  // Keys and values of one layer: [batch][heads][room][head size] each.
  struct LayerCache {
    Buffer<float> k, v;
    std::vector<int64_t> lengths;
  };

  State(const Model& model, int64_t batch, int64_t capacity, const GenerateOptions& options)
      : model(model), config(model.config()), batch(batch), capacity(capacity),
        reading(options.reading), scheme(model, options.reading.scheme, "generate"),
        parameters(scheme.get(), config.sizes()) {
    if (config.encoder) fail("generate", "an encoder writes no text");
    Check check("generate");
    check.require(batch >= 1, "batch must be at least 1, got ", batch);
    check.require(capacity >= 1 && capacity <= 1 << 24, "capacity must be 1 to 16777216 tokens, got ", capacity);
    check.done();
    parameters.read(model.layout(), model.values());
    refuse_capacity();
    lower(1);
    const bool follows = std::any_of(terms.terms.begin(), terms.terms.end(), [](const Terms<float>& t) {
      return t.rotation && t.rotation->follows_length;
    });
    cached = options.cached && !follows;
    centered = std::any_of(terms.terms.begin(), terms.terms.end(), [](const Terms<float>& t) {
      return t.rotation && !t.rotation->log_growth.empty();
    });
    if (cached) {
      layers.resize(static_cast<size_t>(config.layers));
      for (LayerCache& layer : layers) layer.lengths.assign(static_cast<size_t>(batch), 0);
    }
    logits.resize(static_cast<size_t>(batch * config.vocabulary));
  }

  // What reading that many tokens would be refused for is said before the first of them.
  void refuse_capacity() {
    scheme.get().check(config.call(0, capacity));
    const int64_t rows = scheme.get().table_length(), last = capacity - 1;
    if (!scheme.get().embeds() || (reading.repeat_last_row && rows >= 0 && last >= rows)) return;
    std::vector<double> row(static_cast<size_t>(config.width));
    scheme.get().embed(&last, 1, config.sizes(), parameters.views(0), row.data());
  }

  // Room for n tokens, twice what there was at least: a text may end long before the capacity.
  void make_room(int64_t n) {
    if (n <= room) return;
    // xPos' center is the middle of the room: keys that are kept must not see it move.
    const int64_t more = centered ? capacity : std::min(capacity, std::max(n, 2 * room));
    const int64_t size = config.head_size();
    const auto moved = [&](const Buffer<float>& from) {
      Buffer<float> to(batch * more * config.width);
      for (int64_t text = 0; text < batch * config.heads; ++text) {
        std::copy_n(from.data() + text * room * size, length * size, to.data() + text * more * size);
      }
      return to;
    };
    for (LayerCache& layer : layers) {
      layer.k = moved(layer.k);
      layer.v = moved(layer.v);
    }
    room = more;
    lower(room);
  }

  void lower(int64_t length) {
    SerialExecutor serial;
    terms = Positions(scheme.get(), config, length, reading.repeat_last_row)
                .lower<float>(parameters, serial);
    lowered = length;
  }

  const float* rows_from(int64_t position) const {
    return terms.rows.empty() ? nullptr : terms.rows.data() + position * config.width;
  }

  // A pass over n tokens of each text; grown as needed, a prompt needs most.
  void run(int64_t n, const int32_t* tokens, const float* rows, const ForwardPass::Mix& mix) {
    if (batch * n > pass_rows) {
      pass_rows = batch * n;
      pass = std::make_unique<ForwardPass>(model, pass_rows);
      lse = Buffer<float>(batch * n * config.heads);
    }
    pass->run(batch, n, tokens, rows, mix);
    pass->logits(n - 1, n, batch, logits.data());
  }

  // Attention of n tokens among themselves.
  void mix_alone(int64_t n, int64_t layer, const float* qkv, float* mixed) {
    attention_block_mix<float>({batch, n, config.width, config.heads, true, nullptr}, 0,
                               terms.layer(layer), qkv, mixed, lse.data(), workspace);
  }

  View<const float, 4> heads_of(int64_t n, const float* qkv, int64_t part) const {
    const int64_t size = config.head_size(), width = config.width;
    return {qkv + part * width, {batch, config.heads, n, size}, {n * 3 * width, size, 3 * width, 1}};
  }

  void read_behind(int64_t n, const int32_t* tokens) {
    make_room(length + n);
    run(n, tokens, rows_from(length), [&](int64_t layer, const float* qkv, float* mixed) {
      LayerCache& kept = layers[static_cast<size_t>(layer)];
      const int64_t size = config.head_size(), width = config.width;
      const attention::KvCache<float> cache{
          .k = {kept.k.data(), {batch, config.heads, room, size}},
          .v = {kept.v.data(), {batch, config.heads, room, size}},
          .block_table = {}, .lengths = {kept.lengths.data(), {batch}}};
      attention::append<float>(cache, {.k = heads_of(n, qkv, 1), .v = heads_of(n, qkv, 2),
                                       .positions = {}, .counts = {}},
                               terms.layer(layer));
      if (length == 0) {  // a prompt: the keys are those just read
        mix_alone(n, layer, qkv, mixed);
        return;
      }
      SerialExecutor serial;
      attention::decode<float>(
          {.q = heads_of(n, qkv, 0), .cache = cache, .number_per_key = {}, .q_positions = {},
           .k_positions = {}, .rotations = {}},
          terms.layer(layer), {.causal = true, .window = {}, .scale = {}, .softcap = 0},
          {.out = {mixed, {batch, config.heads, n, size}, {n * width, size, width, 1}}, .lse = {}},
          workspace, serial);
    });
  }

  void read_again(int64_t n, const int32_t* tokens) {
    // texts: [batch][length], made longer by n
    const int64_t before = length, after = length + n;
    std::vector<int32_t> longer(static_cast<size_t>(batch * after));
    for (int64_t b = 0; b < batch; ++b) {
      std::copy_n(texts.data() + b * before, before, longer.data() + b * after);
      std::copy_n(tokens + b * n, n, longer.data() + b * after + before);
    }
    texts = std::move(longer);
    if (lowered != after) lower(after);
    run(after, texts.data(), rows_from(0), [&](int64_t layer, const float* qkv, float* mixed) {
      mix_alone(after, layer, qkv, mixed);
    });
  }

  const Model& model;
  const ModelConfig& config;
  int64_t batch, capacity, room = 0, length = 0, lowered = 0, pass_rows = 0;
  EvaluationOptions reading;
  TestScheme scheme;
  PositionParameters parameters;
  PositionTerms<float> terms;
  bool cached = true, centered = false;
  std::vector<LayerCache> layers;
  std::vector<int32_t> texts;  // when read again
  std::unique_ptr<ForwardPass> pass;
  Buffer<float> lse;
  attention::Workspace workspace;
  std::vector<float> logits;
};

Generator::Generator(const Model& model, int64_t batch, int64_t capacity, const GenerateOptions& options)
    : state_(std::make_unique<State>(model, batch, capacity, options)) {}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

int64_t Generator::length() const { return state_->length; }

std::span<const float> Generator::read(std::span<const int32_t> tokens) {
  State& s = *state_;
  const auto n = static_cast<int64_t>(tokens.size()) / s.batch;
  Check check("generate");
  check.require(n >= 1 && n * s.batch == static_cast<int64_t>(tokens.size()), "tokens must be ", s.batch,
                " rows of one length, got ", tokens.size(), " tokens");
  check.require(n <= s.capacity - s.length, "there is room for ", s.capacity, " tokens, ", s.length,
                " are read, got ", n, " more");
  check.done();
  check_tokens("generate", tokens, s.config);
  if (s.cached) {
    s.read_behind(n, tokens.data());
  } else {
    s.read_again(n, tokens.data());
  }
  s.length += n;
  return s.logits;
}

void Sampling::check() const {
  Check check("sample");
  check.require(std::isfinite(temperature) && temperature >= 0, "temperature must be 0 or more, got ",
                temperature);
  check.require(top_k >= 0, "top-k must be 0 (all) or more, got ", top_k);
  check.done();
}

int32_t choose(std::span<const float> logits, const Sampling& sampling, Random& random) {
  if (sampling.temperature == 0) return likeliest(logits);
  // Likeliest first; of equals the smaller token, so that top-k is the same everywhere.
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  if (sampling.top_k > 0 && sampling.top_k < static_cast<int64_t>(order.size())) {
    order.resize(static_cast<size_t>(sampling.top_k));
  }
  const double highest = logits[static_cast<size_t>(order[0])];
  std::vector<double> sums;
  double sum = 0;
  for (const int32_t token : order) {
    sum += std::exp((static_cast<double>(logits[static_cast<size_t>(token)]) - highest) /
                    sampling.temperature);
    sums.push_back(sum);
  }
  const double at = random.uniform() * sum;
  const auto found = std::upper_bound(sums.begin(), sums.end(), at) - sums.begin();
  return order[std::min(static_cast<size_t>(found), order.size() - 1)];
}

std::vector<int32_t> answer_everywhere(const Model& model, int64_t batch,
                                       std::span<const int32_t> tokens,
                                       const EvaluationOptions& options) {
  const ModelConfig& config = model.config();
  if (!config.encoder) fail("answer", "a decoder answers behind its text (generate)");
  const auto n = batch >= 1 ? static_cast<int64_t>(tokens.size()) / batch : 0;
  if (n < 1 || n * batch != static_cast<int64_t>(tokens.size())) {
    fail("answer", "tokens must be ", batch, " rows of one length, got ", tokens.size(), " tokens");
  }
  check_tokens("answer", tokens, config);
  const TestScheme scheme(model, options.scheme, "answer");
  PositionParameters parameters(scheme.get(), config.sizes());
  parameters.read(model.layout(), model.values());
  SerialExecutor serial;
  const PositionTerms<float> terms =
      Positions(scheme.get(), config, n, options.repeat_last_row).lower<float>(parameters, serial);

  ForwardPass pass(model, batch * n);
  Buffer<float> lse(batch * n * config.heads);
  attention::Workspace workspace;
  pass.run(batch, n, tokens.data(), terms.rows.empty() ? nullptr : terms.rows.data(),
           [&](int64_t layer, const float* qkv, float* mixed) {
             attention_block_mix<float>({batch, n, config.width, config.heads, false, nullptr}, 0,
                                        terms.layer(layer), qkv, mixed, lse.data(), workspace);
           });
  std::vector<float> logits(static_cast<size_t>(batch * n * config.vocabulary));
  pass.logits(0, 1, batch * n, logits.data());
  std::vector<int32_t> answers;
  const auto vocabulary = static_cast<size_t>(config.vocabulary);
  for (size_t row = 0; row < tokens.size(); ++row) {
    answers.push_back(likeliest(std::span<const float>(logits).subspan(row * vocabulary, vocabulary)));
  }
  return answers;
}

}  // namespace locant
