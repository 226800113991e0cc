#include "locant/position/fire.h"

#include <algorithm>
#include <cmath>

#include "locant/position/span.h"

namespace locant {
namespace {

constexpr const char* kC = "c";
constexpr const char* kLength = "L_multiplier";
constexpr const char* kHiddenWeight = "mlp.0.weight";
constexpr const char* kHiddenBias = "mlp.0.bias";
constexpr const char* kOutWeight = "mlp.2.weight";
constexpr const char* kOutBias = "mlp.2.bias";
constexpr double kEpsilon = 1e-6;
// Longer tables of psi are not made: further pairs take logarithms of their own.
constexpr int64_t kLongestTable = int64_t{1} << 22;

// The network as what it is: linear in pieces. Piece s lies between sorted breaks s - 1 and s.
struct Pieces {
  std::vector<double> breaks;             // [pieces - 1], ascending
  std::vector<double> slope, intercept;  // [heads][pieces]
  std::vector<int64_t> rank;              // [hidden] number of a unit's break; -1: it has none
  int64_t count() const { return static_cast<int64_t>(breaks.size()) + 1; }
};

struct Network {
  int64_t hidden, heads;
  const double *w1, *b1, *w2, *b2;  // [hidden] twice, [heads here][hidden], [heads here]

  Network(const Fire& fire, const Call& call, const Parameters& parameters)
      : hidden(fire.hidden),
        heads(call.heads_here()),
        w1(parameters[kHiddenWeight]),
        b1(parameters[kHiddenBias]),
        w2(parameters[kOutWeight] + call.first_head * fire.hidden),
        b2(parameters[kOutBias] + call.first_head) {}

  // Whether unit k is above zero in piece s, which lies above the first s breaks.
  bool active(const Pieces& pieces, int64_t s, int64_t k) const {
    const int64_t rank = pieces.rank[static_cast<size_t>(k)];
    if (rank < 0) return b1[k] > 0;
    return (rank < s) == (w1[k] > 0);
  }

  Pieces pieces() const {
    Pieces p;
    std::vector<int64_t> order;
    for (int64_t k = 0; k < hidden; ++k) {
      if (w1[k] != 0) order.push_back(k);
    }
    const auto break_of = [&](int64_t k) { return -b1[k] / w1[k]; };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return break_of(a) != break_of(b) ? break_of(a) < break_of(b) : a < b;
    });
    p.rank.assign(static_cast<size_t>(hidden), -1);
    for (int64_t k : order) {
      p.rank[static_cast<size_t>(k)] = static_cast<int64_t>(p.breaks.size());
      p.breaks.push_back(break_of(k));
    }
    p.slope.assign(static_cast<size_t>(heads * p.count()), 0.0);
    p.intercept = p.slope;
    for (int64_t s = 0; s < p.count(); ++s) {
      for (int64_t k = 0; k < hidden; ++k) {
        if (!active(p, s, k)) continue;
        for (int64_t h = 0; h < heads; ++h) {
          p.slope[static_cast<size_t>(h * p.count() + s)] += w2[h * hidden + k] * w1[k];
          p.intercept[static_cast<size_t>(h * p.count() + s)] += w2[h * hidden + k] * b1[k];
        }
      }
      for (int64_t h = 0; h < heads; ++h) p.intercept[static_cast<size_t>(h * p.count() + s)] += b2[h];
    }
    return p;
  }
};

// psi by distance, and its derivative by c: tables where the call's distances are, else computed.
template <class T>
class Psi {
 public:
  void fill(double c, int64_t first, int64_t last) {
    c_ = c;
    first_ = first;
    for (int64_t d = first; d <= last; ++d) {
      value_.push_back(static_cast<T>(std::log1p(std::fabs(c * static_cast<double>(d)))));
      by_c_.push_back(static_cast<T>(derivative(static_cast<double>(d))));
    }
  }
  bool holds(int64_t first, int64_t last) const {
    return first >= first_ && last < first_ + static_cast<int64_t>(value_.size());
  }
  const T* value(int64_t d) const { return value_.data() + (d - first_); }
  const T* by_c(int64_t d) const { return by_c_.data() + (d - first_); }
  double derivative(double n) const {
    n = std::fabs(n);
    return c_ < 0 ? -n / (n * -c_ + 1) : n / (n * c_ + 1);
  }

