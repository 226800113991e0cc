#include "locant/study/worked_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <stdexcept>

#include "locant/attention/attention.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"
#include "locant/position/sinusoidal.h"

namespace locant::study {
namespace {

using Rows = std::vector<std::vector<double>>;

// A step: where the tokens stand and what is in them. With embeddings, q, k and v are tokens' contents
// and the positions are added to each.
struct Step {
  std::string specification;
  int64_t heads = 1;
  double scale = .5;
  bool causal = true;
  int64_t query = 3;
  std::vector<int64_t> keys{0, 1, 2, 3};
  std::vector<double> q{1, 0, 1, 0};
  Rows k{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {1, 0, 1, 0}};
  // Sets learned numbers; rows of numbers per distance by distance.
  std::map<int64_t, double> number_at;
};

constexpr int64_t kHeadSize = 4;

// Values that show in the output who was looked at: the first key 1 0 .., the second 0 1 ..
std::vector<double> value_of(size_t key) {
  std::vector<double> v(kHeadSize, 0.0);
  v[key % kHeadSize] = 1;
  return v;
}

class Attention {
 public:
  Attention(const Step& step, const Scheme& scheme) : step_(step), scheme_(scheme) {
    sizes_ = {1, step.heads, kHeadSize, step.heads * kHeadSize, 0};
    for (const ParameterSpec& spec : scheme.learn(sizes_)) {
      std::vector<double> numbers(static_cast<size_t>(spec.size()));
      fill_initial<double>(spec, 0, spec.name, numbers);
      arrays_.push_back(std::move(numbers));
      views_.add(spec.name, arrays_.back().data());
    }
  }

  const Sizes& sizes() const { return sizes_; }
  const Parameters& parameters() const { return views_; }

  Terms<double> terms(int64_t shift = 0) const {
    Call call;
    call.sizes = sizes_;
    call.causal = step_.causal;
    call.first_distance = call.last_distance = step_.keys.front() - step_.query;
    call.length = step_.query + shift + 1;
    for (int64_t key : step_.keys) {
      call.first_distance = std::min(call.first_distance, key - step_.query);
      call.last_distance = std::max(call.last_distance, key - step_.query);
      call.length = std::max(call.length, key + shift + 1);
    }
    return lower(scheme_, call, views_);
  }

  // A table of numbers [rows][H]: the row of each distance takes the number.
  void set_numbers(const std::map<int64_t, double>& number_at) {
    if (number_at.empty()) return;
    const Terms<double> now = terms();
    for (double& number : arrays_.front()) number = 0;
    for (const auto& [distance, number] : number_at) {
      for (int64_t h = 0; h < step_.heads; ++h) {
        arrays_.front()[static_cast<size_t>(now.number->index(distance) * step_.heads + h)] = number;
      }
    }
  }

  // The row a scheme adds to an embedding, head 0's channels.
  std::vector<double> embedding(int64_t position) const {
    std::vector<double> row(static_cast<size_t>(sizes_.width), 0.0);
    if (scheme_.embeds()) scheme_.embed(&position, 1, sizes_, views_, row.data());
    row.resize(kHeadSize);
    return row;
  }

  // Attention over some of the step's keys, head 0; lse is the score itself when there is one key.
  struct Result {
    std::vector<double> out;
    double lse = 0;
  };
  Result run(const std::vector<double>& q, const Rows& k, const Rows& v, const std::vector<int64_t>& positions,
             const Terms<double>& terms, int64_t shift = 0) const {
    const int64_t H = step_.heads, K = static_cast<int64_t>(k.size());
    std::vector<double> qs, ks, vs, out(static_cast<size_t>(H * kHeadSize)), lse(static_cast<size_t>(H));
    for (int64_t h = 0; h < H; ++h) {
      qs.insert(qs.end(), q.begin(), q.end());
      for (const auto& row : k) ks.insert(ks.end(), row.begin(), row.end());
      for (const auto& row : v) vs.insert(vs.end(), row.begin(), row.end());
    }
    const std::vector<int64_t> query{step_.query + shift};
    std::vector<int64_t> at = positions;
    for (int64_t& p : at) p += shift;
    attention::Inputs<double> inputs;
    inputs.q = {qs.data(), {1, H, 1, kHeadSize}};
    inputs.k = {ks.data(), {1, H, K, kHeadSize}};
    inputs.v = {vs.data(), {1, H, K, kHeadSize}};
    inputs.q_positions = {query.data(), {1, 1}};
    inputs.k_positions = {at.data(), {1, K}};
    attention::Options options;
    options.causal = step_.causal;
    options.scale = step_.scale;
    attention::Workspace workspace;
    SerialExecutor executor;
    attention::forward<double>(inputs, terms, options,
                               {{out.data(), {1, H, 1, kHeadSize}}, {lse.data(), {1, H, 1}}}, workspace, executor);
    out.resize(kHeadSize);
    return {out, lse.front()};
  }
  double score(const std::vector<double>& q, size_t key, const std::vector<double>& k, const Terms<double>& terms,
               int64_t shift = 0) const {
    return run(q, {k}, {value_of(key)}, {step_.keys[key]}, terms, shift).lse;
  }

