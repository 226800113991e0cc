#pragma once

// What the tests of schemes share: reading terms distance by distance, attention over them by the
// dense oracle, and a check of every parameter's gradient against finite differences.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "locant/base/random.h"
#include "locant/position/registry.h"
#include "locant/position/scheme.h"
#include "tests/oracle/attention.h"
#include "tests/oracle/finite_difference.h"

namespace locant::probe {

// The message of the std::invalid_argument that function throws.
template <class Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

#define EXPECT_SAYS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << "message: " << (text)

// A square call over `length` tokens at 0 .. length - 1.
inline Call square_call(int64_t length, bool causal, int64_t heads = 1, int64_t head_size = 2) {
  Call call;
  call.sizes.heads = heads;
  call.sizes.head_size = head_size;
  call.sizes.width = heads * head_size;
  call.causal = causal;
  call.first_distance = 1 - length;
  call.last_distance = causal ? 0 : length - 1;
  call.length = length;
  return call;
}

// Learned numbers by name, filled with what `fill` returns.
struct Store {
  std::map<std::string, std::vector<double>> arrays;

  template <class Fill>
  Store(const Scheme& scheme, const Sizes& sizes, Fill fill) {
    for (const ParameterSpec& spec : scheme.learn(sizes)) {
      auto& array = arrays[spec.name];
      for (int64_t n = 0; n < spec.size(); ++n) array.push_back(fill(spec));
    }
  }
  Store(const Scheme& scheme, const Sizes& sizes)
      : Store(scheme, sizes, [](const ParameterSpec&) { return 0.0; }) {}

  Parameters views() const {
    Parameters views;
    for (const auto& [name, array] : arrays) views.add(name, array.data());
    return views;
  }
  ParameterGradients gradient_views() {
    ParameterGradients views;
    for (auto& [name, array] : arrays) views.add(name, array.data());
    return views;
  }
};

// What the number term adds at a distance.
inline double number_at(const NumberPerDistance<double>& term, int64_t head, int64_t distance) {
  const int32_t row = term.index(distance);
  double number = row == kNoRow ? 0 : *term.table.row(head, row);
  const size_t h = term.table.heads == 1 ? 0 : static_cast<size_t>(head);
  const double before = static_cast<double>(term.index.first - distance);
  const double after = static_cast<double>(distance - term.index.last());
  if (before > 0 && !term.left.empty()) number += term.left[h] * before;
  if (after > 0 && !term.right.empty()) number += term.right[h] * after;
  return number;
}
inline double number_at(const Terms<double>& terms, int64_t head, int64_t distance) {
  return terms.number ? number_at(*terms.number, head, distance) : 0;
}

// x turned at a position; sign +1 for a query, -1 for a key (matters to xPos only).
inline std::vector<double> turned(const Rotation& rotation, std::vector<double> x, int64_t position,
                                  int sign = 1) {
  const size_t pairs = static_cast<size_t>(rotation.width / 2);
  for (size_t t = 0; t < pairs; ++t) {
    const bool interleaved = rotation.layout == Rotation::Layout::kInterleaved;
    double& a = x.at(interleaved ? 2 * t : t);
    double& b = x.at(interleaved ? 2 * t + 1 : t + pairs);
    double size = rotation.magnitude;
    if (!rotation.log_growth.empty()) {
      const double from_center = static_cast<double>(position - rotation.center);
      size *= std::exp(sign * from_center * rotation.log_growth.at(t));
    }
    const double angle = static_cast<double>(position) * rotation.frequency.at(t);
    const std::complex<double> pair = std::complex<double>(a, b) * std::polar(size, angle);
    a = pair.real();
    b = pair.imag();
  }
  return x;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t n = 0; n < a.size(); ++n) sum += a.at(n) * b.at(n);
  return sum;
}

inline std::vector<double> row_of(const oracle::Matrix& matrix, int row) {
  std::vector<double> values;
  for (int c = 0; c < matrix.cols; ++c) values.push_back(matrix(row, c));
  return values;
}

inline oracle::Matrix turned(const std::optional<Rotation>& rotation, oracle::Matrix x,
                             const oracle::Positions& positions, int sign) {
  if (!rotation) return x;
  for (int r = 0; r < x.rows; ++r) {
    const auto row = turned(*rotation, row_of(x, r), positions.at(static_cast<size_t>(r)), sign);
    for (int c = 0; c < x.cols; ++c) x(r, c) = row[static_cast<size_t>(c)];
  }
  return x;
}

