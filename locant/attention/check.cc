// See check.h.
#include "locant/attention/check.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>

#include "locant/attention/overlap.h"
#include "locant/base/check.h"

namespace locant::attention {
namespace {

constexpr int64_t kPositionEnd = int64_t{1} << 31;

template <class T, int N>
void check_view(Check& check, const char* name, const View<T, N>& view) {
  for (int64_t extent : view.shape) {
    if (!check.require(extent >= 0, name, " has a negative extent: ", shape_text(view))) return;
  }
  if (view.size() == 0) return;
  check.require(view.data != nullptr, name, " ", shape_text(view), " has no data");
  check.require(view.stride[N - 1] == 1 || view.shape[N - 1] == 1, "the last stride of ", name,
                " must be 1, got ", view.stride[N - 1]);
  for (int n = 0; n < N; ++n) {
    check.require(view.stride[n] >= 0, "strides of ", name, " must not be negative, got ",
                  view.stride[n], " in dimension ", n);
  }
}

// A view that is written: in addition no two of its elements may share an address.
template <class T, int N>
void check_written(Check& check, const char* name, const View<T, N>& view) {
  check_view(check, name, view);
  if (view.size() == 0) return;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride, extent
  for (int n = 0; n < N; ++n) {
    if (view.shape[n] > 1) dimensions.push_back({view.stride[n], view.shape[n]});
  }
  std::sort(dimensions.begin(), dimensions.end());
  int64_t span = 0;
  for (const auto& [stride, extent] : dimensions) {
    if (!check.require(stride > span, "elements of ", name, " overlap: stride ", stride,
                       " within a span of ", span + 1)) {
      return;
    }
    span += (extent - 1) * stride;
  }
}

template <size_t N>
std::string text(const std::array<int64_t, N>& shape) {
  return shape_text(View<const char, static_cast<int>(N)>(nullptr, shape));
}

template <class T, int N>
bool check_shape(Check& check, const char* name, const View<T, N>& view,
                 const std::array<int64_t, static_cast<size_t>(N)>& expected) {
  return check.require(view.shape == expected, name, " must be ", text(expected), ", got ",
                       shape_text(view));
}

void check_positions(Check& check, const char* name, const View<const int64_t, 2>& view, int64_t B,
                     int64_t length) {
  if (!check.require((view.shape[0] == B || view.shape[0] == 1) && view.shape[1] == length, name,
                     " must be [", B, " or 1, ", length, "], got ", shape_text(view))) {
    return;
  }
  check_view(check, name, view);
  if (!view.data) return;
  for (int64_t b = 0; b < view.shape[0]; ++b) {
    for (int64_t n = 0; n < length; ++n) {
      const int64_t position = view(b, n);
      if (!check.require(position >= 0 && position < kPositionEnd, name, "[", b, ", ", n,
                         "] must be from 0 to 2^31 - 1, got ", position)) {
        return;  // one of them is enough
      }
    }
  }
}

// Where packed sequences begin, and the end of the last.
void check_starts(Check& check, const char* name, const View<const int64_t, 1>& starts,
                  int64_t total) {
  const int64_t n = starts.shape[0];
  if (!check.require(n >= 1, name, " must hold at least one number, got ", n)) return;
  if (!check.require(starts.stride[0] == 1 || n == 1, "the stride of ", name, " must be 1, got ",
                     starts.stride[0])) {
    return;
  }
  check.require(starts(0) == 0, name, " must begin with 0, got ", starts(0));
  for (int64_t s = 1; s < n; ++s) {
    if (!check.require(starts(s) >= starts(s - 1), name, " must not fall, got ", starts(s), " after ",
                       starts(s - 1))) {
      return;
    }
  }
  check.require(starts(n - 1) == total, name, " must end with the ", total, " tokens there are, got ",
                starts(n - 1));
}

template <class T>
void check_inputs(Check& check, const Inputs<T>& in) {
  check_view(check, "q", in.q);
  check_view(check, "k", in.k);
  check_view(check, "v", in.v);
  const auto [B, H, Q, D] = in.q.shape;
  const int64_t Hk = in.k.shape[1], K = in.k.shape[2];
  check.require(H >= 1 && D >= 1, "q must have at least one head and one channel, got ",
                shape_text(in.q));
  check.require(Hk >= 1 && H % Hk == 0, "the heads of k must divide those of q, got ", Hk, " and ",
                H);
  check.require(in.k.shape[0] == B && in.k.shape[3] == D,
                "k must have the batch and the head size ", "of q, got k ", shape_text(in.k),
                " and q ", shape_text(in.q));
  check.require(in.v.shape[0] == in.k.shape[0] && in.v.shape[1] == Hk && in.v.shape[2] == K,
                "v must have the batch, heads and length of k, got v ", shape_text(in.v), " and k ",
                shape_text(in.k));
  check.require(in.v.shape[3] >= 1, "v must have at least one channel, got ", shape_text(in.v));
  check.require(Q <= kPositionEnd && K <= kPositionEnd, "lengths must be at most 2^31, got ", Q,
                " queries and ", K, " keys");
  if (in.cu_seqlens_q || in.cu_seqlens_k) {
    const bool both = check.require(in.cu_seqlens_q && in.cu_seqlens_k,
                                    "cu_seqlens_q and cu_seqlens_k must be given both or none");
    check.require(B == 1 && in.k.shape[0] == 1, "packed sequences must have a batch of 1, got ", B);
    if (both) {
      check_starts(check, "cu_seqlens_q", in.cu_seqlens_q, Q);
      check_starts(check, "cu_seqlens_k", in.cu_seqlens_k, K);
      check.require(in.cu_seqlens_q.shape == in.cu_seqlens_k.shape,
                    "cu_seqlens_q and cu_seqlens_k must have the same length, got ",
                    in.cu_seqlens_q.shape[0], " and ", in.cu_seqlens_k.shape[0]);
    }
  }
  if (in.number_per_key) {
    const auto& shape = in.number_per_key.shape;
    check.require(
        (shape[0] == B || shape[0] == 1) && (shape[1] == H || shape[1] == 1) && shape[2] == K,
        "number_per_key must be [", B, " or 1, ", H, " or 1, ", K, "], got ",
        shape_text(in.number_per_key));
    check_view(check, "number_per_key", in.number_per_key);
  }
  if (in.q_positions || in.k_positions) {
    // An empty side has no data to give.
    check.require(in.q_positions || Q == 0 || B == 0,
                  "k_positions are given and q_positions are not");
    check.require(in.k_positions || K == 0 || B == 0,
                  "q_positions are given and k_positions are not");
    if (in.q_positions) check_positions(check, "q_positions", in.q_positions, B, Q);
    if (in.k_positions) check_positions(check, "k_positions", in.k_positions, B, K);
  }
}

void check_options(Check& check, const Options& options) {
  if (options.scale) {
    check.require(std::isfinite(*options.scale), "scale must be finite, got ", *options.scale);
  }
  check.require(std::isfinite(options.softcap) && options.softcap >= 0,
                "softcap must be 0 (none) or positive, got ", options.softcap);
}

void check_tokens(Check& check, const char* name, const View<const int64_t, 1>& tokens,
                  int64_t length) {
  if (!tokens) return;
  if (!check.require(tokens.shape[0] == length, name, " must be [", length, "], got ",
                     shape_text(tokens))) {
    return;
  }
  check_view(check, name, tokens);
  for (int64_t n = 0; n < length; ++n) {
    if (!check.require(tokens(n) >= 0 && tokens(n) < kPositionEnd, name, "[", n,
                       "] must be from 0 to 2^31 - 1, got ", tokens(n))) {
      return;
    }
  }
}

template <class T>
void check_dropout(Check& check, const Inputs<T>& in, const Dropout& dropout) {
  check.require(dropout.rate >= 0 && dropout.rate < 1,
                "dropout.rate must be from 0 up to but not including 1, got ", dropout.rate);
  check.require(dropout.first_batch >= 0 && dropout.first_batch < kPositionEnd &&
                    dropout.first_head >= 0 && dropout.first_head < kPositionEnd,
                "dropout.first_batch and first_head must be from 0 to 2^31 - 1, got ",
                dropout.first_batch, " and ", dropout.first_head);
  check_tokens(check, "dropout.q_tokens", dropout.q_tokens, in.q.shape[2]);
  check_tokens(check, "dropout.k_tokens", dropout.k_tokens, in.k.shape[2]);
}

void check_index(Check& check, const std::string& name, const IndexMap& index, int64_t rows) {
  check.require(!index.rows.empty(), name, " has an empty index map");
  check.require(std::abs(index.first) <= 2 * kPositionEnd, name,
                " has an index map that starts at an impossible distance, ", index.first);
  const auto in_range = [rows](int32_t row) { return row == kNoRow || (row >= 0 && row < rows); };
  const auto require = [&](int32_t row, const std::string& where) {
    return check.require(in_range(row), name, " maps ", where, " to row ", row, ", its table has ",
                         rows, " rows");
  };
  require(index.before, "distances before " + std::to_string(index.first));
  require(index.after, "distances after " + std::to_string(index.last()));
  for (size_t n = 0; n < index.rows.size(); ++n) {
    if (in_range(index.rows[n])) continue;
    require(index.rows[n], "distance " + std::to_string(index.first + static_cast<int64_t>(n)));
    return;
  }
}

template <class T>
bool check_table(Check& check, const std::string& name, const Table<T>& table, int64_t H,
                 int64_t width) {
  const bool shape = check.require(
      (table.heads == 1 || table.heads == H) && table.rows >= 0 && table.width == width, name,
      " must be a table of [1 or ", H, "][rows][", width, "], got [", table.heads, "][", table.rows,
      "][", table.width, "]");
  return check.require(!shape || static_cast<int64_t>(table.data.size()) ==
                                     table.heads * table.rows * table.width,
                       name, " holds ", table.data.size(), " numbers, its shape says ",
                       table.heads * table.rows * table.width) &&
         shape;
}

void check_rotation(Check& check, const Rotation& rotation, int64_t D) {
  const int64_t width = rotation.width;
  check.require(width >= 0 && width % 2 == 0, "the rotation's width must be even, got ", width);
  check.require(width <= D, "the rotation's width must be at most the head size ", D, ", got ",
                width);
  check.require(static_cast<int64_t>(rotation.frequency.size()) == width / 2,
                "the rotation needs width / 2 = ", width / 2, " frequencies, got ",
                rotation.frequency.size());
  check.require(
      rotation.log_growth.empty() || static_cast<int64_t>(rotation.log_growth.size()) == width / 2,
      "the rotation needs width / 2 = ", width / 2, " growth rates or none, got ",
      rotation.log_growth.size());
  const auto finite = [](const std::vector<double>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  };
  check.require(finite(rotation.frequency) && finite(rotation.log_growth) &&
                    std::isfinite(rotation.magnitude),
                "the rotation's frequencies, growth rates and magnitude must be finite");
}

template <class T>
void check_terms(Check& check, const Inputs<T>& in, const Terms<Real<T>>& terms) {
  const int64_t H = in.q.shape[1], D = in.q.shape[3], Dv = in.v.shape[3];
  if (const auto& term = terms.number) {
    check_table(check, "terms.number", term->table, H, 1);
    check_index(check, "terms.number", term->index, term->table.rows);
    for (const auto& [side, numbers] : {std::pair("left", &term->left), {"right", &term->right}}) {
      check.require(numbers->empty() || static_cast<int64_t>(numbers->size()) == term->table.heads,
                    "terms.number.", side, " must hold ", term->table.heads,
                    " numbers (one a head of its table) or none, got ", numbers->size());
    }
  }
  if (const auto& term = terms.query_rows) {
    check_table(check, "terms.query_rows", term->rows, H, D);
    check_index(check, "terms.query_rows", term->index, term->rows.rows);
  }
  if (const auto& term = terms.key_rows) {
    check_table(check, "terms.key_rows", term->rows, H, D);
    check_index(check, "terms.key_rows", term->index, term->rows.rows);
  }
  if (const auto& term = terms.value_rows) {
    check_table(check, "terms.value_rows", term->rows, H, Dv);
    check_index(check, "terms.value_rows", term->index, term->rows.rows);
  }
  if (const auto& table = terms.content_bias) {
    if (check_table(check, "terms.content_bias", *table, H, D)) {
      check.require(table->rows == 1, "terms.content_bias must have one row a head, got ",
                    table->rows);
    }
  }
  if (terms.rotation) check_rotation(check, *terms.rotation, D);
  if (terms.hook) {
    const int64_t heads = terms.hook->heads(), size = terms.hook->gradient_size();
    check.require((heads == 1 || heads == H) && size >= 0,
                  "terms.hook must learn numbers for 1 or ", H, " heads, got ", heads, " heads of ",
                  size, " numbers");
  }
  check.require(std::isfinite(terms.scale_factor), "terms.scale_factor must be finite, got ",
                terms.scale_factor);
}

template <class T>
void check_same(Check& check, const char* name, const std::vector<T>* expected,
                const std::vector<T>* got) {
  if (!check.require(!expected == !got, "the gradient of terms.", name,
                     got ? " has no term" : " is missing", "; make it with zeros_like(terms)")) {
    return;
  }
  if (!expected) return;
  check.require(expected->size() == got->size(), "the gradient of terms.", name, " must hold ",
                expected->size(), " numbers, got ", got->size(),
                "; make it with zeros_like(terms)");
}

template <class T>
void check_terms_gradient(Check& check, const Terms<T>& terms, const Terms<T>& gradient) {
  check.require(&terms != &gradient, "the gradient of terms must not be the terms themselves");
  const auto data = [](const auto& optional, auto member) -> const std::vector<T>* {
    return optional ? &member(*optional) : nullptr;
  };
  const auto compare = [&](const char* name, const auto& a, const auto& b, auto member) {
    check_same(check, name, data(a, member), data(b, member));
  };
  const auto number_table = [](const auto& term) -> const auto& { return term.table.data; };
  const auto rows = [](const auto& term) -> const auto& { return term.rows.data; };
  compare("number", terms.number, gradient.number, number_table);
  compare(
      "number.left", terms.number, gradient.number,
      [](const auto& term) -> const auto& { return term.left; });
  compare(
      "number.right", terms.number, gradient.number,
      [](const auto& term) -> const auto& { return term.right; });
  compare("query_rows", terms.query_rows, gradient.query_rows, rows);
  compare("key_rows", terms.key_rows, gradient.key_rows, rows);
  compare("value_rows", terms.value_rows, gradient.value_rows, rows);
  check.require(!terms.hook == !gradient.hook, "the gradient of terms.hook ",
                gradient.hook ? "has no term" : "is missing", "; make it with zeros_like(terms)");
  if (terms.hook && gradient.hook) {
    const int64_t size = terms.hook->heads() * terms.hook->gradient_size();
    check.require(static_cast<int64_t>(gradient.hook_gradient.size()) == size,
                  "the gradient of terms.hook must hold ", size, " numbers, got ",
                  gradient.hook_gradient.size(), "; make it with zeros_like(terms)");
  }
  compare(
      "content_bias", terms.content_bias, gradient.content_bias,
      [](const auto& table) -> const auto& { return table.data; });
}

struct Named {
  const char* name;
  Extent extent;
};

template <class T, int N>
void add(std::vector<Named>& list, const char* name, const View<T, N>& view) {
  if (view.data && view.size() > 0) list.push_back({name, extent_of(view)});
}

template <class T>
std::vector<Named> read_views(const Inputs<T>& in, const Options& options) {
  std::vector<Named> read;
  add(read, "q", in.q);
  add(read, "k", in.k);
  add(read, "v", in.v);
  add(read, "number_per_key", in.number_per_key);
  add(read, "q_positions", in.q_positions);
  add(read, "k_positions", in.k_positions);
  add(read, "cu_seqlens_q", in.cu_seqlens_q);
  add(read, "cu_seqlens_k", in.cu_seqlens_k);
  add(read, "dropout.q_tokens", options.dropout.q_tokens);
  add(read, "dropout.k_tokens", options.dropout.k_tokens);
  return read;
}

void check_apart(Check& check, const std::vector<Named>& written, const std::vector<Named>& read) {
  for (size_t n = 0; n < written.size(); ++n) {
    for (const Named& other : read) {
      check.require(!overlap(written[n].extent, other.extent), written[n].name, " overlaps ",
                    other.name);
    }
    for (size_t m = 0; m < n; ++m) {
      check.require(!overlap(written[n].extent, written[m].extent), written[n].name, " overlaps ",
                    written[m].name);
    }
  }
}

}  // namespace

template <class T>
Problem resolve(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options) {
  Problem p;
  p.B = in.q.shape[0], p.H = in.q.shape[1], p.Q = in.q.shape[2], p.D = in.q.shape[3];
  p.Hk = in.k.shape[1], p.K = in.k.shape[2], p.Dv = in.v.shape[3];
  p.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(p.D))) * terms.scale_factor;
  p.options = options;
  if (in.cu_seqlens_q) {
    const auto copy = [](const View<const int64_t, 1>& from) {
      return std::vector<int64_t>(from.data, from.data + from.shape[0]);
    };
    p.q_starts = copy(in.cu_seqlens_q);
    p.k_starts = copy(in.cu_seqlens_k);
    p.B = in.cu_seqlens_q.shape[0] - 1;
    p.Q = p.K = 0;
    for (int64_t b = 0; b < p.B; ++b) {
      p.Q = std::max(p.Q, p.queries(b));
      p.K = std::max(p.K, p.keys(b));
    }
  }
  const int64_t batches = p.packed() ? 1 : p.B;
  if (!in.q_positions && !in.k_positions) {
    const int64_t all_queries = in.q.shape[2], all_keys = in.k.shape[2];
    p.storage_.resize(static_cast<size_t>(all_queries + all_keys));
    int64_t* const q = p.storage_.data();
    int64_t* const k = q + all_queries;
    for (int64_t b = 0; b < (p.packed() ? p.B : 1); ++b) {
      const int64_t first = std::max<int64_t>(0, p.keys(b) - p.queries(b));
      for (int64_t i = 0; i < p.queries(b); ++i) q[p.first_q(b) + i] = first + i;
      for (int64_t j = 0; j < p.keys(b); ++j) k[p.first_k(b) + j] = j;
    }
    p.q_positions = {q, {batches, all_queries}, {0, 1}};
    p.k_positions = {k, {batches, all_keys}, {0, 1}};
  } else {
    p.q_positions = in.q_positions;
    p.k_positions = in.k_positions;
    for (auto* positions : {&p.q_positions, &p.k_positions}) {
      if (positions->shape[0] == 1) positions->stride[0] = 0;
      positions->shape[0] = batches;
    }
  }
  return p;
}

