#include "locant/study/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "locant/study/variants.h"

namespace locant::study {
namespace {

// Losses of one seed, by scheme name (and "+scaling" for a test-time variant).
class Seed {
 public:
  explicit Seed(uint64_t number) : number_(number) {}
  uint64_t number() const { return number_; }
  void add(const Record& record) {
    std::string name =
        record.test_scaling == "none" ? record.name : record.name + "+" + record.test_scaling;
    if (record.task == kFineTuning) name += " fine-tuned";
    losses_[name] = record.losses;
    length_ = record.settings.train_length;
  }

  // NaN where this seed does not have it; comparisons with it are false, so check complete() first.
  double loss(const std::string& name, double ratio, const char* protocol = kWindows) const {
    const auto scheme = losses_.find(name);
    if (scheme == losses_.end()) return NAN;
    const auto by_length = scheme->second.find(protocol);
    if (by_length == scheme->second.end()) return NAN;
    const auto at = by_length->second.find(std::llround(std::floor(ratio * double(length_))));
    return at == by_length->second.end() ? NAN : at->second;
  }
  double delta(const std::string& name, double ratio) const {
    return loss(name, ratio) - loss(name, 1);
  }

 private:
  uint64_t number_;
  int64_t length_ = 0;
  std::map<std::string, std::map<std::string, std::map<int64_t, double>>> losses_;
};

// A quantity of one seed, with how it is written in the evidence.
struct Quantity {
  std::string label;
  std::function<double(const Seed&)> of;
};

// A condition on the quantities' values, in their order.
using Condition = std::function<bool(const std::vector<double>&)>;

struct Claim {
  int number;
  std::string claim, bar;
  std::vector<Quantity> quantities;
  bool every_seed;  // the condition must hold in each seed, or only for the means over seeds
  Condition condition;
};

Quantity delta(const std::string& name, double ratio) {
  return {fmt::format("{} delta({:g})", name, ratio),
          [=](const Seed& seed) { return seed.delta(name, ratio); }};
}

Quantity gap(const std::string& name, const std::string& other, double ratio) {
  return {ratio == 1 ? fmt::format("{} - {} at L", name, other)
                     : fmt::format("{} - {} at {:g} L", name, other, ratio),
          [=](const Seed& seed) { return seed.loss(name, ratio) - seed.loss(other, ratio); }};
}

Quantity delta_gap(const std::string& low, const std::string& high, double ratio) {
  return {fmt::format("{} - {} delta({:g})", high, low, ratio), [=](const Seed& seed) {
            return seed.delta(high, ratio) - seed.delta(low, ratio);
          }};
}

bool all_positive(const std::vector<double>& v) {
  for (double x : v) {
    if (!(x > 0)) return false;
  }
  return true;
}

std::vector<Claim> claims() {
  using V = const std::vector<double>&;
  std::vector<Claim> list;
  list.push_back({1, "Sinusoidal positions break at once.", "delta(2) > 0.3 in every seed",
                  {delta("sinusoidal", 2)}, true, [](V v) { return v[0] > .3; }});
  list.push_back({2, "ALiBi improves or stays flat to 16 L.", "delta(16) in [-0.15, +0.03]",
                  {delta("alibi", 16)}, false, [](V v) { return v[0] >= -.15 && v[0] <= .03; }});
  list.push_back({3, "RoPE lies between: mild just past L, broken at 8 L.",
                  "0 < delta(2) < sinusoidal's delta(2), and delta(8) > 0.3",
                  {delta("rope", 2), delta("sinusoidal", 2), delta("rope", 8)}, false,
                  [](V v) { return v[0] > 0 && v[0] < v[1] && v[2] > .3; }});
  list.push_back({4, "T5's bias improves past L, then rises.",
                  "delta(2) < 0 and delta(16) > delta(4)",
                  {delta("t5", 2), delta("t5", 4), delta("t5", 16)}, false,
                  [](V v) { return v[0] < 0 && v[2] > v[1]; }});
  {
    Claim order{5,
                "Order at 8 L: ALiBi and T5, then Shaw, then NoPE, then RoPE, learned, sinusoidal.",
                "each step of delta(8) positive in every seed, and sinusoidal above RoPE at 2 L",
                {}, true, all_positive};
    order.quantities = {delta_gap("alibi", "shaw", 8), delta_gap("t5", "shaw", 8),
                        delta_gap("shaw", "nope", 8),  delta_gap("nope", "rope", 8),
                        delta_gap("nope", "learned", 8), delta_gap("nope", "sinusoidal", 8),
                        delta_gap("rope", "sinusoidal", 2)};
    list.push_back(std::move(order));
  }
  list.push_back(
      {6, "ALiBi's gain past L is the early-token effect, not longer context.",
       "|change of the same targets from 1.5 L to 16 L| < 0.02 while delta(16) < 0",
       {{"alibi same targets, 16 L - 1.5 L",
         [](const Seed& seed) {
           return seed.loss("alibi", 16, kSameTargets) - seed.loss("alibi", 1.5, kSameTargets);
         }},
        delta("alibi", 16)},
       false, [](V v) { return std::fabs(v[0]) < .02 && v[1] < 0; }});
  list.push_back({7, "NoPE is worst in range as a language model.",
                  "NoPE - ALiBi at L > 0.05, paired", {gap("nope", "alibi", 1)}, false,
                  [](V v) { return v[0] > .05; }});
  list.push_back({8, "NTK-aware scaling at test time beats plain RoPE at 2 L to 8 L.",
                  "plain - NTK positive at 2, 4 and 8 L in every seed",
                  {gap("rope", "rope+ntk", 2), gap("rope", "rope+ntk", 4), gap("rope", "rope+ntk", 8)},
                  true, all_positive});
  list.push_back({9, "Position interpolation needs fine-tuning.",
                  "with 10 % more steps at 2 L under PI, loss(2L) <= plain RoPE's",
                  {gap("rope+pi fine-tuned", "rope", 2)}, false, [](V v) { return v[0] <= 0; }});
  // 10 and 11 are judged by the tasks' records alone (judge_copying, judge_encoder).
  list.push_back({10, "Copying past the training length: ALiBi, T5 and NoPE over RoPE and sinusoidal.",
                  "exact match at 24 above 0.3 against below 0.1, among runs that learned", {}, false, {}});
  list.push_back({11, "An encoder without positions fails.",
                  "reverse: NoPE's exact match at 20 below 0.05, every other scheme learns", {}, false, {}});
  list.push_back({12, "Learned positions are at least as good as sinusoidal in range.",
                  "learned <= sinusoidal + 0.02 at L, paired", {gap("learned", "sinusoidal", 1)},
                  false, [](V v) { return v[0] <= .02; }});
  list.push_back({13, "NoPE extrapolates on tasks, not as a language model.",
                  "NoPE delta(8) > ALiBi delta(8) + 0.1; copying, where it was learned: exact match at 24 > 0.3", {delta_gap("alibi", "nope", 8)}, false,
                  [](V v) { return v[0] > .1; }});
  return list;
}

// A model that has hardly learned to use order can neither support nor refute a claim.
constexpr int64_t kLeastSteps = 700;

ClaimResult judge(const Claim& claim, const std::vector<Seed>& seeds, int64_t steps) {
  ClaimResult result{claim.number, claim.claim, claim.bar, Verdict::kNotTested, "", 0};
  if (steps == 0) {
    result.evidence = "needs a language model, this run has none";
    return result;
  }
  if (steps < kLeastSteps) {
    result.evidence = fmt::format("needs {} training steps, this run has {}", kLeastSteps, steps);
    return result;
  }
  if (seeds.empty()) {
    result.evidence = "every run diverged";
    return result;
  }
  std::vector<std::vector<double>> values;  // [complete seeds][quantities]
  std::set<std::string> missing;
  for (const Seed& seed : seeds) {
    std::vector<double> row;
    bool complete = true;
    for (const Quantity& quantity : claim.quantities) {
      row.push_back(quantity.of(seed));
      if (!std::isfinite(row.back())) {
        missing.insert(quantity.label);
        complete = false;
      }
    }
    if (complete) values.push_back(row);
  }
  result.seeds = static_cast<int>(values.size());
  if (values.empty()) {
    result.evidence = fmt::format("no seed has: {}", fmt::join(missing, ", "));
    return result;
  }
  std::vector<double> mean(claim.quantities.size(), 0.0);
  bool each = true;
  for (const auto& row : values) {
    each = each && claim.condition(row);
    for (size_t n = 0; n < row.size(); ++n) mean[n] += row[n] / double(values.size());
  }
  const bool holds = claim.every_seed ? each : claim.condition(mean);
  result.verdict = holds ? Verdict::kHolds : Verdict::kFails;
  std::vector<std::string> parts;
  for (size_t n = 0; n < claim.quantities.size(); ++n) {
    std::string part = fmt::format("{} {:+.3f}", claim.quantities[n].label, mean[n]);
    if (values.size() > 1) {
      std::vector<std::string> by_seed;
      for (const auto& row : values) by_seed.push_back(fmt::format("{:+.3f}", row[n]));
      part += fmt::format(" ({})", fmt::join(by_seed, " "));
    }
    parts.push_back(part);
  }
  result.evidence = fmt::format("{}", fmt::join(parts, "; "));
  if (result.seeds < static_cast<int>(seeds.size())) {
    result.evidence +=
        fmt::format("; {} of {} seeds are complete", result.seeds, seeds.size());
  }
  return result;
}

// Runs of one task by scheme name, over seeds. A run that has not learned its task is only counted.
class TaskRuns {
 public:
  TaskRuns(const std::vector<const Record*>& records, const std::string& task) {
    for (const Record* record : records) {
      if (record->task != task || record->diverged) continue;
      by_name_[record->name].push_back(record);
      longest_ = record->settings.train_length;
    }
  }
  bool has(const std::string& name) const { return by_name_.count(name) > 0; }
  int64_t longest() const { return longest_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, runs] : by_name_) names.push_back(name);
    return names;
  }
  size_t seeds(const std::string& name) const { return has(name) ? by_name_.at(name).size() : 0; }
  size_t learned(const std::string& name) const {
    size_t count = 0;
    for (const Record* run : runs(name)) count += run->learned();
    return count;
  }
  // Exact matches at a length, of the learned runs or of all.
  std::vector<double> exact(const std::string& name, int64_t length, bool learned_only) const {
    std::vector<double> values;
    for (const Record* run : runs(name)) {
      const auto at = run->exact_match.find(length);
      if (at != run->exact_match.end() && (!learned_only || run->learned())) values.push_back(at->second);
    }
    return values;
  }
  // "rope 0.012 (0.000 0.024; 1 of 3 not learned)"
  std::string text(const std::string& name, int64_t length, bool learned_only) const {
    const std::vector<double> values = exact(name, length, learned_only);
    std::vector<std::string> each;
    for (double value : values) each.push_back(fmt::format("{:.3f}", value));
    const size_t missed = seeds(name) - learned(name);
    std::string text = values.empty() ? name : fmt::format("{} {:.3f}", name, mean(values));
    if (each.size() > 1) text += fmt::format(" ({})", fmt::join(each, " "));
    if (missed > 0) text += fmt::format(", {} of {} not learned", missed, seeds(name));
    return text;
  }
  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (double value : values) sum += value;
    return values.empty() ? NAN : sum / double(values.size());
  }

 private:
  std::vector<const Record*> runs(const std::string& name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? std::vector<const Record*>() : at->second;
  }
  std::map<std::string, std::vector<const Record*>> by_name_;
  int64_t longest_ = 0;
};

