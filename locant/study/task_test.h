// Testing a trained model on a task: exact matches by length.
#pragma once

#include <functional>

#include "locant/base/executor.h"
#include "locant/data/tasks.h"
#include "locant/study/record.h"
#include "locant/train/model.h"

namespace locant::study {

// Fills exact_match and symbol_match of record (settings.examples strings at each test length) and, where
// a learned table ends, repeated_rows. A decoder writes its answers token by token, greedily; an encoder
// reads once. progress(done) is called after each length and returns whether to go on; false when it
// was stopped. The same numbers for any executor.
bool test_task(const Model& model, const Task& task, Executor& executor,
               const std::function<bool(size_t done)>& progress, Record& record);

}  // namespace locant::study