template <class T>
void check_forward(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
                   const Outputs<T>& outputs) {
  Check check("attention forward");
  check_inputs(check, in);
  check_options(check, options);
  check_dropout(check, in, options.dropout);
  check_terms(check, in, terms);
  const auto [B, H, Q, D] = in.q.shape;
  check_shape(check, "out", outputs.out, {B, H, Q, in.v.shape[3]});
  check_written(check, "out", outputs.out);
  if (outputs.lse) {
    check_shape(check, "lse", outputs.lse, {B, H, Q});
    check_written(check, "lse", outputs.lse);
  }
  if (check.ok()) {
    std::vector<Named> written;
    add(written, "out", outputs.out);
    add(written, "lse", outputs.lse);
    check_apart(check, written, read_views(in, options));
  }
  check.done();
}

template <class T>
void check_backward(const Inputs<T>& in, const Terms<Real<T>>& terms, const Options& options,
                    const Outputs<const T>& outputs, View<const T, 4> out_gradient,
                    const Gradients<T>& gradients) {
  Check check("attention backward");
  check_inputs(check, in);
  check_options(check, options);
  check_dropout(check, in, options.dropout);
  check_terms(check, in, terms);
  const auto [B, H, Q, D] = in.q.shape;
  const std::array<int64_t, 4> out_shape{B, H, Q, in.v.shape[3]};
  check_shape(check, "out", outputs.out, out_shape);
  check_view(check, "out", outputs.out);
  check_shape(check, "lse", outputs.lse, {B, H, Q});
  check_view(check, "lse", outputs.lse);
  check_shape(check, "out_gradient", out_gradient, out_shape);
  check_view(check, "out_gradient", out_gradient);
  const auto check_gradient = [&](const char* name, const auto& gradient, const auto& input) {
    if (!gradient) return;
    check_shape(check, name, gradient, input.shape);
    check_written(check, name, gradient);
  };
  check_gradient("the gradient of q", gradients.q, in.q);
  check_gradient("the gradient of k", gradients.k, in.k);
  check_gradient("the gradient of v", gradients.v, in.v);
  if (check.require(!gradients.number_per_key || in.number_per_key,
                    "a gradient of number_per_key is asked for and none is given")) {
    check_gradient("the gradient of number_per_key", gradients.number_per_key, in.number_per_key);
  }
  if (gradients.terms) check_terms_gradient(check, terms, *gradients.terms);
  if (check.ok()) {
    std::vector<Named> read = read_views(in, options), written;
    add(read, "out", outputs.out);
    add(read, "lse", outputs.lse);
    add(read, "out_gradient", out_gradient);
    add(written, "the gradient of q", gradients.q);
    add(written, "the gradient of k", gradients.k);
    add(written, "the gradient of v", gradients.v);
    add(written, "the gradient of number_per_key", gradients.number_per_key);
    check_apart(check, written, read);
  }
  check.done();
}

