// See attention_examine.h. Bytes decide structure (sizes, masks, positions, maps, strides, what is
// asked for); numbers come from a generator that a few bytes seed. Every call made here is legal, so an
// exception is a finding, as is a result that differs from the twin's by more than rounding, and a
// number written between the rows of an output.
#include "tests/fuzz/attention_examine.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>
#include <vector>

#include "locant/simd/dispatch.h"
#include "tests/attention/call.h"
#include "tests/attention/sized.h"
#include "tests/oracle/tolerance.h"

namespace locant::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The bytes, then zeros.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  int byte() { return at_ < size_ ? data_[at_++] : 0; }
  bool flag() { return byte() & 1; }
  int integer(int low, int high) {
    int64_t x = byte();
    if (high - low > 255) x = x << 8 | byte();
    return low + static_cast<int>(x % (int64_t{high} - low + 1));
  }
  double real(double low, double high) { return low + (high - low) * byte() / 255; }
  uint64_t seed() { return static_cast<uint64_t>(byte()) << 8 | static_cast<uint64_t>(byte()); }
  bool done() const { return at_ >= size_; }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

oracle::Shape read_shape(Bytes& in) {
  oracle::Shape s;
  const int sizes = in.byte();  // mostly small: many of them a second
  const int most = sizes % 8 == 0 ? 260 : sizes % 8 < 3 ? 140 : 24;
  s.b = sizes / 8 % 4 == 0 ? 2 : 1;
  s.hk = in.integer(1, 2);
  s.h = s.hk * in.integer(1, 3);
  s.q = in.integer(0, most);
  s.k = in.integer(0, most);
  if (in.flag()) s.k = s.q;
  s.d = in.integer(1, most > 24 ? 40 : 72);
  s.dv = in.flag() ? s.d : in.integer(1, 40);
  return s;
}

void read_options(Bytes& in, Call<double>& call) {
  attention::Options& o = call.options;
  o.causal = in.flag();
  for (int64_t* side : {&o.window.left, &o.window.right}) {
    const int kind = in.byte() % 8;
    if (kind < 2) *side = in.integer(0, 40);
    if (kind == 2) *side = in.integer(0, 300);
    if (kind == 3) *side = (int64_t{1} << 33) >> in.integer(0, 20);
  }
  if (in.byte() % 4 == 0) o.softcap = in.real(0.25, 20);
  switch (in.byte() % 8) {
    case 0: o.scale = in.real(-1, 1); break;
    case 1: o.scale = 0; break;
    case 2: o.scale = in.real(0, 3); break;
    default: break;
  }
}

// One list of positions: stretches, and single tokens anywhere.
std::vector<int64_t> read_positions(Bytes& in, int n) {
  std::vector<int64_t> list;
  constexpr int64_t kLast = (int64_t{1} << 31) - 1;
  int64_t next = 0, step = 1;
  int left = 0;
  for (int t = 0; t < n; ++t) {
    if (left == 0) {
      const int kind = in.byte();
      left = 1 + in.integer(0, 90);
      step = kind % 8 == 0 ? 0 : kind % 8 == 1 ? -1 : kind % 8 == 2 ? in.integer(0, 1000) : 1;
      if (kind / 8 % 4 == 0) next = in.integer(0, 300);
      if (kind / 8 % 4 == 1) next = kLast >> in.integer(0, 20);
    }
    next = std::clamp<int64_t>(next, 0, kLast);
    list.push_back(next);
    next += step;
    --left;
  }
  return list;
}

IndexMap read_map(Bytes& in, const attention::Span& span, int* rows) {
  IndexMap map;
  const int kind = in.byte();
  const int most = kind / 8 % 4 == 0 ? 300 : 20;
  const int n = in.integer(1, most);
  map.first = kind % 4 == 0 ? span.first_distance : -in.integer(0, n);
  if (kind % 4 == 1) map.first = in.integer(-400, 400);
  *rows = 1 + in.integer(0, most - 1);
  const int pattern = in.byte() % 5;
  for (int e = 0; e < n; ++e) {
    int row = e;
    if (pattern == 1) row = n - 1 - e;
    if (pattern == 2) row = e / 3;
    if (pattern == 3) row = in.done() ? e * 7 : in.byte() - 1;
    if (pattern == 4) row = e % 2 ? -1 : e;
    map.rows.push_back(row < 0 ? kNoRow : row % *rows);
  }
  const int sides = in.byte();
  map.before = sides % 2 ? kNoRow : sides / 4 % *rows;
  map.after = sides / 2 % 2 ? kNoRow : sides / 8 % *rows;
  if (in.byte() % 4 == 0) map.before = map.rows.front(), map.after = map.rows.back();
  return map;
}

