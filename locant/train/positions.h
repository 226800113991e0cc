// A scheme's answers for all sequences of one length, made once a step and never a shard: the rows to
// add to embeddings and the terms of each layer; and the way back to the gradients of what it learns.
#pragma once

#include <cstdint>
#include <vector>

#include "locant/base/executor.h"
#include "locant/position/scheme.h"
#include "locant/train/model.h"

namespace locant::train {

// Numbers of the learned arrays in double, by ParameterSpec::name, a layer.
class PositionParameters {
 public:
  // Zeros; what `scheme` learns in a model of these sizes.
  PositionParameters(const Scheme& scheme, const Sizes& sizes);

  // From and to (+=) the flat buffer of a model; T is float or double.
  template <class T>
  void read(const ParameterLayout& layout, const T* values);
  template <class T>
  void add_to(const ParameterLayout& layout, T* values) const;

  Parameters views(int64_t layer) const;
  ParameterGradients gradient_views(int64_t layer);
  bool empty() const { return arrays_.empty(); }
  void clear();
  PositionParameters& operator+=(const PositionParameters& other);

 private:
  struct Array {
    ParameterSpec spec;
    std::vector<std::vector<double>> numbers;  // one for all layers, or one each
  };
  std::vector<Array> arrays_;
};

template <class T>
struct PositionTerms {
  std::vector<T> rows;          // [length][width], or empty: nothing is added to embeddings
  std::vector<Terms<T>> terms;  // one for each layer, or one for all
  const Terms<T>& layer(int64_t l) const {
    return terms[terms.size() == 1 ? 0 : static_cast<size_t>(l)];
  }
};

// Their gradients, of one lane of the work (trainer.h). Same shapes, one Terms each layer.
template <class T>
struct PositionGradients {
  std::vector<T> rows;
  std::vector<Terms<T>> terms;
};

// Adds numbers; both must have been made from the same terms.
template <class T, class From>
void add_terms(const Terms<From>& from, Terms<T>& to);

class Positions {
 public:
  // For the call that every layer of such a model makes over positions 0 .. length-1. Scheme and
  // configuration must outlive this. The scheme may be another than the configuration's.
  // repeat_last_row: embedding positions past Scheme::table_length() take the last row.
  Positions(const Scheme& scheme, const ModelConfig& config, int64_t length,
            bool repeat_last_row = false);

  bool learned() const { return learned_; }  // the terms change as training goes on
  bool repeats_rows() const { return repeats_rows_; }

  // Questions 1 to 4.
  template <class T>
  PositionTerms<T> lower(const PositionParameters& parameters, Executor& executor) const;
  template <class T>
  PositionGradients<T> make_gradients(const PositionTerms<T>& terms) const;
  // Question 5: adds to `gradients` what the gradients of rows and terms say.
  void lower_backward(const PositionParameters& parameters, const PositionGradients<double>& from,
                      PositionParameters& gradients, Executor& executor) const;

 private:
  const Scheme& scheme_;
  const ModelConfig& config_;
  Sizes sizes_;
  int64_t length_;
  bool learned_ = false, repeats_rows_ = false;
  std::vector<int64_t> positions_;  // of the embedding rows
};

}  // namespace locant::train