template <class T>
Span span_of(const Inputs<T>& in, const Options& options) {
  Check check("attention span");
  check_inputs(check, in);
  check.done();
  const Problem p = resolve(in, Terms<Real<T>>(), options);
  Span span;
  bool found = false;
  for (int64_t b = 0; b < p.B; ++b) {
    const bool alike = p.q_positions.stride[0] == 0 && p.k_positions.stride[0] == 0;
    if (b > 0 && alike && !p.packed()) break;
    int64_t q_low = kPositionEnd, q_high = -1, k_low = kPositionEnd, k_high = -1;
    for (int64_t i = 0; i < p.queries(b); ++i) {
      q_low = std::min(q_low, p.q_position(b, i));
      q_high = std::max(q_high, p.q_position(b, i));
    }
    for (int64_t j = 0; j < p.keys(b); ++j) {
      k_low = std::min(k_low, p.k_position(b, j));
      k_high = std::max(k_high, p.k_position(b, j));
    }
    span.length = std::max({span.length, q_high + 1, k_high + 1});
    if (p.queries(b) == 0 || p.keys(b) == 0) continue;
    span.first_distance = found ? std::min(span.first_distance, k_low - q_high) : k_low - q_high;
    span.last_distance = found ? std::max(span.last_distance, k_high - q_low) : k_high - q_low;
    found = true;
  }
  if (options.causal) span.last_distance = std::min<int64_t>(span.last_distance, 0);
  const auto& [left, right] = options.window;
  if (left >= 0) span.first_distance = std::max(span.first_distance, -left);
  if (right >= 0) span.last_distance = std::min(span.last_distance, right);
  // Nothing is visible: any one distance will do.
  if (span.first_distance > span.last_distance) span.first_distance = span.last_distance = 0;
  return span;
}

