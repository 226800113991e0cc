#include "locant/study/recommendation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "locant/study/paired.h"
#include "locant/study/report_tables.h"
#include "locant/study/words.h"

namespace locant::study {
namespace {

// As for the claims: a model that hardly uses order yet tells nothing of positions.
constexpr int64_t kLeastSteps = 700;
// A rise of this much from L on is a break: at these losses the text no longer helps.
constexpr double kBreak = 0.3;
// A stretched model whose loss stays this near to its loss at L still reads as it did.
constexpr double kHeld = 0.05;

std::string at(const Summary& summary, int64_t length) {
  return ratio_text(length, summary.settings.train_length);
}

double mean_loss(const SchemeSummary& s, int64_t length) {
  const auto by_length = s.losses.find(kWindows);
  if (by_length == s.losses.end()) return NAN;
  const auto found = by_length->second.find(length);
  return found == by_length->second.end() ? NAN : found->second.mean;
}

std::string names(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, ", ")); }

// Not told apart by these seeds; without an interval, nearer than one seed's noise.
bool alike(const Interval& difference) {
  if (difference.count == 0) return false;
  return difference.count == 1 ? std::fabs(difference.mean) < kNoise : !difference.apart();
}

// A share of right answers this much lower is not called alike because seeds scatter.
constexpr double kLower = 0.05;

// A difference and, where not every one of the best's `seeds` is in it, how many are.
std::string apart_text(const Interval& difference, size_t seeds) {
  if (difference.count == 0) return "no seed in common";
  std::string text = interval_text(difference);
  if (size_t(difference.count) < seeds) text += fmt::format(" on {} of {}", difference.count, counted(int64_t(seeds), "seed"));
  return text;
}

// Ascending by mean loss at `length`; those without a number are left out.
std::vector<const SchemeSummary*> ranked(const std::vector<const SchemeSummary*>& schemes, int64_t length) {
  std::vector<const SchemeSummary*> list;
  for (const SchemeSummary* s : schemes) {
    if (std::isfinite(mean_loss(*s, length))) list.push_back(s);
  }
  std::stable_sort(list.begin(), list.end(), [&](const auto* a, const auto* b) {
    return mean_loss(*a, length) < mean_loss(*b, length);
  });
  return list;
}

Advice long_reading(const Summary& summary) {
  Advice advice{"Short training, long reading", "", {}};
  const int64_t L = summary.settings.train_length, longest = summary.lengths.back();
  std::vector<const SchemeSummary*> trained;
  for (const SchemeSummary& s : summary.schemes) {
    if (s.test_scaling == "none") trained.push_back(&s);
  }
  const auto order = ranked(trained, longest);
  if (order.empty() || longest == L) {
    advice.reasons.push_back("No scheme was read past its training length.");
    return advice;
  }
  const SchemeSummary& best = *order.front();
  advice.choice = best.label;
  advice.reasons.push_back(fmt::format(
      "{} has the lowest loss of {} schemes at {}: {}, {} from its own loss at L ({}).", best.label, order.size(),
      at(summary, longest), loss_text(best, kWindows, longest), interval_text(change(best, kWindows, L, longest)),
      counted(int64_t(best.seeds.size()), "seed")));
  std::vector<std::string> close, broken;
  const SchemeSummary* cheapest = &best;
  for (const SchemeSummary* s : order) {
    if (s != &best) {
      const Interval apart = difference(*s, best, kWindows, longest);
      if (alike(apart)) {
        close.push_back(fmt::format("{} {}", s->label, apart_text(apart, best.seeds.size())));
        if (s->position_parameters < cheapest->position_parameters) cheapest = s;
      }
    }
    const Interval rise = change(*s, kWindows, L, longest);
    if (rise.mean > kBreak) broken.push_back(fmt::format("{} {:+.2f}", s->label, rise.mean));
  }
  if (!close.empty()) {
    advice.reasons.push_back(fmt::format("These runs do not tell apart from it: {}.", names(close)));
  }
  if (cheapest != &best) {
    advice.reasons.push_back(fmt::format("The fewest position parameters among these: {} ({}; {} has {}).",
                                         cheapest->label, cheapest->position_parameters, best.label,
                                         best.position_parameters));
  }
  if (!broken.empty()) {
    advice.reasons.push_back(fmt::format("Not for this use, as the loss rises by more than {:g} from L to {}: {}.",
                                         kBreak, at(summary, longest), names(broken)));
  }
  return advice;
}