constexpr int64_t kCopyLength = 24;
constexpr double kCopyAbove = .3, kCopyBelow = .1, kChance = .05;

void judge_copying(const TaskRuns& copy, ClaimResult& result) {
  bool holds = true;
  std::vector<std::string> parts, missing;
  for (const char* name : {"alibi", "t5", "nope", "rope", "sinusoidal"}) {
    const bool beyond = name != std::string("rope") && name != std::string("sinusoidal");
    const std::vector<double> values = copy.exact(name, kCopyLength, true);
    if (!copy.has(name)) {
      missing.push_back(name);
      continue;
    }
    parts.push_back(copy.text(name, kCopyLength, true));
    if (values.empty()) {
      missing.push_back(std::string(name) + " learned");
      continue;
    }
    const double mean = TaskRuns::mean(values);
    holds = holds && (beyond ? mean > kCopyAbove : mean < kCopyBelow);
    result.seeds = result.seeds ? std::min(result.seeds, int(values.size())) : int(values.size());
  }
  result.evidence = fmt::format("{}", fmt::join(parts, "; "));
  if (!missing.empty()) {
    result.seeds = 0;
    result.evidence += fmt::format("{}no run of copy has: {}", parts.empty() ? "" : "; ", fmt::join(missing, ", "));
    return;
  }
  result.verdict = holds ? Verdict::kHolds : Verdict::kFails;
}

