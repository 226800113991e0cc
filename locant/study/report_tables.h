// The report's tables, as HTML. Text from records is escaped.
#pragma once

#include <cstdint>
#include <string>

#include "locant/study/summary.h"

namespace locant::study {

// "1.5 L"
std::string ratio_text(int64_t length, int64_t train_length);

std::string loss_table(const Summary& summary, const std::string& protocol);

// What each scheme's own loss does past the training length, paired by seed, with intervals.
std::string change_table(const Summary& summary, const std::string& protocol);

// Every scheme against one of them at each length, paired by seed, with intervals. `reference` is the
// number of a scheme in summary.schemes.
std::string difference_table(const Summary& summary, size_t reference);
// The scheme that others are compared with: RoPE, as most models have it today; else the first.
size_t reference_scheme(const Summary& summary);

// Exact matches of a task by test length, with what was not learned.
std::string task_table_html(const Summary& task);

// Loss far out and recall far out side by side: a flat loss can hide short sight. Empty without a recall
// task among `all`.
std::string loss_and_recall_table(const Summary& text, const std::vector<Summary>& all);

// The claims, judged on a language model's records and those of all tasks.
std::string claims_table(const std::vector<Record>& records);

// Runs: how many seeds, how many diverged, what they cost.
std::string runs_table(const Summary& summary);

}  // namespace locant::study
