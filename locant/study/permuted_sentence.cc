#include "locant/study/permuted_sentence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "locant/attention/attention.h"
#include "locant/base/check.h"
#include "locant/base/random.h"
#include "locant/position/initial.h"
#include "locant/position/registry.h"

namespace locant::study {
namespace {

constexpr int64_t kHeads = 2, kHeadSize = 8, kWidth = kHeads * kHeadSize;
// Sums in another order round differently; anything larger is a change.
constexpr double kSame = 1e-12;

std::vector<std::string> words_of(const std::string& sentence) {
  std::istringstream in(sentence);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// place[i]: where word i of the first sentence stands in the second.
std::vector<size_t> other_order(const std::vector<std::string>& words) {
  std::vector<size_t> place(words.size());
  std::iota(place.begin(), place.end(), size_t{0});
  std::vector<size_t> once;
  for (size_t i = 0; i < words.size(); ++i) {
    if (std::count(words.begin(), words.end(), words[i]) == 1) once.push_back(i);
  }
  if (once.size() >= 2) {
    std::swap(place[once.front()], place[once.back()]);
  } else {
    std::reverse(place.begin(), place.end());
  }
  return place;
}

// A layer whose projections and scheme are drawn from fixed seeds; words are vectors drawn from their
// letters. What the scheme learns is drawn wide, so that a table that training begins at zero shows.
class Layer {
 public:
  explicit Layer(const std::string& specification) : scheme_(make_scheme(specification)) {
    scheme_->check();
    for (ParameterSpec spec : scheme_->learn(sizes_)) {
      if (spec.table && spec.init != ParameterSpec::Init::kUniform) {
        spec.init = ParameterSpec::Init::kNormal;
        spec.scale = .5;
      }
      std::vector<double> numbers(static_cast<size_t>(spec.size()));
      fill_initial<double>(spec, 1, spec.name, numbers);
      arrays_.push_back(std::move(numbers));
      parameters_.add(spec.name, arrays_.back().data());
    }
  }

  // [words][kWidth]
  std::vector<double> outputs(const std::vector<std::string>& words, bool causal) const {
    const int64_t n = static_cast<int64_t>(words.size());
    std::vector<double> x(static_cast<size_t>(n * kWidth));
    for (int64_t i = 0; i < n; ++i) {
      Random random(2, stream_of(words[static_cast<size_t>(i)]));
      for (int64_t c = 0; c < kWidth; ++c) x[static_cast<size_t>(i * kWidth + c)] = random.normal();
    }
    if (scheme_->embeds()) {
      std::vector<int64_t> positions(static_cast<size_t>(n));
      std::iota(positions.begin(), positions.end(), 0);
      scheme_->embed(positions.data(), n, sizes_, parameters_, x.data());
    }
    const std::vector<double> q = projected(x, n, "query"), k = projected(x, n, "key"), v = projected(x, n, "value");
    std::vector<double> out(x.size());
    attention::Inputs<double> inputs;
    // [n][H][D] seen as [1, H, n, D].
    const auto view = [&](const std::vector<double>& a) {
      return View<const double, 4>{a.data(), {1, kHeads, n, kHeadSize}, {n * kWidth, kHeadSize, kWidth, 1}};
    };
    inputs.q = view(q), inputs.k = view(k), inputs.v = view(v);
    attention::Options options;
    options.causal = causal;
    Call call;
    call.sizes = sizes_;
    call.causal = causal;
    call.first_distance = -(n - 1);
    call.last_distance = causal ? 0 : n - 1;
    call.length = n;
    const Terms<double> terms = lower(*scheme_, call, parameters_);
    attention::Workspace workspace;
    SerialExecutor executor;
    attention::forward<double>(
        inputs, terms, options,
        {{out.data(), {1, kHeads, n, kHeadSize}, {n * kWidth, kHeadSize, kWidth, 1}}, {}}, workspace, executor);
    return out;
  }

 private:
  std::vector<double> projected(const std::vector<double>& x, int64_t n, const std::string& name) const {
    Random random(3, stream_of(name));
    std::vector<double> weight(static_cast<size_t>(kWidth * kWidth)), y(x.size());
    for (double& w : weight) w = random.normal() / std::sqrt(double(kWidth));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t o = 0; o < kWidth; ++o) {
        for (int64_t c = 0; c < kWidth; ++c) {
          y[static_cast<size_t>(i * kWidth + o)] +=
              weight[static_cast<size_t>(o * kWidth + c)] * x[static_cast<size_t>(i * kWidth + c)];
        }
      }
    }
    return y;
  }