Table<double> random_table(oracle::Rng& rng, int64_t heads, int rows, int width, double scale) {
  Table<double> table(heads, rows, width);
  for (double& x : table.data) x = scale * rng.normal();
  return table;
}

void read_terms(Bytes& in, oracle::Rng& rng, Call<double>& call) {
  const oracle::Shape& s = call.shape;
  const attention::Span span = attention::span_of(call.inputs(), call.options);
  const double farthest = std::max({1.0, std::fabs(double(span.first_distance)), std::fabs(double(span.last_distance))});
  const unsigned bits = unsigned(in.byte()) & (in.flag() ? kAllTerms : unsigned(in.byte()));
  call.term_bits = bits & kAllTerms;
  const auto heads = [&] { return in.flag() ? s.h : 1; };
  int rows = 1;
  if (bits & kNumber) {
    NumberPerDistance<double> t;
    t.scaled = in.flag();
    t.index = read_map(in, span, &rows);
    t.table = random_table(rng, heads(), rows, 1, 1);
    for (auto* side : {&t.left, &t.right}) {
      if (in.flag()) *side = oracle::random_numbers(rng, int(t.table.heads), std::min(0.2, 30 / farthest));
    }
    call.terms.number = t;
  }
  const auto row_term = [&](int width) {
    RowPerDistance<double> t;
    t.scaled = in.flag();
    t.index = read_map(in, span, &rows);
    t.rows = random_table(rng, heads(), rows, width, 0.5);
    return t;
  };
  if (bits & kQueryRows) call.terms.query_rows = row_term(s.d);
  if (bits & kKeyRows) call.terms.key_rows = row_term(s.d);
  if (bits & kValueRows) {
    const auto t = row_term(s.dv);
    call.terms.value_rows = ValuePerDistance<double>{t.index, t.rows};
  }
  if (bits & kContentBias) call.terms.content_bias = random_table(rng, heads(), 1, s.d, 0.7);
  if ((bits & kRotation) && farthest < 1e6) {  // beyond, floats of angles in double are all that is compared
    Rotation r;
    r.layout = in.flag() ? Rotation::Layout::kInterleaved : Rotation::Layout::kHalfSplit;
    r.width = in.integer(0, s.d / 2) * 2;
    for (int64_t t = 0; t < r.width / 2; ++t) r.frequency.push_back(std::pow(100.0, -2.0 * double(t) / double(r.width)));
    if (in.flag()) r.magnitude = in.real(0.5, 1.5);
    if (in.flag()) {
      r.center = span.length / 2;
      for (int64_t t = 0; t < r.width / 2; ++t) r.log_growth.push_back(rng.uniform(-1, 1) / double(span.length + 1));
    }
    call.terms.rotation = r;
  }
  if (in.byte() % 4 == 0) call.terms.scale_factor = in.real(0.25, 1);
}

void read_key_numbers(Bytes& in, oracle::Rng& rng, Call<double>& call) {
  const oracle::Shape& s = call.shape;
  if (in.byte() % 3 || s.b == 0) return;
  call.key_batches = in.flag() ? s.b : 1;
  call.key_heads = in.flag() ? s.h : 1;
  const double share = in.real(0, 1);
  for (int64_t n = 0; n < call.key_batches * call.key_heads * s.k; ++n) {
    call.key_numbers.push_back(rng.chance(share) ? -kInfinity : 2 * rng.normal());
  }
  if (call.key_heads != 1) return;
  for (int b = 0; b < s.b; ++b) {  // a padded key may hold anything
    for (int j = 0; j < s.k; ++j) {
      if (call.key_numbers[size_t((call.key_batches == 1 ? 0 : b) * s.k + j)] != -kInfinity) continue;
      for (int h = 0; h < s.hk; ++h) {
        call.rows(call.k.data(), s.hk, s.k, s.d)(b, h, j, rng.integer(0, s.d - 1)) = kInfinity;
        call.rows(call.v.data(), s.hk, s.k, s.dv)(b, h, j, rng.integer(0, s.dv - 1)) = std::nan("");
      }
    }
  }
}

// Several sequences in one row of tokens, some of them empty.
void read_packing(Bytes& in, Call<double>& call) {
  if (in.byte() % 5 || call.shape.b != 1) return;
  const int count = in.integer(1, 6);
  for (const auto& [starts, total] : {std::pair(&call.q_starts, call.shape.q), {&call.k_starts, call.shape.k}}) {
    for (int n = 0; n < count; ++n) starts->push_back(n ? in.integer(0, total) : 0);
    starts->push_back(total);
    std::sort(starts->begin(), starts->end());
  }
}