// Of the schemes that learned a task in range, the best at the longest test; at equal shares the one that is
// also better at the shorter ones, then the one that learned it in more seeds: all others are paired with it.
// `text`, where it is given, tells apart by their loss those that answer alike.
Advice by_task(const std::string& use, const std::vector<Summary>& all, bool (*fits)(const Summary&),
               const std::string& without, const Summary* text) {
  Advice advice{use, "", {}};
  const Summary* task = nullptr;
  for (const Summary& summary : all) {
    if (summary.is_task() && fits(summary) && !task) task = &summary;
  }
  if (!task || task->lengths.empty()) {
    advice.reasons.push_back(without);
    return advice;
  }
  const int64_t trained = task->settings.train_length;
  const auto mean = [](const SchemeSummary& s, int64_t length) {
    const auto found = s.exact.find(length);
    return found == s.exact.end() ? -1 : found->second.mean;
  };
  std::vector<const SchemeSummary*> learned;
  std::vector<std::string> not_learned;
  for (const SchemeSummary& s : task->schemes) {
    if (s.exact.empty()) {
      not_learned.push_back(s.label);
    } else {
      learned.push_back(&s);
    }
  }
  if (learned.empty()) {
    advice.reasons.push_back(fmt::format("No scheme learned {} up to length {} in this run.", task->task, trained));
    return advice;
  }
  std::stable_sort(learned.begin(), learned.end(), [&](const auto* a, const auto* b) {
    for (size_t n = task->lengths.size(); n-- > 0;) {
      const double x = mean(*a, task->lengths[n]), y = mean(*b, task->lengths[n]);
      if (std::fabs(x - y) > 1e-9) return x > y;
    }
    return a->exact_by_seed.size() > b->exact_by_seed.size();
  });
  const SchemeSummary& best = *learned.front();
  const size_t seeds = best.exact_by_seed.size();
  std::vector<std::string> equal, equal_on_fewer;
  std::vector<const SchemeSummary*> same_numbers;
  for (const SchemeSummary* s : learned) {
    const bool same = std::all_of(task->lengths.begin(), task->lengths.end(), [&](int64_t length) {
      return length <= trained || std::fabs(mean(*s, length) - mean(best, length)) < 1e-9;
    });
    if (!same) continue;
    const size_t mine = s->exact_by_seed.size();
    if (mine >= seeds) {
      equal.push_back(s->label);
    } else {
      equal_on_fewer.push_back(fmt::format("{} ({} of {})", s->label, mine, counted(int64_t(seeds), "seed")));
    }
    same_numbers.push_back(s);
  }
  const auto is_equal = [&](const SchemeSummary& s) {
    return std::find(equal.begin(), equal.end(), s.label) != equal.end();
  };
  constexpr size_t kNamed = 3;
  advice.choice = equal.size() <= kNamed ? fmt::format("{}", fmt::join(equal, " or "))
                                         : fmt::format("{} of {} schemes alike", equal.size(), task->schemes.size());
  // Nobody may reach the longest test: the farthest at which the best still answers half of it.
  int64_t reaches = 0;
  for (int64_t length : task->lengths) {
    if (mean(best, length) >= .5) reaches = length;
  }
  std::vector<std::string> shares, close, open, worse;
  for (int64_t length : task->lengths) {
    if (length >= trained) shares.push_back(fmt::format("{} at {}", exact_text(best, length), length));
  }
  advice.reasons.push_back(fmt::format("In {}, trained up to {}: exact matches {} ({}).", task->task, trained,
                                       names(shares), counted(int64_t(seeds), "seed")));
  if (equal.size() > 1) {
    advice.reasons.push_back(fmt::format("The same numbers came from each of: {}.", names(equal)));
    if (text) {
      std::vector<const SchemeSummary*> reading;
      for (const SchemeSummary& s : text->schemes) {
        if (s.test_scaling == "none" && is_equal(s)) reading.push_back(&s);
      }
      const int64_t longest = text->lengths.back();
      if (const auto order = ranked(reading, longest); !order.empty()) {
        advice.reasons.push_back(fmt::format("Of these {} has the lowest loss as a language model at {}: {}.",
                                             order.front()->label, at(*text, longest),
                                             loss_text(*order.front(), kWindows, longest)));
      }
    }
  }
  if (!equal_on_fewer.empty()) {
    advice.reasons.push_back(fmt::format("Learned in fewer seeds, with the same numbers there: {}.",
                                         names(equal_on_fewer)));
  }
  if (reaches <= trained) {
    advice.reasons.push_back("Past the trained length it answers less than half: no scheme here is good for it.");
  } else {
    for (const SchemeSummary* s : learned) {
      if (std::find(same_numbers.begin(), same_numbers.end(), s) != same_numbers.end()) continue;
      const Interval apart = exact_difference(*s, best, reaches);
      const bool few = size_t(apart.count) < seeds || (apart.count > 1 && apart.mean < -kLower);
      if (few && !apart.apart()) {
        open.push_back(fmt::format("{} {}, {}", s->label, exact_text(*s, reaches), apart_text(apart, seeds)));
      } else if (alike(apart)) {
        close.push_back(fmt::format("{} {}", s->label, interval_text(apart)));
      } else {
        worse.push_back(fmt::format("{} {}", s->label, exact_text(*s, reaches)));
      }
    }
    if (!close.empty()) {
      advice.reasons.push_back(fmt::format("At {} these runs do not tell apart from it: {}.", reaches, names(close)));
    }
    if (!open.empty()) {
      advice.reasons.push_back(fmt::format("At {} so few seeds leave open whether these are worse: {}.", reaches,
                                           fmt::join(open, "; ")));
    }
    if (!worse.empty()) advice.reasons.push_back(fmt::format("Worse at {}: {}.", reaches, names(worse)));
  }
  if (!not_learned.empty()) {
    advice.reasons.push_back(fmt::format("Not learned in range, so nothing is said of: {}.", names(not_learned)));
  }
  return advice;
}