// One head of attention over terms, by the dense oracle; positions as the oracle's defaults. Covers
// numbers and rotations.
inline oracle::AttentionResult attend(const Terms<double>& terms, oracle::Attention a,
                                      int64_t head = 0) {
  const auto queries = oracle::default_query_positions(a);
  const auto keys = oracle::default_key_positions(a);
  a.q = turned(terms.rotation, a.q, queries, +1);
  a.k = turned(terms.rotation, a.k, keys, -1);
  a.scale *= terms.scale_factor;
  if (terms.number) {
    oracle::Matrix added(a.q.rows, a.k.rows);
    for (int i = 0; i < added.rows; ++i) {
      for (int j = 0; j < added.cols; ++j) {
        added(i, j) =
            number_at(terms, head, keys[static_cast<size_t>(j)] - queries[static_cast<size_t>(i)]);
      }
    }
    (terms.number->scaled ? a.scaled : a.unscaled) = added;
  }
  return oracle::attention(a);
}

template <size_t R, size_t C>
void expect_matrix(const oracle::Matrix& got, const double (&expected)[R][C], double tolerance) {
  ASSERT_EQ(got.rows, static_cast<int>(R));
  ASSERT_EQ(got.cols, static_cast<int>(C));
  for (size_t r = 0; r < R; ++r) {
    for (size_t c = 0; c < C; ++c) {
      EXPECT_NEAR(got(static_cast<int>(r), static_cast<int>(c)), expected[r][c], tolerance)
          << "row " << r << ", column " << c;
    }
  }
}

template <class Got, size_t N>
void expect_row(const Got& got, const double (&expected)[N], double tolerance) {
  ASSERT_GE(got.size(), N);
  for (size_t n = 0; n < N; ++n) EXPECT_NEAR(got[n], expected[n], tolerance) << "element " << n;
}

// Calls visit(array) for every number of the terms that can have a gradient.
template <class Visit>
void each_array(Terms<double>& terms, Visit visit) {
  if (terms.number) {
    visit(terms.number->table.data);
    visit(terms.number->left);
    visit(terms.number->right);
  }
  if (terms.query_rows) visit(terms.query_rows->rows.data);
  if (terms.key_rows) visit(terms.key_rows->rows.data);
  if (terms.value_rows) visit(terms.value_rows->rows.data);
  if (terms.content_bias) visit(terms.content_bias->data);
}

// The gradient of sum(weight * term) for random weights, by lower_backward and by differences.
// Error of the differences: about 1e-13 of the sum by rounding, h^4 by truncation.
inline void expect_gradients(const Scheme& scheme, const Call& call, Store& store,
                             double tolerance = 1e-9) {
  Terms<double> weights = zeros_like(lower(scheme, call, store.views()));
  Random random(1);
  each_array(weights, [&](std::vector<double>& array) {
    for (double& weight : array) weight = 2 * random.uniform() - 1;
  });
  const auto sum = [&] {
    Terms<double> terms = lower(scheme, call, store.views());
    std::vector<double> numbers, factors;
    each_array(terms,
               [&](std::vector<double>& a) { numbers.insert(numbers.end(), a.begin(), a.end()); });
    each_array(weights,
               [&](std::vector<double>& a) { factors.insert(factors.end(), a.begin(), a.end()); });
    return dot(numbers, factors);
  };
  Store gradients(scheme, call.sizes, [](const ParameterSpec&) { return 0.25; });
  auto views = gradients.gradient_views();
  lower_backward(scheme, call, store.views(), weights, views);
  double largest = 0;
  for (auto& [name, array] : store.arrays) {
    for (size_t n = 0; n < array.size(); ++n) {
      const double expected = oracle::derivative(sum, array[n]);
      // Gradients are added to what was there.
      EXPECT_NEAR(gradients.arrays[name][n] - 0.25, expected, tolerance * (1 + std::fabs(expected)))
          << name << "[" << n << "]";
      largest = std::max(largest, std::fabs(expected));
    }
  }
  EXPECT_GT(largest, 1e-3) << "nothing was tested";
}

// The same for embed_backward.
inline void expect_embed_gradients(const Scheme& scheme, const std::vector<int64_t>& positions,
                                   const Sizes& sizes, Store& store, double tolerance = 1e-9) {
  const int64_t n = static_cast<int64_t>(positions.size());
  std::vector<double> weights(static_cast<size_t>(n * sizes.width));
  Random random(2);
  for (double& weight : weights) weight = 2 * random.uniform() - 1;
  const auto sum = [&] {
    std::vector<double> rows(weights.size(), 0.0);
    scheme.embed(positions.data(), n, sizes, store.views(), rows.data());
    return dot(rows, weights);
  };
  Store gradients(scheme, sizes, [](const ParameterSpec&) { return 0.25; });
  auto views = gradients.gradient_views();
  scheme.embed_backward(positions.data(), n, sizes, weights.data(), views);
  double largest = 0;
  for (auto& [name, array] : store.arrays) {
    for (size_t k = 0; k < array.size(); ++k) {
      const double expected = oracle::derivative(sum, array[k]);
      EXPECT_NEAR(gradients.arrays[name][k] - 0.25, expected, tolerance * (1 + std::fabs(expected)))
          << name << "[" << k << "]";
      largest = std::max(largest, std::fabs(expected));
    }
  }
  EXPECT_GT(largest, 1e-3) << "nothing was tested";
}

}  // namespace locant::probe