 private:
  const Step& step_;
  const Scheme& scheme_;
  Sizes sizes_;
  std::vector<std::vector<double>> arrays_;
  Parameters views_;
};

std::vector<double> sum(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c = a;
  for (size_t n = 0; n < c.size(); ++n) c[n] += b[n];
  return c;
}

using Textbook = std::function<void(const Step&, const Scheme&, const Attention&, WorkedExample&)>;

struct Lesson {
  Step step;
  Textbook textbook;
};

Lesson alibi() {
  Lesson lesson;
  Step& s = lesson.step;
  s.specification = "alibi";
  s.heads = 8;  // slopes 1/2, 1/4, ...
  s.query = 6;
  s.keys = {0, 4, 6};
  s.q = {2, 0, 0, 0};
  s.k = {{10, 0, 0, 0}, {8, 0, 0, 0}, {7, 0, 0, 0}};
  lesson.textbook = [](const Step&, const Scheme&, const Attention&, WorkedExample& e) {
    e.textbook.push_back({"scaled score 10, slope 0.5, distance 6: 10 - 0.5 x 6 = 7", 7, e.keys[0].score});
  };
  return lesson;
}

Lesson t5() {
  Lesson lesson;
  Step& s = lesson.step;
  s.specification = "t5";
  s.scale = 1;  // T5 does not divide by the root of the head size
  s.query = 20;
  s.keys = {19, 0};
  s.q = {1, 0, 0, 0};
  s.k = {{.3, 0, 0, 0}, {.5, 0, 0, 0}};
  s.number_at = {{-1, .5}, {-20, -.2}};
  lesson.textbook = [](const Step&, const Scheme&, const Attention& a, WorkedExample& e) {
    e.notes.push_back("The table is set by hand: 0.5 for the bucket of the near key, -0.2 for that of the far one.");
    e.textbook.push_back({"near key: content 0.3 and bias +0.5 make 0.8", .8, e.keys[0].score});
    e.textbook.push_back({"far key: content 0.5 and bias -0.2 make 0.3", .3, e.keys[1].score});
    e.textbook.push_back({"the far key, 20 to the left, is in bucket 17 (32 buckets, maximum distance 128)", 17,
                          double(a.terms().number->index(-20))});
  };
  return lesson;
}

Lesson rope() {
  Lesson lesson;
  Step& s = lesson.step;
  s.specification = "rope(base=4)";  // frequencies 1 and 4^-1/2 = 0.5
  s.causal = false;
  s.query = 4;
  s.keys = {10, 7, 4};
  s.q = {0, 1, 0, 0};  // all of it in the second pair
  s.k = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};
  lesson.textbook = [](const Step& step, const Scheme&, const Attention& a, WorkedExample& e) {
    const Terms<double> terms = a.terms();
    e.textbook.push_back({"query at 4, key at 10, frequency 0.5: turned against each other by (10 - 4) x 0.5 = 3 radians",
                          3, std::acos(e.keys[0].score / e.keys[0].content)});
    e.textbook.push_back({"both 100 positions further: the same score", e.keys[0].score,
                          a.score(step.q, 0, step.k[0], terms, 100)});
  };
  return lesson;
}

Lesson shaw() {
  Lesson lesson;
  Step& s = lesson.step;
  s.specification = "shaw(k=16)";
  s.causal = false;
  s.query = 40;
  s.keys = {0, 39, 80};
  s.q = {1, 0, 1, 0};
  s.k = {{1, 0, 0, 0}, {1, 0, 0, 0}, {1, 0, 0, 0}};
  lesson.textbook = [](const Step&, const Scheme&, const Attention& a, WorkedExample& e) {
    const Terms<double> terms = a.terms();
    e.textbook.push_back({"distance 40 with k = 16 is clipped to 16: row 16 + 16 = 32, the last of 33", 32,
                          double(terms.query_rows->index(40))});
    e.textbook.push_back({"distance -40 is clipped to -16: row 0", 0, double(terms.query_rows->index(-40))});
  };
  return lesson;
}

Lesson sinusoidal() {
  Lesson lesson;
  lesson.step.specification = "sinusoidal";
  lesson.textbook = [](const Step&, const Scheme&, const Attention& a, WorkedExample& e) {
    e.textbook.push_back({"row of position 1, channel 0: sin 1 = 0.841471", std::sin(1.0), a.embedding(1)[0]});
    // The row of 3 + 5 is the row of 3, each pair turned by 5 times its frequency.
    const std::vector<double> from = a.embedding(3), to = a.embedding(8);
    const std::vector<double> frequency =
        sinusoidal_frequencies(kHeadSize, 10000, Sinusoidal::Layout::kInterleaved);
    for (size_t t = 0; t < frequency.size(); ++t) {
      const double turn = 5 * frequency[t];
      e.textbook.push_back({fmt::format("row of 8 is the row of 3 turned by 5 steps, pair {}: sin", t), to[2 * t],
                            from[2 * t] * std::cos(turn) + from[2 * t + 1] * std::sin(turn)});
    }
    e.textbook.push_back({"wavelengths begin at 2 pi", 2 * std::numbers::pi, 2 * std::numbers::pi / frequency[0]});
  };
  return lesson;
}

Lesson learned() {
  Lesson lesson;
  lesson.step.specification = "learned(rows=2048)";
  lesson.textbook = [](const Step&, const Scheme&, const Attention& a, WorkedExample& e) {
    try {
      a.embedding(5000);
      e.notes.push_back("Position 5000 was taken.");
    } catch (const std::invalid_argument& error) {
      e.notes.push_back(fmt::format("Position 5000 of a table of 2048 rows is refused: {}", error.what()));
    }
  };
  return lesson;
}

Lesson lesson_of(const std::string& text) {
  const ParsedSpecification parsed = parse_specification(text);
  if (parsed.options.empty()) {
    static const std::map<std::string, Lesson (*)()> kLessons = {
        {"alibi", alibi}, {"t5", t5}, {"rope", rope}, {"shaw", shaw}, {"sinusoidal", sinusoidal}, {"learned", learned}};
    if (const auto at = kLessons.find(parsed.name); at != kLessons.end()) return at->second();
  }
  Lesson lesson;
  lesson.step.specification = text;
  return lesson;
}

}  // namespace

