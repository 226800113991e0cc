// What a scheme adds at each distance, as lines to draw: numbers as they are, rows by their norm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "locant/study/plot.h"
#include "locant/study/record.h"
#include "locant/train/model.h"

namespace locant::study {

// The terms of one layer, for causal or full attention over these distances.
Terms<double> terms_of(const Scheme& scheme, const Sizes& sizes, const Parameters& parameters,
                       int64_t layer, bool causal, int64_t first_distance, int64_t last_distance);

// The number that is added to a score of head h at a distance, linear part included.
double number_at(const NumberPerDistance<double>& term, int64_t head, int64_t distance);

// One table for each term that has one, for distances first .. last.
std::vector<LearnedTable> tables_by_distance(const Terms<double>& terms, const std::string& where,
                                             int64_t first_distance, int64_t last_distance);

// A line for each head; height in pixels.
Plot plot_of(const LearnedTable& table, int height);

// All layers of a model whose scheme learns something, distances -(longest-1) .. 0; for a scheme of
// learned embeddings, how alike the rows of two positions are (cosine, mean over pairs) by distance.
std::vector<LearnedTable> learned_tables(const Model& model, int64_t longest);

}  // namespace locant::study
