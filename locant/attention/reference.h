// The scalar twin: attention as plainly as it can be written, forward and backward, for any number
// type. In double it is the oracle of the fast path; in std::complex<double> one complex step gives
// derivatives (so comparisons look at real parts only). It is the last entry of the dispatch list.
// It holds one row of scores at a time, never Q x K of them.
//
// Forward, for every query row (the mask is decided first, so unseen keys are never read):
//   1 rotate      q and k by their positions
//   2 products    s_j  = (q + u) . k_j                       u: content bias
//   3 scaled      s_j += number, q . row, k_j . row          terms of the distance inside the scale
//   4 scale       s_j  = softcap(scale s_j)
//   5 unscaled    s_j += number, q . row, k_j . row          those outside, and the hook
//   6 keys        s_j += number of the key
//   7 softmax     p_j  = exp(s_j - lse)
//   8 dropout     p_j  = p_j / (1 - rate) or 0
//   9 values      o    = sum p_j v_j
//  10 value rows  o   += sum p_j row
// Backward: the same passes from 10 to 1, each the adjoint of its namesake.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "locant/attention/problem.h"
#include "locant/attention/reference_math.h"
#include "locant/base/keyed_hash.h"

namespace locant::attention::reference {

template <class T>
class Twin {
 public:
  Twin(const Inputs<T>& inputs, const Terms<T>& terms, const Problem& problem)
      : in_(inputs),
        terms_(terms),
        p_(problem),
        s_(p_.K),
        slope_(p_.K),
        share_(p_.K),
        kept_(p_.K) {}

  void forward(const Outputs<T>& outputs) {
    for (b_ = 0; b_ < p_.B; ++b_) {
      for (h_ = 0; h_ < p_.H; ++h_) {
        load_head();
        for (int64_t i = 0; i < p_.queries(b_); ++i) {
          const int64_t row = p_.first_q(b_) + i;
          T* out = &outputs.out(p_.batch(b_), h_, row, 0);
          for (int64_t c = 0; c < p_.Dv; ++c) out[c] = T(0);
          scores(i);
          const T lse = log_sum_exp();
          if (outputs.lse) outputs.lse(p_.batch(b_), h_, row) = lse;
          softmax(lse);
          normalise();
          dropout(i);
          values(out);
          value_rows(i, out);
        }
      }
    }
  }

  void backward(const Outputs<const T>& outputs, View<const T, 4> out_gradient,
                const Gradients<T>& gradients) {
    Terms<T> unwanted;
    if (!gradients.terms) unwanted = terms_;
    dterms_ = gradients.terms ? gradients.terms : &unwanted;
    set_zero(*dterms_);
    if constexpr (!KnowsSize<T>) hook_sums_.assign(dterms_->hook_gradient.size(), 0.0);
    dkey_ = gradients.number_per_key;
    set_zero(dkey_);
    for (b_ = 0; b_ < p_.B; ++b_) {
      for (int64_t hk = 0; hk < p_.Hk; ++hk) {
        dk_.assign(p_.keys(b_) * p_.D, T(0));
        dv_.assign(p_.keys(b_) * p_.Dv, T(0));
        for (h_ = hk * p_.group(); h_ < (hk + 1) * p_.group(); ++h_) {
          load_head();
          dq_.assign(p_.queries(b_) * p_.D, T(0));
          for (int64_t i = 0; i < p_.queries(b_); ++i) {
            const int64_t row = p_.first_q(b_) + i;
            const T* dout = &out_gradient(p_.batch(b_), h_, row, 0);
            scores(i);
            softmax(outputs.lse(p_.batch(b_), h_, row));
            dropout(i);
            ds_.assign(p_.K, T(0));
            value_rows_backward(i, dout);
            values_backward(dout);
            dropout_backward();
            softmax_backward(dot(&outputs.out(p_.batch(b_), h_, row, 0), dout, p_.Dv));
            keys_backward();
            hook_backward(i);
            terms_backward(i, false);
            scale_backward();
            terms_backward(i, true);
            products_backward(i);
          }
          rotate_backward(dq_, true, +1, gradients.q, h_);
        }
        rotate_backward(dk_, false, -1, gradients.k, hk);
        rotate_backward(dv_, false, 0, gradients.v, hk);
      }
    }
    for (size_t n = 0; n < hook_sums_.size(); ++n) dterms_->hook_gradient[n] = T(hook_sums_[n]);
  }

 private:
  // Passes 2 to 6.
  void scores(int64_t i) {
    mask(i);
    products(i);
    terms(i, true);
    scale();
    terms(i, false);
    hook(i);
    keys();
  }