void judge_encoder(const TaskRuns& reverse, ClaimResult& result) {
  const std::vector<double> nope = reverse.exact("nope", reverse.longest(), false);
  if (nope.empty() || reverse.names().size() < 2) {
    result.evidence = "needs runs of reverse_encoder with NoPE and others";
    return;
  }
  // Where nothing was learned, with positions or without, the training was too short to tell.
  const std::vector<std::string> names = reverse.names();
  if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return reverse.learned(name) > 0; })) {
    result.evidence = "no run of reverse_encoder was learned, with positions or without";
    return;
  }
  bool holds = true;
  std::vector<std::string> parts;
  for (double value : nope) holds = holds && value < kChance;
  for (const std::string& name : names) {
    if (name != "nope") holds = holds && reverse.learned(name) == reverse.seeds(name);
    parts.push_back(reverse.text(name, reverse.longest(), false));
  }
  result.seeds = static_cast<int>(nope.size());
  result.evidence = fmt::format("{}", fmt::join(parts, "; "));
  result.verdict = holds ? Verdict::kHolds : Verdict::kFails;
}

// What copying adds to the language model's verdict.
void judge_nope_on_tasks(const TaskRuns& copy, ClaimResult& result) {
  const std::vector<double> values = copy.exact("nope", kCopyLength, true);
  if (result.verdict == Verdict::kNotTested) return;
  if (values.empty()) {
    result.evidence += copy.has("nope") ? "; copying was not learned" : "; language model only, no run of copy";
    return;
  }
  result.evidence += "; copy at 24: " + copy.text("nope", kCopyLength, true);
  if (!(TaskRuns::mean(values) > kCopyAbove)) result.verdict = Verdict::kFails;
}

}  // namespace