 private:
  double c_ = 0;
  int64_t first_ = 0;
  std::vector<T> value_, by_c_;
};

// Sums of numbers times two others, and of the numbers alone; eight lanes, in a fixed order.
template <class T>
void add_sums(const T* x, const T* a, const T* b, int64_t n, double (&sums)[3]) {
  constexpr int kLanes = 8;
  T lane[3][kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      lane[0][l] += x[j + l] * a[j + l];
      lane[1][l] += x[j + l] * b[j + l];
      lane[2][l] += x[j + l];
    }
  }
  for (int l = 0; j < n; ++j, ++l) {
    lane[0][l] += x[j] * a[j];
    lane[1][l] += x[j] * b[j];
    lane[2][l] += x[j];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int s = 0; s < 3; ++s) {
      for (int l = 0; l < half; ++l) lane[s][l] += lane[s][l + half];
    }
  }
  for (int s = 0; s < 3; ++s) sums[s] += static_cast<double>(lane[s][0]);
}

// Its sums, for a head: by piece those of gradient times input and of the gradient, then the
// gradients by c and by L.
class FireHook final : public TileHook {
 public:
  FireHook(const Network& network, double c, double threshold, const Call& call)
      : heads_(network.heads), pieces_(network.pieces()), c_(c), threshold_(threshold) {
    const int64_t margin = ScoreTile::kMost;  // of masked pairs in tiles that are not
    const int64_t first = call.first_distance - margin, last = call.last_distance + margin;
    if (last - first > kLongestTable) return;
    single_.fill(c, first, last);
    twice_.fill(c, first, last);
  }

  void add(const ScoreTile& tile, double* scores) const override { add(twice_, tile, scores); }
  void add(const ScoreTile& tile, float* scores) const override { add(single_, tile, scores); }
  int64_t heads() const override { return heads_; }
  int64_t gradient_size() const override { return 2 * pieces_.count() + 2; }
  void add_backward(const ScoreTile& tile, const double* gradient, double* sums) const override {
    add_backward(twice_, tile, gradient, sums);
  }
  void add_backward(const ScoreTile& tile, const float* gradient, double* sums) const override {
    add_backward(single_, tile, gradient, sums);
  }
  const Pieces& pieces() const { return pieces_; }

 private:
  // What divides psi for a query, and its derivatives.
  struct Norm {
    double inverse, by_c, by_threshold;  // of the norm itself
  };
  Norm norm_of(int64_t position) const {
    const double i = static_cast<double>(position), m = std::max(i, threshold_);
    const double grown = std::fabs(c_ * m) + 1;
    const bool known = i > threshold_ && twice_.holds(-position, -position);
    const double psi = known ? *twice_.value(-position) : std::log(grown);
    return {1 / (psi + kEpsilon), (c_ < 0 ? -m : m) / grown,
            threshold_ > i ? std::fabs(c_) / grown : 0};
  }

  // The piece of an input, from one that is probably near.
  int64_t piece_of(double input, int64_t piece) const {
    const double* breaks = pieces_.breaks.data();
    while (piece + 1 < pieces_.count() && breaks[piece] < input) ++piece;
    while (piece > 0 && !(breaks[piece - 1] < input)) --piece;
    return piece;
  }