template <class T>
void check_terms_and_options(Check& check, int64_t H, int64_t D, int64_t Dv, const Terms<T>& terms,
                             const Options& options) {
  Inputs<T> shapes;
  shapes.q.shape = {1, H, 1, D};
  shapes.v.shape = {1, 1, 1, Dv};
  check_options(check, options);
  check_terms(check, shapes, terms);
}

template void check_terms_and_options(Check&, int64_t, int64_t, int64_t, const Terms<float>&,
                                      const Options&);
template void check_terms_and_options(Check&, int64_t, int64_t, int64_t, const Terms<double>&,
                                      const Options&);
template Problem resolve(const Inputs<float>&, const Terms<float>&, const Options&);
template Problem resolve(const Inputs<Bf16>&, const Terms<float>&, const Options&);
template Problem resolve(const Inputs<double>&, const Terms<double>&, const Options&);
template Problem resolve(const Inputs<std::complex<double>>&, const Terms<std::complex<double>>&,
                         const Options&);
template Span span_of(const Inputs<float>&, const Options&);
template Span span_of(const Inputs<Bf16>&, const Options&);
template Span span_of(const Inputs<double>&, const Options&);
template void check_forward(const Inputs<float>&, const Terms<float>&, const Options&,
                            const Outputs<float>&);
template void check_forward(const Inputs<Bf16>&, const Terms<float>&, const Options&,
                            const Outputs<Bf16>&);
template void check_forward(const Inputs<double>&, const Terms<double>&, const Options&,
                            const Outputs<double>&);
template void check_backward(const Inputs<float>&, const Terms<float>&, const Options&,
                             const Outputs<const float>&, View<const float, 4>,
                             const Gradients<float>&);
template void check_backward(const Inputs<Bf16>&, const Terms<float>&, const Options&,
                             const Outputs<const Bf16>&, View<const Bf16, 4>,
                             const Gradients<Bf16>&);
template void check_backward(const Inputs<double>&, const Terms<double>&, const Options&,
                             const Outputs<const double>&, View<const double, 4>,
                             const Gradients<double>&);

}  // namespace locant::attention
