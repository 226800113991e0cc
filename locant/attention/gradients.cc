// See gradients.h.
#include "locant/attention/gradients.h"

#include <algorithm>

namespace locant::attention {
namespace {

template <class T>
T* zeros(int64_t n, Arrays& arrays) {
  T* at = arrays.take<T>(n);
  std::fill(at, at + n, T(0));
  return at;
}

// Sums whose tables are head `head` of `heads`, in order.
template <class F>
void each_sum(const Plan& plan, int64_t heads, int64_t head, F f) {
  for (int64_t n = 0; n < plan.sums(); ++n) {
    if (heads == 1 || n % plan.H == head) f(n);
  }
}

void sum_number(const Plan& plan, NumberPerDistance<float>& out, std::vector<double>& sums) {
  const NumberTerm& term = plan.number;
  const int64_t entries = term.map.n + 2;
  // dS carries the scale; what stands outside of it does not want it.
  const double factor = out.scaled ? 1.0 : 1.0 / plan.gradient_factor;
  for (int64_t h = 0; h < term.heads; ++h) {
    sums.assign(static_cast<size_t>(entries), 0.0);
    double left = 0, right = 0;
    each_sum(plan, term.heads, h, [&](int64_t unit) {
      const float* from = term.gradient + unit * entries;
      for (int64_t e = 0; e < entries; ++e) sums[static_cast<size_t>(e)] += static_cast<double>(from[e]);
      left += term.side_gradient[unit * 2] + term.left_extra * static_cast<double>(from[0]);
      right += term.side_gradient[unit * 2 + 1] +
               term.right_extra * static_cast<double>(from[entries - 1]);
    });
    std::vector<double> rows(static_cast<size_t>(out.table.rows), 0.0);
    for (int64_t e = 0; e < entries; ++e) {
      const int32_t row = term.map.rows[e];
      if (row != kNoRow) rows[static_cast<size_t>(row)] += sums[static_cast<size_t>(e)];
    }
    float* to = out.table.row(h, 0);
    for (int64_t r = 0; r < out.table.rows; ++r) {
      to[r] = static_cast<float>(factor * rows[static_cast<size_t>(r)]);
    }
    if (!out.left.empty()) out.left[static_cast<size_t>(h)] = static_cast<float>(factor * left);
    if (!out.right.empty()) out.right[static_cast<size_t>(h)] = static_cast<float>(factor * right);
  }
}

// Rows [first, last) of all heads.
void sum_rows(const Plan& plan, const RowsTerm& term, Table<float>& out, int64_t head, int64_t row) {
  float* to = out.row(head, row);
  const int64_t column = row - term.first_row + 1;
  std::fill(to, to + out.width, 0.0f);
  if (column < 1 || column >= term.used - 1) return;
  each_sum(plan, term.heads, head, [&](int64_t unit) {
    const float* from = term.gradient + (unit * term.used + column) * term.width;
    for (int64_t c = 0; c < out.width; ++c) to[c] += from[c];
  });
  for (int64_t c = 0; c < out.width; ++c) to[c] *= term.row_factor;
}

void sum_rows(const Plan& plan, const RowsTerm& term, Table<float>& out, Executor& executor) {
  if (!term.gradient) return;
  constexpr int64_t kRows = 64;  // a task
  const int64_t parts = (out.rows + kRows - 1) / kRows;
  executor.run(out.heads * parts, [&](int64_t index, int) {
    const int64_t first = index % parts * kRows;
    for (int64_t r = first; r < std::min(out.rows, first + kRows); ++r) {
      sum_rows(plan, term, out, index / parts, r);
    }
  });
}

void sum_key_numbers(const Plan& plan, const View<float, 3>& out) {
  const bool packed = plan.k_places.start != nullptr;
  const bool one_batch = out.shape[0] == 1 && !packed, one_head = out.shape[1] == 1;
  const float factor = 1.0f / plan.gradient_factor;
  for (int64_t ob = 0; ob < (one_batch ? 1 : plan.B); ++ob) {
    for (int64_t oh = 0; oh < out.shape[1]; ++oh) {
      for (int64_t j = 0; j < plan.keys(ob); ++j) {
        float sum = 0;
        for (int64_t b = ob; b < (one_batch ? plan.B : ob + 1); ++b) {
          for (int64_t h = oh; h < (one_head ? plan.H : oh + 1); ++h) sum += plan.dkey_numbers_of(b, h)[j];
        }
        out(packed ? 0 : ob, oh, packed ? plan.k_places.start[ob] + j : j) = sum * factor;
      }
    }
  }
}

void sum_hook(const Plan& plan, int64_t heads, std::vector<float>& out) {
  const int64_t size = plan.hook_size;
  std::vector<double> sums(out.size(), 0.0);
  for (int64_t b = 0; b < plan.B; ++b) {
    for (int64_t h = 0; h < plan.H; ++h) {
      double* to = sums.data() + (heads == 1 ? 0 : h) * size;
      for (int64_t kt = 0; kt < plan.k_places.tiles_of(b); ++kt) {
        const double* from = plan.dhook_of(b, h, kt);
        for (int64_t n = 0; n < size; ++n) to[n] += from[n];
      }
    }
  }
  for (size_t n = 0; n < out.size(); ++n) {
    out[n] = static_cast<float>(sums[n] / static_cast<double>(plan.gradient_factor));
  }
}

}  // namespace

void open_gradients(Plan& plan, const TableGradients& gradients, Arrays& arrays) {
  if (gradients.number_per_key && plan.key_numbers) {
    plan.dkey_numbers = zeros<float>(plan.k_places.tiles_before(plan.B) * plan.H * kTile, arrays);
  }
  const Terms<float>* terms = gradients.terms;
  if (!terms) return;
  // Many short sequences share their sums: else tables would outweigh all the rest.
  constexpr int64_t kMostSums = 256;
  plan.sequences_a_sum = std::max<int64_t>(1, (plan.B * plan.H + kMostSums - 1) / kMostSums);
  const int64_t units = plan.sums();
  if (plan.number.on && terms->number) {
    plan.number.gradient = zeros<float>(units * (plan.number.map.n + 2), arrays);
    plan.number.side_gradient = zeros<double>(units * 2, arrays);
  }
  if (plan.hook && terms->hook) {
    plan.hook_size = plan.hook->gradient_size();
    const int64_t tiles = plan.k_places.tiles_before(plan.B) * plan.H;
    if (plan.hook_size > 0) plan.dhook = zeros<double>(tiles * plan.hook_size, arrays);
  }
  const auto open = [&](RowsTerm& term, bool wanted) {
    if (term.on && wanted) term.gradient = zeros<float>(units * term.used * term.width, arrays);
  };
  open(plan.query_rows, terms->query_rows.has_value());
  open(plan.key_rows, terms->key_rows.has_value());
  open(plan.value_rows, terms->value_rows.has_value());
  if (plan.content_bias && terms->content_bias) plan.dcontent = zeros<float>(units * plan.width, arrays);
}

void sum_gradients(const Plan& plan, const TableGradients& gradients, Executor& executor) {
  if (plan.dkey_numbers) sum_key_numbers(plan, gradients.number_per_key);
  Terms<float>* terms = gradients.terms;
  if (!terms) return;
  if (plan.number.gradient) {
    std::vector<double> sums;
    sum_number(plan, *terms->number, sums);
  }
  if (terms->query_rows) sum_rows(plan, plan.query_rows, terms->query_rows->rows, executor);
  if (terms->key_rows) sum_rows(plan, plan.key_rows, terms->key_rows->rows, executor);
  if (terms->value_rows) sum_rows(plan, plan.value_rows, terms->value_rows->rows, executor);
  if (plan.dhook) sum_hook(plan, terms->hook->heads(), terms->hook_gradient);
  if (plan.dcontent) {
    Table<float>& out = *terms->content_bias;
    for (int64_t h = 0; h < out.heads; ++h) {
      float* to = out.row(h, 0);
      std::fill(to, to + out.width, 0.0f);
      each_sum(plan, out.heads, h, [&](int64_t unit) {
        for (int64_t c = 0; c < out.width; ++c) to[c] += plan.dcontent[unit * plan.width + c];
      });
    }
  }
}

}  // namespace locant::attention