  // Keys [from, to) of a query, on one side of it, so that psi only falls or only grows: calls
  // run(first, n, piece) for stretches of one piece. `piece` is one near that of key `from`, and then
  // is it. psi in double, whatever scores are in: rounding must not send a key's gradient to another piece.
  template <class F>
  void walk_side(const double* psi, double inverse, int64_t from, int64_t to, bool grows, int64_t& piece,
                 F run) const {
    if (from == to) return;
    const auto input = [&](int64_t j) { return psi[j] * inverse; };
    int64_t now = piece = piece_of(input(from), piece);
    for (int64_t j = from; j < to;) {
      const bool open = grows ? now + 1 == pieces_.count() : now == 0;
      const double edge = open ? 0 : pieces_.breaks[static_cast<size_t>(grows ? now : now - 1)];
      const auto inside = [&](int64_t k) { return grows ? input(k) <= edge : edge < input(k); };
      int64_t after = to;
      if (!open && !inside(to - 1)) {  // the first key of another piece, by halving
        int64_t last = j;
        while (after - last > 1) {
          const int64_t middle = (after + last) / 2;
          (inside(middle) ? last : after) = middle;
        }
      }
      run(j, after - j, now);
      j = after;
      if (j < to) now = piece_of(input(j), now);
    }
  }

  // Calls run(query, its norm, first key, n, piece, psi, psi by c) for stretches of keys in one piece.
  template <class T, class F>
  void walk(const Psi<T>& psi, const ScoreTile& tile, F run) const {
    const int32_t* k = tile.k_positions;
    bool consecutive = true;
    for (int64_t j = 1; j < tile.keys; ++j) consecutive &= k[j] == k[0] + j;
    int64_t left = 0, right = 0;
    for (int64_t i = 0; i < tile.queries; ++i) {
      const int64_t position = tile.q_positions[i];
      const Norm norm = norm_of(position);
      const int64_t first = k[0] - position, last = first + tile.keys - 1;
      if (consecutive && psi.holds(first, last)) {
        const T* value = psi.value(first);
        const T* by_c = psi.by_c(first);
        const auto stretch = [&](int64_t j, int64_t n, int64_t piece) {
          run(i, norm, j, n, piece, value + j, by_c + j);
        };
        const int64_t zero = std::clamp<int64_t>(-first, 0, tile.keys);
        const double* exact = twice_.value(first);
        walk_side(exact, norm.inverse, 0, zero, false, left, stretch);
        walk_side(exact, norm.inverse, zero, tile.keys, true, right, stretch);
        continue;
      }
      for (int64_t j = 0; j < tile.keys; ++j) {
        const auto d = static_cast<double>(k[j] - position);
        const double exact = std::log1p(std::fabs(c_ * d));
        const T value = static_cast<T>(exact);
        const T by_c = static_cast<T>(psi.derivative(d));
        left = piece_of(exact * norm.inverse, left);
        run(i, norm, j, 1, left, &value, &by_c);
      }
    }
  }

  template <class T>
  void add(const Psi<T>& psi, const ScoreTile& tile, T* scores) const {
    const size_t head = static_cast<size_t>(tile.head * pieces_.count());
    walk(psi, tile, [&](int64_t i, const Norm& norm, int64_t first, int64_t n, int64_t piece,
                        const T* value, const T*) {
      T* row = scores + i * tile.row + first;
      const auto slope =
          static_cast<T>(pieces_.slope[head + static_cast<size_t>(piece)] * norm.inverse);
      const auto intercept = static_cast<T>(pieces_.intercept[head + static_cast<size_t>(piece)]);
      for (int64_t j = 0; j < n; ++j) row[j] += slope * value[j] + intercept;
    });
  }

  template <class T>
  void add_backward(const Psi<T>& psi, const ScoreTile& tile, const T* gradient, double* sums) const {
    const size_t head = static_cast<size_t>(tile.head * pieces_.count());
    double* by_c = sums + 2 * pieces_.count();
    double* by_threshold = by_c + 1;
    walk(psi, tile, [&](int64_t i, const Norm& norm, int64_t first, int64_t n, int64_t piece,
                        const T* value, const T* value_by_c) {
      double sum[3] = {0, 0, 0};
      add_sums(gradient + i * tile.row + first, value, value_by_c, n, sum);
      const double input = sum[0] * norm.inverse;  // gradient times input
      sums[2 * piece] += input;
      sums[2 * piece + 1] += sum[2];
      const double slope = pieces_.slope[head + static_cast<size_t>(piece)];
      *by_c += slope * (sum[1] - input * norm.by_c) * norm.inverse;
      *by_threshold -= slope * input * norm.by_threshold * norm.inverse;
    });
  }