  // Pass 1. Copies q of head h_ and k of its key head, turned.
  void load_head() {
    load(in_.q, h_, true, +1, q_);
    load(in_.k, h_ / p_.group(), false, -1, k_);
  }
  void load(const View<const T, 4>& from, int64_t head, bool query, int side, std::vector<T>& to) {
    const int64_t n = query ? p_.queries(b_) : p_.keys(b_);
    const int64_t first = query ? p_.first_q(b_) : p_.first_k(b_);
    to.resize(n * p_.D);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < p_.D; ++c) to[r * p_.D + c] = from(p_.batch(b_), head, first + r, c);
      if (terms_.rotation) rotate(*terms_.rotation, position(query, r), side, false, &to[r * p_.D]);
    }
  }
  // Turns back (side 0: not at all) and writes.
  void rotate_backward(std::vector<T>& rows, bool query, int side, const View<T, 4>& to,
                       int64_t head) {
    const int64_t n = query ? p_.queries(b_) : p_.keys(b_);
    const int64_t first = query ? p_.first_q(b_) : p_.first_k(b_);
    const int64_t width = to.shape[3];
    for (int64_t r = 0; to && r < n; ++r) {
      T* row = &rows[r * width];
      if (terms_.rotation && side) rotate(*terms_.rotation, position(query, r), side, true, row);
      for (int64_t c = 0; c < width; ++c) to(p_.batch(b_), head, first + r, c) = row[c];
    }
  }
  int64_t position(bool query, int64_t r) const {
    return query ? p_.q_position(b_, r) : p_.k_position(b_, r);
  }

  void mask(int64_t i) {
    seen_.clear();
    for (int64_t j = 0; j < p_.keys(b_); ++j) {
      const bool padded = in_.number_per_key && real_part(key_number(j)) == kNothing;
      if (!padded && keeps(p_.options, distance(i, j))) seen_.push_back(j);
    }
  }

  // Pass 2.
  void products(int64_t i) {
    const T* u = terms_.content_bias ? terms_.content_bias->row(h_, 0) : nullptr;
    for (int64_t j : seen_) {
      s_[j] = dot(q(i), k(j), p_.D);
      if (u) s_[j] += dot(u, k(j), p_.D);
    }
  }
  void products_backward(int64_t i) {
    const T* u = terms_.content_bias ? terms_.content_bias->row(h_, 0) : nullptr;
    for (int64_t j : seen_) {
      add(&dq_[i * p_.D], ds_[j], k(j), p_.D);
      add(&dk_[j * p_.D], ds_[j], q(i), p_.D);
      if (u) add(&dk_[j * p_.D], ds_[j], u, p_.D);
      if (u) add(dterms_->content_bias->row(h_, 0), ds_[j], k(j), p_.D);
    }
  }

  // Passes 3 and 5: the terms inside the scale, or those outside.
  void terms(int64_t i, bool scaled) {
    for (int64_t j : seen_) {
      const int64_t d = distance(i, j);
      const int32_t n = row_of(terms_.number, scaled, d), qr = row_of(terms_.query_rows, scaled, d),
                    kr = row_of(terms_.key_rows, scaled, d);
      if (n != kNoRow) s_[j] += *terms_.number->table.row(h_, n);
      if (qr != kNoRow) s_[j] += dot(q(i), terms_.query_rows->rows.row(h_, qr), p_.D);
      if (kr != kNoRow) s_[j] += dot(k(j), terms_.key_rows->rows.row(h_, kr), p_.D);
      beyond_table(scaled, d, [&](auto side, size_t head, T steps) {
        s_[j] += ((*terms_.number).*side)[head] * steps;
      });
    }
  }
  void terms_backward(int64_t i, bool scaled) {
    for (int64_t j : seen_) {
      const int64_t d = distance(i, j);
      const int32_t n = row_of(terms_.number, scaled, d), qr = row_of(terms_.query_rows, scaled, d),
                    kr = row_of(terms_.key_rows, scaled, d);
      if (n != kNoRow) *dterms_->number->table.row(h_, n) += ds_[j];
      if (qr != kNoRow) {
        add(&dq_[i * p_.D], ds_[j], terms_.query_rows->rows.row(h_, qr), p_.D);
        add(dterms_->query_rows->rows.row(h_, qr), ds_[j], q(i), p_.D);
      }
      if (kr != kNoRow) {
        add(&dk_[j * p_.D], ds_[j], terms_.key_rows->rows.row(h_, kr), p_.D);
        add(dterms_->key_rows->rows.row(h_, kr), ds_[j], k(j), p_.D);
      }
      beyond_table(scaled, d, [&](auto side, size_t head, T steps) {
        ((*dterms_->number).*side)[head] += ds_[j] * steps;
      });
    }
  }

  // f(tile, its first key) for every tile of one query: what a hook is asked for, in double.
  template <class F>
  void each_hook_tile(int64_t i, F f) {
    const auto q_position = static_cast<int32_t>(p_.q_position(b_, i));
    int32_t k_positions[ScoreTile::kMost];
    for (int64_t j = 0; j < p_.keys(b_); j += ScoreTile::kMost) {
      ScoreTile tile;
      tile.batch = b_, tile.head = h_;
      tile.first_query = i, tile.first_key = j;
      tile.queries = 1;
      tile.keys = std::min(ScoreTile::kMost, p_.keys(b_) - j);
      tile.q_positions = &q_position, tile.k_positions = k_positions;
      tile.row = tile.keys;
      for (int64_t n = 0; n < tile.keys; ++n) {
        k_positions[n] = static_cast<int32_t>(p_.k_position(b_, j + n));
      }
      f(tile);
    }
  }
  void hook(int64_t i) {
    if (!terms_.hook) return;
    hook_numbers_.assign(p_.K, 0.0);
    each_hook_tile(i, [&](const ScoreTile& tile) {
      terms_.hook->add(tile, &hook_numbers_[tile.first_key]);
    });
    for (int64_t j : seen_) s_[j] += T(hook_numbers_[j]);
  }
  void hook_backward(int64_t i) {
    if (!terms_.hook || dterms_->hook_gradient.empty()) return;
    const int64_t size = terms_.hook->gradient_size(), first = terms_.hook->heads() == 1 ? 0 : h_ * size;
    if constexpr (KnowsSize<T>) {
      weigh_pairs(i, &dterms_->hook_gradient[first], size);
    } else {
      hook_numbers_.assign(p_.K, 0.0);
      for (int64_t j : seen_) hook_numbers_[j] = real_part(ds_[j]);
      each_hook_tile(i, [&](const ScoreTile& tile) {
        terms_.hook->add_backward(tile, &hook_numbers_[tile.first_key], &hook_sums_[first]);
      });
    }
  }
  // A hook is handed doubles. Its adjoint is linear: asked for the weights of every pair, so that the sizes of
  // the gradients of the scores reach its sums.
  void weigh_pairs(int64_t i, T* sums, int64_t size) {
    const double one = 1;
    std::vector<double> weights(size);
    std::vector<T> of_row(size, T(0));
    const auto q_position = static_cast<int32_t>(p_.q_position(b_, i));
    for (int64_t j : seen_) {
      const auto k_position = static_cast<int32_t>(p_.k_position(b_, j));
      ScoreTile pair;
      pair.batch = b_, pair.head = h_;
      pair.first_query = i, pair.first_key = j;
      pair.queries = pair.keys = pair.row = 1;
      pair.q_positions = &q_position, pair.k_positions = &k_position;
      std::fill(weights.begin(), weights.end(), 0.0);
      terms_.hook->add_backward(pair, &one, weights.data());
      for (int64_t n = 0; n < size; ++n) {
        if (weights[n] != 0) of_row[n] += T(weights[n]) * ds_[j];
      }
    }
    for (int64_t n = 0; n < size; ++n) add_apart(sums[n], of_row[n]);
  }

  // Pass 4. slope: derivative of the softcap.
  void scale() {
    using std::tanh;
    const T factor(p_.scale), cap(p_.options.softcap);
    for (int64_t j : seen_) {
      s_[j] *= factor;
      if (p_.options.softcap == 0) continue;
      const T bent = tanh(s_[j] / cap);
      s_[j] = cap * bent;
      slope_[j] = T(1) - bent * bent;
    }
  }
  void scale_backward() {
    const T factor(p_.scale);
    for (int64_t j : seen_) {
      if (p_.options.softcap != 0) ds_[j] *= slope_[j];
      ds_[j] *= factor;
    }
  }

  // Pass 6.
  void keys() {
    if (!in_.number_per_key) return;
    for (int64_t j : seen_) s_[j] += key_number(j);
  }
  void keys_backward() {
    if (!dkey_) return;
    for (int64_t j : seen_) {
      dkey_(dkey_.shape[0] == 1 ? 0 : b_, dkey_.shape[1] == 1 ? 0 : h_, p_.first_k(b_) + j) += ds_[j];
    }
  }

  // Pass 7. s becomes the probability; a row that sees nothing sums to nothing.
  T log_sum_exp() {
    using std::exp, std::log;
    double top = kNothing;
    for (int64_t j : seen_) {
      if (!(real_part(s_[j]) <= top)) top = real_part(s_[j]);
    }
    if (top == kNothing) return T(top);
    T sum(0);
    for (int64_t j : seen_) sum += exp(s_[j] - T(top));
    return T(top) + log(sum);
  }
  void softmax(const T& lse) {
    using std::exp;
    for (int64_t j : seen_) s_[j] = real_part(s_[j]) == kNothing ? T(0) : exp(s_[j] - lse);
  }
  // Where scores are beyond 2^52 the lse has lost the logarithm of the sum.
  void normalise() {
    T sum(0);
    for (int64_t j : seen_) sum += s_[j];
    if (!(real_part(sum) > 1.5)) return;
    for (int64_t j : seen_) s_[j] = s_[j] / sum;
  }
  // With delta = sum_j p_j dp_j = out . dout, dropout or not.
  void softmax_backward(const T& delta) {
    for (int64_t j : seen_) ds_[j] = s_[j] * (ds_[j] - delta);
  }

  // Pass 8. kept: the probability after it; share: what it was multiplied by.
  void dropout(int64_t i) {
    const Dropout& drop = p_.options.dropout;
    if (drop.rate == 0) {
      for (int64_t j : seen_) kept_[j] = s_[j];
      return;
    }
    const DropoutKeys keys =
        dropout_keys(drop, b_, h_, drop.q_tokens ? drop.q_tokens(p_.first_q(b_) + i) : i);
    const uint32_t threshold = dropout_threshold(drop.rate);
    for (int64_t j : seen_) {
      const auto token = static_cast<uint32_t>(drop.k_tokens ? drop.k_tokens(p_.first_k(b_) + j) : j);
      const bool keep = keyed_hash(token, keys.first, keys.second) >= threshold;
      share_[j] = keep ? T(1 / (1 - drop.rate)) : T(0);
      kept_[j] = share_[j] * s_[j];
    }
  }
  void dropout_backward() {
    if (p_.options.dropout.rate == 0) return;
    for (int64_t j : seen_) ds_[j] *= share_[j];
  }

  // Pass 9.
  void values(T* out) {
    for (int64_t j : seen_) add(out, kept_[j], v(j), p_.Dv);
  }
  void values_backward(const T* dout) {
    for (int64_t j : seen_) {
      ds_[j] += dot(dout, v(j), p_.Dv);
      add(&dv_[j * p_.Dv], kept_[j], dout, p_.Dv);
    }
  }

  // Pass 10.
  void value_rows(int64_t i, T* out) {
    if (!terms_.value_rows) return;
    for (int64_t j : seen_) {
      const int32_t r = terms_.value_rows->index(distance(i, j));
      if (r != kNoRow) add(out, kept_[j], terms_.value_rows->rows.row(h_, r), p_.Dv);
    }
  }
  void value_rows_backward(int64_t i, const T* dout) {
    if (!terms_.value_rows) return;
    for (int64_t j : seen_) {
      const int32_t r = terms_.value_rows->index(distance(i, j));
      if (r == kNoRow) continue;
      ds_[j] += dot(dout, terms_.value_rows->rows.row(h_, r), p_.Dv);
      add(dterms_->value_rows->rows.row(h_, r), kept_[j], dout, p_.Dv);
    }
  }

  template <class Term>
  static int32_t row_of(const std::optional<Term>& term, bool scaled, int64_t d) {
    return term && term->scaled == scaled ? term->index(d) : kNoRow;
  }
  // f(left or right, head, steps) where the number per distance grows linearly beside its table.
  template <class F>
  void beyond_table(bool scaled, int64_t d, F f) const {
    const auto& t = terms_.number;
    if (!t || t->scaled != scaled) return;
    const size_t head = t->table.heads == 1 ? 0 : h_;
    const int64_t before = t->index.first - d, after = d - t->index.last();
    if (before > 0 && !t->left.empty()) f(&NumberPerDistance<T>::left, head, T(before));
    if (after > 0 && !t->right.empty()) f(&NumberPerDistance<T>::right, head, T(after));
  }
  int64_t distance(int64_t i, int64_t j) const {
    return p_.k_position(b_, j) - p_.q_position(b_, i);
  }
  const T* q(int64_t i) const { return &q_[i * p_.D]; }
  const T* k(int64_t j) const { return &k_[j * p_.D]; }
  const T* v(int64_t j) const {
    return &in_.v(p_.batch(b_), h_ / p_.group(), p_.first_k(b_) + j, 0);
  }
  const T& key_number(int64_t j) const {
    const auto& c = in_.number_per_key;
    return c(c.shape[0] == 1 ? 0 : b_, c.shape[1] == 1 ? 0 : h_, p_.first_k(b_) + j);
  }

  const Inputs<T>& in_;
  const Terms<T>& terms_;
  const Problem& p_;
  int64_t b_ = 0, h_ = 0;
  std::vector<int64_t> seen_;            // keys that the current row sees
  std::vector<T> s_, slope_, ds_;        // [K], of the current row
  std::vector<T> share_, kept_;          // [K], of the current row
  std::vector<double> hook_numbers_;     // [K], of the current row
  std::vector<double> hook_sums_;        // all of its gradient, where that is a sum of doubles
  std::vector<T> q_, k_, dq_, dk_, dv_;  // of the current head, rotated
  Terms<T>* dterms_ = nullptr;
  View<T, 3> dkey_;
};

}  // namespace locant::attention::reference