// What fine-tuning at the longer length did, where it was recorded.
void add_fine_tuning(const Summary& text, const std::vector<Summary>& all, Advice& advice) {
  for (const Summary& tuned : all) {
    if (tuned.task != kFineTuning || tuned.settings.corpus_fingerprint != text.settings.corpus_fingerprint) continue;
    for (const SchemeSummary& s : tuned.schemes) {
      if (s.name != "rope" || s.by_seed.empty()) continue;
      const int64_t length = tuned.settings.tuned_length;
      Interval gain;
      for (const SchemeSummary& plain : text.schemes) {
        if (plain.scheme == s.scheme && plain.test_scaling == "none") gain = difference(s, plain, kWindows, length);
      }
      advice.reasons.push_back(fmt::format("With {} at {} under {}: {} there, {} from the untuned model.",
                                           counted(tuned.settings.tuned_steps, "more step"), at(text, length), s.test_scaling,
                                           loss_text(s, kWindows, length), interval_text(gain)));
    }
  }
}

Advice stretching(const Summary& summary) {
  Advice advice{"A RoPE model that exists, to be stretched", "", {}};
  const SchemeSummary* plain = nullptr;
  std::vector<const SchemeSummary*> all;
  for (const SchemeSummary& s : summary.schemes) {
    if (s.name != "rope") continue;
    if (plain && s.scheme != plain->scheme) continue;  // of several RoPEs the first
    if (s.test_scaling == "none") plain = &s;
    if (plain) all.push_back(&s);
  }
  if (!plain || all.size() < 2) {
    advice.reasons.push_back("Needs RoPE and its scalings at test time, which these records do not have.");
    return advice;
  }
  const int64_t L = summary.settings.train_length;
  std::vector<std::string> by_length;
  std::vector<std::pair<std::string, std::vector<std::string>>> choices;  // a scaling, and where it is the best
  double held_to = 1;
  for (int64_t length : summary.lengths) {
    if (length == L) continue;
    const auto order = ranked(all, length);
    if (order.empty()) continue;
    const SchemeSummary& best = *order.front();
    const std::string& scaling = best.test_scaling;
    std::string text = fmt::format("At {} {}: {}", at(summary, length), scaling, loss_text(best, kWindows, length));
    if (&best != plain) {
      const Interval gain = difference(best, *plain, kWindows, length);
      text += fmt::format(", {} from none{}", interval_text(gain), alike(gain) ? ", not told apart" : "");
    }
    by_length.push_back(text + ".");
    if (choices.empty() || choices.back().first != scaling) choices.push_back({scaling, {}});
    choices.back().second.push_back(at(summary, length));
    if (mean_loss(best, length) - mean_loss(*plain, L) < kHeld) {
      held_to = std::max(held_to, double(length) / double(L));
    }
  }
  if (choices.size() == 1) {
    advice.choice = choices.front().first;
  } else {
    std::vector<std::string> each;
    for (const auto& [scaling, where] : choices) {
      each.push_back(fmt::format("{} at {}", scaling, fmt::join(where, " and ")));
    }
    advice.choice = "by length: " + names(each);
  }
  advice.reasons.push_back(fmt::format("Lowest loss without further training; at L it is {}.",
                                       loss_text(*plain, kWindows, L)));
  advice.reasons.insert(advice.reasons.end(), by_length.begin(), by_length.end());
  advice.reasons.push_back(
      held_to > 1 ? fmt::format("The best stays within {:g} nats of the loss at L up to {:g} L; further out, train at "
                                "the longer length.", kHeld, held_to)
                  : fmt::format("None stays within {:g} nats of the loss at L: train at the longer length.", kHeld));
  return advice;
}

}  // namespace

