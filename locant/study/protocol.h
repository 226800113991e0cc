// The three evaluation protocols over one trained model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "locant/base/executor.h"
#include "locant/data/corpus.h"
#include "locant/study/record.h"
#include "locant/train/model.h"

namespace locant::study {

// Test lengths: 1, 1.5, 2, 4, 8 and 16 times the training length, rounded down.
std::vector<int64_t> test_lengths(int64_t train_length);

// How many evaluations evaluate_protocols makes, for progress.
size_t protocol_count(int64_t train_length);

// Fills record.losses and record.repeated_rows from `text` (tokens of one part of a corpus). With a
// test-time scaling, `scheme_at(length)` names the scheme for a test length; a length for which it
// returns "" is left out. progress(done) is called after each evaluation and returns whether to go
// on. Returns false when it was stopped.
bool evaluate_protocols(const Model& model, std::span<const Token> text, Executor& executor,
                        const std::function<std::string(int64_t length)>& scheme_at,
                        const std::function<bool(size_t done)>& progress, Record& record);

}  // namespace locant::study