std::string verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds: return "holds";
    case Verdict::kFails: return "does not hold";
    case Verdict::kNotTested: break;
  }
  return "not tested by this run";
}

std::vector<ClaimResult> judge_claims(const std::vector<Record>& records) {
  const auto [judged, notes] = judged_variants(records);
  std::map<uint64_t, Seed> by_number;
  int64_t steps = 0;
  for (const Record* record : judged) {
    if (record->task == kLanguageModel) steps = record->settings.steps;
    if (record->diverged || record->is_task()) continue;
    by_number.try_emplace(record->seed, record->seed).first->second.add(*record);
  }
  std::vector<Seed> seeds;
  for (auto& [number, seed] : by_number) seeds.push_back(seed);
  std::vector<ClaimResult> results;
  const TaskRuns copy(judged, "copy"), reverse(judged, "reverse_encoder");
  for (const Claim& claim : claims()) {
    if (claim.condition) {
      results.push_back(judge(claim, seeds, steps));
    } else {
      results.push_back({claim.number, claim.claim, claim.bar, Verdict::kNotTested, "", 0});
    }
    if (claim.number == 10) judge_copying(copy, results.back());
    if (claim.number == 11) judge_encoder(reverse, results.back());
    if (claim.number == 13) judge_nope_on_tasks(copy, results.back());
    std::string& evidence = results.back().evidence;
    for (const std::string& note : notes) {
      if (evidence.find(note.substr(0, note.find(' '))) != std::string::npos) evidence += "; " + note;
    }
  }
  return results;
}

}  // namespace locant::study