WorkedExample worked_example(const std::string& specification_text) {
  const Lesson lesson = lesson_of(specification_text);
  const Step& step = lesson.step;
  const std::unique_ptr<Scheme> scheme = make_scheme(step.specification);
  scheme->check();
  Attention attention(step, *scheme);
  attention.set_numbers(step.number_at);
  const Terms<double> all = attention.terms();
  Terms<double> plain, turning;
  plain.scale_factor = turning.scale_factor = all.scale_factor;
  turning.rotation = all.rotation;

  WorkedExample e;
  e.specification = specification(*scheme);
  e.summary = fmt::format("one query at position {}, {} keys, {}{}, scale {:g}{}", step.query, step.keys.size(),
                          step.causal ? "causal" : "full attention",
                          step.heads > 1 ? fmt::format(", head 0 of {}", step.heads) : "", step.scale,
                          all.scale_factor == 1 ? "" : fmt::format(" times {:.6g}", all.scale_factor));
  e.embeds = scheme->embeds();
  e.turns = all.rotation.has_value();

  const std::vector<double> q_position = attention.embedding(step.query), q = sum(step.q, q_position);
  Rows k, v;
  for (size_t j = 0; j < step.keys.size(); ++j) {
    const std::vector<double> k_position = attention.embedding(step.keys[j]);
    k.push_back(sum(step.k[j], k_position));
    v.push_back(value_of(j));
    ExampleKey key;
    key.position = step.keys[j];
    const auto product = [&](const std::vector<double>& a, const std::vector<double>& b) {
      return attention.score(a, j, b, plain);
    };
    key.content = product(step.q, step.k[j]);
    if (e.embeds) {
      key.products[0] = key.content;
      key.products[1] = product(step.q, k_position);
      key.products[2] = product(q_position, step.k[j]);
      key.products[3] = product(q_position, k_position);
    }
    key.score = attention.score(q, j, k[j], all);
    key.turned = e.turns ? attention.score(q, j, k[j], turning) : key.content;
    key.added = key.score - (e.turns ? key.turned : key.content);
    e.keys.push_back(key);
  }
  const Attention::Result result = attention.run(q, k, v, step.keys, all);
  e.output = result.out;
  e.weighted.assign(kHeadSize, 0.0);
  for (size_t j = 0; j < e.keys.size(); ++j) {
    e.keys[j].weight = std::exp(e.keys[j].score - result.lse);
    for (int64_t c = 0; c < kHeadSize; ++c) {
      e.weighted[static_cast<size_t>(c)] += e.keys[j].weight * v[j][static_cast<size_t>(c)];
    }
  }
  if (lesson.textbook) lesson.textbook(step, *scheme, attention, e);
  if (e.textbook.empty() && !scheme->learn(attention.sizes()).empty()) {
    e.notes.push_back("What the scheme learns is as a model begins with it (seed 0).");
  }
  if (e.embeds) {
    e.notes.push_back("Tokens' contents plus rows of positions; the projections of q and k are left out.");
  }
  return e;
}