void read_dropout(Bytes& in, oracle::Rng& rng, Call<double>& call) {
  if (in.byte() % 4) return;
  attention::Dropout& drop = call.options.dropout;
  drop.rate = in.real(0, 0.9);
  drop.seed = in.seed() << in.integer(0, 48);
  drop.first_batch = in.integer(0, 3), drop.first_head = in.integer(0, 3);
  if (in.flag()) {
    for (int i = 0; i < call.shape.q; ++i) call.q_tokens.push_back(rng.integer(0, 2000000000));
  }
  if (in.flag()) {
    for (int j = 0; j < call.shape.k; ++j) call.k_tokens.push_back(rng.integer(0, 2000000000));
  }
}

// Rows as a caller may have them: in either order, further apart than they are long. What is between
// the rows must stay as it was.
constexpr float kBetween = 12345.5f;
struct Spread {
  std::vector<float> memory;
  View<float, 4> view;
};
Spread spread(Bytes& in, int b, int heads, int n, int width) {
  Spread s;
  const int64_t row = width + (in.byte() % 3 == 0 ? in.integer(0, 20) : 0);
  const bool tokens_first = in.flag();
  const int64_t gap = in.byte() % 4 == 0 ? in.integer(0, 40) : 0;
  s.memory.assign(size_t(row * heads * n + gap) * size_t(b) + size_t(gap), kBetween);
  const int64_t batch = row * heads * n + gap;
  s.view = {s.memory.data() + gap, {b, heads, n, width},
            tokens_first ? std::array<int64_t, 4>{batch, row, heads * row, 1}
                         : std::array<int64_t, 4>{batch, n * row, row, 1}};
  return s;
}
template <class F>
void each_index(const View<float, 4>& view, F f) {
  for (int64_t b = 0; b < view.shape[0]; ++b) {
    for (int64_t h = 0; h < view.shape[1]; ++h) {
      for (int64_t i = 0; i < view.shape[2]; ++i) {
        for (int64_t c = 0; c < view.shape[3]; ++c) f(b, h, i, c);
      }
    }
  }
}
void fill(Spread& to, const View<const double, 4>& from) {
  each_index(to.view, [&](auto... at) { to.view(at...) = static_cast<float>(from(at...)); });
}
// Its numbers in the order of the call; what lies between must be untouched.
std::vector<double> collect(Spread& from, const Call<double>& call, std::string& wrong, const char* name) {
  const auto& shape = from.view.shape;
  std::vector<double> to(size_t(from.view.size()), 0.0);
  const auto rows = call.rows(to.data(), shape[1], shape[2], shape[3]);
  each_index(from.view, [&](auto... at) {
    rows(at...) = from.view(at...);
    from.view(at...) = kBetween;
  });
  for (float x : from.memory) {
    if (x != kBetween) wrong = std::string(name) + ": written outside its rows";
  }
  return to;
}

std::string text_of(const Call<double>& call) {
  std::ostringstream out;
  const attention::Options& o = call.options;
  out << "B" << call.shape.b << " H" << call.shape.h << "/" << call.shape.hk << " Q" << call.shape.q << " K"
      << call.shape.k << " D" << call.shape.d << " Dv" << call.shape.dv << (o.causal ? " causal" : "")
      << " window " << o.window.left << "," << o.window.right << " softcap " << o.softcap << " scale "
      << (o.scale ? std::to_string(*o.scale) : "default") << " key numbers [" << call.key_batches << ","
      << call.key_heads << "] " << terms_text(call.term_bits);
  const auto list = [&](const char* name, const std::vector<int64_t>& numbers) {
    if (numbers.empty()) return;
    out << "\n  " << name;
    for (size_t n = 0; n < std::min<size_t>(numbers.size(), 80); ++n) out << " " << numbers[n];
  };
  if (o.dropout.rate > 0) out << " dropout " << o.dropout.rate;
  list("q starts", call.q_starts);
  list("k starts", call.k_starts);
  list("q positions", call.q_positions);
  list("k positions", call.k_positions);
  return out.str();
}

}  // namespace