  int64_t heads_;
  Pieces pieces_;
  double c_, threshold_;
  Psi<float> single_;
  Psi<double> twice_;
};

}  // namespace

Description Fire::describe() const {
  return {.title = "FIRE, functional interpolation",
          .paper = "Li et al. 2023, arXiv 2310.04418",
          .acts = "scores, after the scale",
          .where = "every layer",
          .learns = "a small network of the distance, relative to the query's position",
          .cost = "a piecewise linear function of each pair, by a hook on tiles",
          .beyond = "defined; distances are relative to the length seen so far",
          .users = "research models"};
}

void Fire::options(OptionVisitor& visit) {
  visit.real("length", length, 1, 1e9, "L before training: nearer positions are divided as if they stood there");
  visit.integer("hidden", hidden, 1, 1024, "units of the network");
  visit.word("layers", layers, kSharingWords, "who shares the network");
}

void Fire::check(const Call& call) const { check_heads(name(), call); }

// The paper trains at 2048 with L = 512.
void Fire::fit(const Fitting& to) {
  if (to.free("length")) length = std::max<double>(1, static_cast<double>(to.train_length) / 4);
}

// 1. nothing  2. nothing

// 3.
void Fire::score(const Call& call, const Parameters& parameters, Terms<double>& terms) const {
  terms.hook = std::make_shared<FireHook>(Network(*this, call, parameters), *parameters[kC],
                                          std::fabs(*parameters[kLength] * length), call);
}

void Fire::score_backward(const Call& call, const Parameters& parameters,
                          const Terms<double>& gradient, ParameterGradients& gradients) const {
  const Network network(*this, call, parameters);
  const Pieces pieces = network.pieces();
  const int64_t size = 2 * pieces.count() + 2;
  double* const w1 = gradients[kHiddenWeight];
  double* const b1 = gradients[kHiddenBias];
  double* const w2 = gradients[kOutWeight] + call.first_head * hidden;
  double* const b2 = gradients[kOutBias] + call.first_head;
  for (int64_t h = 0; h < network.heads; ++h) {
    const double* sums = gradient.hook_gradient.data() + h * size;
    for (int64_t s = 0; s < pieces.count(); ++s) {
      const double by_slope = sums[2 * s], by_intercept = sums[2 * s + 1];
      b2[h] += by_intercept;
      for (int64_t k = 0; k < hidden; ++k) {
        if (!network.active(pieces, s, k)) continue;
        w2[h * hidden + k] += network.w1[k] * by_slope + network.b1[k] * by_intercept;
        w1[k] += network.w2[h * hidden + k] * by_slope;
        b1[k] += network.w2[h * hidden + k] * by_intercept;
      }
    }
    *gradients[kC] += sums[size - 2];
    *gradients[kLength] += (*parameters[kLength] < 0 ? -length : length) * sums[size - 1];
  }
}

// 4. nothing

// 5. Trained as any weight, from where the released code begins; no end.
std::vector<ParameterSpec> Fire::learn(const Sizes& sizes) const {
  const auto array = [&](const char* name, std::vector<int64_t> shape, double low, double high) {
    return ParameterSpec{.name = name,
                         .shape = std::move(shape),
                         .init = ParameterSpec::Init::kUniform,
                         .low = low,
                         .high = high,
                         .per_layer = layers == Sharing::kEach,
                         .table = false};
  };
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  return {array(kC, {1}, .1, .1),
          array(kLength, {1}, 1, 1),
          array(kHiddenWeight, {hidden, 1}, -1, 1),
          array(kHiddenBias, {hidden}, -1, 1),
          array(kOutWeight, {sizes.heads, hidden}, -bound, bound),
          array(kOutBias, {sizes.heads}, -bound, bound)};
}

}  // namespace locant
