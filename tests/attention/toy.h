// The toy problem of tests/golden/toy.h as a call, and short ways to write terms.
#pragma once

#include <utility>
#include <vector>

#include "tests/attention/call.h"
#include "tests/golden/toy.h"

namespace locant::test {

template <size_t R, size_t C>
std::vector<double> flat(const double (&rows)[R][C]) {
  std::vector<double> numbers;
  for (const auto& row : rows) {
    for (const double number : row) numbers.push_back(number);
  }
  return numbers;
}

// One head, one batch.
template <size_t Q, size_t K, size_t D, size_t Dv>
Call<double> call_of(const double (&q)[Q][D], const double (&k)[K][D], const double (&v)[K][Dv]) {
  Call<double> call;
  call.shape.q = Q, call.shape.k = K, call.shape.d = D, call.shape.dv = Dv;
  call.q = flat(q);
  call.k = flat(k);
  call.v = flat(v);
  call.out_gradient.assign(Q * Dv, 0);
  return call;
}

inline Call<double> toy() { return call_of(golden::kToyQ, golden::kToyK, golden::kToyV); }
inline Call<double> causal_toy() {
  Call<double> call = toy();
  call.options.causal = true;
  return call;
}

// One head, D = 1, q all ones, scale 1: the scores of every query are `scores`. Values are unit
// vectors, so the output is the softmax.
inline Call<double> scores_are(int queries, std::vector<double> scores) {
  Call<double> call;
  const int K = static_cast<int>(scores.size());
  call.shape.q = queries, call.shape.k = K, call.shape.dv = K;
  call.options.scale = 1;
  call.q.assign(size_t(queries), 1);
  call.k = std::move(scores);
  for (int j = 0; j < K; ++j) {
    for (int c = 0; c < K; ++c) call.v.push_back(j == c ? 1 : 0);
  }
  call.out_gradient.assign(size_t(queries * K), 0);
  return call;
}

// With unit vectors as values the output is the softmax itself. Single head and batch.
inline Call<double> with_unit_values(Call<double> call) {
  const int K = call.shape.k;
  call.shape.dv = K;
  call.v.assign(size_t(K * K), 0);
  for (int j = 0; j < K; ++j) call.v[size_t(j * K + j)] = 1;
  call.out_gradient.assign(size_t(call.shape.q * K), 0);
  call.terms.value_rows.reset();
  return call;
}

inline NumberPerDistance<double> number(bool scaled, IndexMap index, std::vector<double> table,
                                        std::vector<double> left = {},
                                        std::vector<double> right = {}) {
  NumberPerDistance<double> term;
  term.scaled = scaled;
  term.index = std::move(index);
  term.table = Table<double>(1, static_cast<int64_t>(table.size()), 1);
  term.table.data = std::move(table);
  term.left = std::move(left);
  term.right = std::move(right);
  return term;
}
// Query or key rows, inside the scale.
template <size_t R, size_t C>
RowPerDistance<double> rows(IndexMap index, const double (&table)[R][C]) {
  RowPerDistance<double> term;
  term.index = std::move(index);
  term.rows = Table<double>(1, R, C);
  term.rows.data = flat(table);
  return term;
}
template <size_t R, size_t C>
ValuePerDistance<double> value_rows(IndexMap index, const double (&table)[R][C]) {
  ValuePerDistance<double> term;
  term.index = std::move(index);
  term.rows = Table<double>(1, R, C);
  term.rows.data = flat(table);
  return term;
}

}  // namespace locant::test