std::string examine_attention(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  Call<double> call;
  call.shape = read_shape(in);
  const oracle::Shape& s = call.shape;
  oracle::Rng rng(in.seed() + 1);
  read_options(in, call);
  call.q = oracle::random_numbers(rng, s.b * s.h * s.q * s.d);
  call.k = oracle::random_numbers(rng, s.b * s.hk * s.k * s.d);
  call.v = oracle::random_numbers(rng, s.b * s.hk * s.k * s.dv);
  call.out_gradient = oracle::random_numbers(rng, s.b * s.h * s.q * s.dv);
  if (in.byte() % 3 == 0 && s.q > 0 && s.k > 0) {
    for (int b = 0; b < s.b; ++b) {
      const auto keys = read_positions(in, s.k);
      const auto queries = s.q == s.k && in.flag() ? keys : read_positions(in, s.q);
      call.k_positions.insert(call.k_positions.end(), keys.begin(), keys.end());
      call.q_positions.insert(call.q_positions.end(), queries.begin(), queries.end());
    }
  }
  read_packing(in, call);
  read_dropout(in, rng, call);
  read_terms(in, rng, call);
  read_key_numbers(in, rng, call);
  call = cast_call<double>(cast_call<float>(call));
  const Results<double> want = run_twin(call);
  const Results<Sized> sized = run_twin(cast_call<Sized>(call));
  const Call<float> single = cast_call<float>(call);

  // What is asked for, and how it lies in memory.
  const int asked = in.byte();
  const int threads = 1 + in.byte() % 3;
  Spread q = spread(in, s.b, s.h, s.q, s.d), k = spread(in, s.b, s.hk, s.k, s.d), v = spread(in, s.b, s.hk, s.k, s.dv),
         out = spread(in, s.b, s.h, s.q, s.dv), dout = spread(in, s.b, s.h, s.q, s.dv),
         dq = spread(in, s.b, s.h, s.q, s.d), dk = spread(in, s.b, s.hk, s.k, s.d), dv = spread(in, s.b, s.hk, s.k, s.dv);
  fill(q, call.q_view()), fill(k, call.k_view()), fill(v, call.v_view()), fill(dout, call.out_gradient_view());

  const simd::Set before = simd::chosen();
  std::string wrong;
  for (simd::Set set : simd::available()) {
    simd::choose(set);
    std::string here;
    try {
      Results<float> got(single);
      attention::Inputs<float> inputs = single.inputs();
      inputs.q = q.view, inputs.k = k.view, inputs.v = v.view;
      attention::Outputs<float> outputs{out.view, got.outputs(single).lse};
      attention::Gradients<float> gradients = got.gradients(single);
      gradients.q = dq.view, gradients.k = dk.view, gradients.v = dv.view;
      if (asked & 1) gradients.q = {};
      if (asked & 2) gradients.k = {};
      if (asked & 4) gradients.v = {};
      if (asked & 8) gradients.terms = nullptr;
      if (asked & 16) gradients.number_per_key = {};
      attention::Workspace workspace;
      std::unique_ptr<Executor> executor;
      if (threads == 1) {
        executor = std::make_unique<SerialExecutor>();
      } else {
        executor = std::make_unique<ThreadPool>(threads);
      }
      attention::forward(inputs, single.terms, single.run_options(), outputs, workspace, *executor);
      attention::backward(inputs, single.terms, single.run_options(), read_only(outputs), View<const float, 4>(dout.view),
                          gradients, workspace, *executor);
      Results<double> wide(call);
      wide.out = collect(out, call, here, "out");
      wide.dq = asked & 1 ? want.dq : collect(dq, call, here, "dq");
      wide.dk = asked & 2 ? want.dk : collect(dk, call, here, "dk");
      wide.dv = asked & 4 ? want.dv : collect(dv, call, here, "dv");
      wide.lse.assign(got.lse.begin(), got.lse.end());
      wide.dkey = want.dkey;
      if (!(asked & 16)) wide.dkey.assign(got.dkey.begin(), got.dkey.end());
      wide.dterms = asked & 8 ? want.dterms : cast<double>(got.dterms);
      const double share = oracle::kSafety * double(1 + sum_length(s)) * oracle::kEpsFloat;
      each_result(
          [&](const char* name, const auto& got, const auto& want, const auto& sized) {
            std::vector<double> allowed;
            for (const Sized& x : sized) allowed.push_back(share * x.size);
            const oracle::Worst worst = oracle::worst_element(got, want, allowed);
            if (worst.wrong == 0 || !here.empty()) return;
            std::ostringstream text;
            text.precision(9);
            text << name << ": " << worst.wrong << " of " << want.size() << " differ, worst at " << worst.at << ": got "
                 << got[worst.at] << ", want " << want[worst.at] << ", " << worst.ratio << " times what is allowed";
            here = text.str();
          },
          wide, want, sized);
    } catch (const std::exception& error) {
      here = std::string("threw ") + error.what();
    }
    if (!here.empty() && wrong.empty()) {
      wrong = text_of(call) + "\n  on " + std::string(simd::name(set)) + ", " + std::to_string(threads) +
              " threads, asked " + std::to_string(asked) + ": " + here;
    }
  }
  simd::choose(before);
  return wrong;
}

}  // namespace locant::test