std::vector<Advice> recommend(const Summary& text, const std::vector<Summary>& all) {
  const bool some = std::any_of(text.schemes.begin(), text.schemes.end(),
                                [](const SchemeSummary& scheme) { return !scheme.losses.empty(); });
  const std::string few =
      text.schemes.empty() ? "Needs a language model's runs, which these records do not have."
      : !some              ? "Every run diverged."
                           : fmt::format("Needs at least {} training steps, this run has {}.", kLeastSteps,
                                         text.settings.steps);
  const bool enough = text.settings.steps >= kLeastSteps && some;
  const auto needs_steps = [&](const char* use) { return Advice{use, "", {few}}; };
  std::vector<Advice> advice;
  advice.push_back(enough ? long_reading(text) : needs_steps("Short training, long reading"));
  advice.push_back(by_task(
      "Retrieval from far away", all, [](const Summary& s) { return s.task == "recall"; },
      "Needs key-value recall, which these records do not have. A flat loss does not answer it: a scheme that looks "
      "at near tokens only has a flat loss, too.", enough ? &text : nullptr));
  advice.push_back(by_task(
      "An encoder, which sees both sides", all, [](const Summary& s) { return s.settings.encoder; },
      "Needs an encoder's task (reverse), which these records do not have.", nullptr));
  advice.push_back(enough ? stretching(text) : needs_steps("A RoPE model that exists, to be stretched"));
  if (enough && !advice.back().choice.empty()) add_fine_tuning(text, all, advice.back());
  return advice;
}

}  // namespace locant::study