bool WorkedExample::adds_to_values() const {
  double beyond = 0;
  for (size_t n = 0; n < output.size(); ++n) beyond = std::max(beyond, std::fabs(output[n] - weighted[n]));
  return beyond > 1e-12;
}

std::string text_of(const WorkedExample& e) {
  const auto row = [](const std::vector<double>& numbers) {
    std::vector<std::string> all;
    for (double x : numbers) all.push_back(fmt::format("{:.4f}", x + 0.0));
    return fmt::format("{}", fmt::join(all, "  "));
  };
  std::string text = fmt::format("{}: {}\n\n", e.specification, e.summary);
  text += fmt::format("{:>5}{:>10}", "key", "q.k");
  if (e.embeds) text += fmt::format("{:>10}{:>10}{:>10}", "q.pos", "pos.k", "pos.pos");
  if (e.turns) text += fmt::format("{:>10}", "turned");
  text += fmt::format("{:>10}{:>10}{:>10}\n", "added", "score", "weight");
  for (const ExampleKey& key : e.keys) {
    text += fmt::format("{:>5}{:>10.4f}", key.position, key.content);
    if (e.embeds) text += fmt::format("{:>10.4f}{:>10.4f}{:>10.4f}", key.products[1], key.products[2], key.products[3]);
    if (e.turns) text += fmt::format("{:>10.4f}", key.turned);
    // Through the softmax's logarithm a zero may come back as a rounding.
    text += fmt::format("{:>10.4f}{:>10.4f}{:>10.4f}\n", std::fabs(key.added) < 1e-12 ? 0 : key.added, key.score,
                        key.weight);
  }
  text += fmt::format("\nweights times values  {}\n", row(e.weighted));
  text += fmt::format("output                {}\n", row(e.output));
  if (e.adds_to_values()) text += "The difference is what the scheme adds to values.\n";
  for (const std::string& note : e.notes) text += note + "\n";
  if (!e.textbook.empty()) text += "\nTextbook values, and what came out here:\n";
  for (const TextbookValue& value : e.textbook) {
    text += fmt::format("  {}: {:.6g}\n", value.statement, value.got + 0.0);
  }
  return text;
}

}  // namespace locant::study