  Sizes sizes_{1, kHeads, kHeadSize, kWidth, 0};
  std::unique_ptr<Scheme> scheme_;
  std::vector<std::vector<double>> arrays_;
  Parameters parameters_;
};

}  // namespace

PermutedSentence permuted_sentence(const std::string& specification_text, const std::string& sentence) {
  const std::vector<std::string> words = words_of(sentence);
  if (words.size() < 2 || words.size() > 64) fail("permute", "needs 2 to 64 words, got ", words.size());
  const std::vector<size_t> place = other_order(words);
  std::vector<std::string> other(words.size());
  for (size_t i = 0; i < words.size(); ++i) other[place[i]] = words[i];
  if (other == words) fail("permute", "no order of \"", joined(words), "\" tried here differs from it");

  PermutedSentence result;
  result.specification = specification(*make_scheme(specification_text));
  result.first = joined(words);
  result.second = joined(other);
  for (size_t i = 0; i < words.size(); ++i) {
    result.words.push_back({words[i], int64_t(i), int64_t(place[i]), {}});
  }
  const Layer nope("nope"), scheme(specification_text);
  for (int which : {kNopeFull, kNopeCausal, kSchemeFull, kSchemeCausal}) {
    const Layer& layer = which < kSchemeFull ? nope : scheme;
    const bool causal = which == kNopeCausal || which == kSchemeCausal;
    std::optional<std::vector<double>> before, after;
    try {
      before = layer.outputs(words, causal);
      after = layer.outputs(other, causal);
    } catch (const std::invalid_argument& error) {
      result.refused.push_back(fmt::format("{}: {}", causal ? "causal" : "full attention", error.what()));
    }
    for (PermutedWord& word : result.words) {
      double& change = word.change[which];
      change = after ? 0 : NAN;
      for (int64_t c = 0; after && c < kWidth; ++c) {
        change = std::max(change, std::fabs((*before)[static_cast<size_t>(word.from * kWidth + c)] -
                                            (*after)[static_cast<size_t>(word.to * kWidth + c)]));
      }
    }
  }
  return result;
}

std::string change_text(double change) {
  return std::isnan(change) ? "refused" : change < kSame ? "same" : fmt::format("{:.4f}", change);
}

std::vector<std::string> conclusions(const PermutedSentence& r) {
  bool same[4] = {true, true, true, true}, known[4] = {true, true, true, true};
  for (const PermutedWord& word : r.words) {
    for (int which = 0; which < 4; ++which) {
      known[which] = known[which] && !std::isnan(word.change[which]);
      same[which] = same[which] && word.change[which] < kSame;
    }
  }
  std::vector<std::string> sentences;
  const auto say = [&](int which, const std::string& condition, const char* when_same, const char* when_not) {
    if (known[which]) sentences.push_back(fmt::format("{}: {}", condition, same[which] ? when_same : when_not));
  };
  say(kNopeFull, "No positions, full attention",
      "every word comes out as before, wherever it stands. The layer sees a bag of words.",
      "outputs change, which without positions they must not.");
  say(kNopeCausal, "No positions, causal mask",
      "nothing changes: no word has other words before it than it had.",
      "words change, as others stand before them now: the mask alone tells of order.");
  if (r.name() == "nope") return sentences;
  for (const auto& [which, mask] : {std::pair(kSchemeFull, "full attention"), {kSchemeCausal, "causal mask"}}) {
    say(which, fmt::format("{}, {}", r.name(), mask), "nothing changes: the scheme does not tell these two orders apart.",
        "the layer tells the two sentences apart.");
  }
  sentences.insert(sentences.end(), r.refused.begin(), r.refused.end());
  return sentences;
}

std::string text_of(const PermutedSentence& r) {
  size_t width = 8;
  for (const PermutedWord& word : r.words) width = std::max(width, word.word.size());
  std::string text = fmt::format("\"{}\"\n\"{}\"\n\nHow far each word's output changes (largest channel of {}):\n\n", r.first,
                                 r.second, kWidth);
  text += fmt::format("{:<{}}          {:^20}{:^20}\n", "", width, "no positions", r.name());
  text += fmt::format("{:<{}}  places  {:>10}{:>10}{:>10}{:>10}\n", "word", width, "full", "causal", "full", "causal");
  for (const PermutedWord& word : r.words) {
    text += fmt::format("{:<{}}  {:>2} ->{:>2}", word.word, width, word.from, word.to);
    for (double change : word.change) text += fmt::format("{:>10}", change_text(change));
    text += "\n";
  }
  text += "\n";
  for (const std::string& sentence : conclusions(r)) text += sentence + "\n";
  return text;
}

}  // namespace locant::study
