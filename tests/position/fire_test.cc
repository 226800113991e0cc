// FIRE: the five questions in order.
#include "locant/position/fire.h"

#include "tests/golden/fire.h"
#include "tests/golden/toy.h"
#include "tests/oracle/fire.h"
#include "tests/oracle/random.h"
#include "tests/position/materialise.h"
#include "tests/position/scheme_probe.h"

namespace locant {
namespace {

using probe::message_of;
using probe::Store;

Store store_of(const Scheme& scheme, const Sizes& sizes, uint64_t seed = 1) {
  Random random(seed);
  return Store(scheme, sizes, [&](const ParameterSpec& spec) {
    return spec.low + (spec.high - spec.low) * random.uniform();
  });
}

// A network that passes its input through, so that the input can be read off.
Store with_input_only(const Scheme& scheme, const Sizes& sizes, double c) {
  return Store(scheme, sizes, [&](const ParameterSpec& spec) {
    if (spec.name == "c") return c;
    return spec.name == "mlp.0.bias" || spec.name == "mlp.2.bias" ? 0.0 : 1.0;
  });
}

double at(const Terms<double>& terms, int64_t head, int64_t i, int64_t j) {
  return dense::hook_numbers(*terms.hook, 0, head, {i}, {j})(0, 0);
}

// 1. 2. Nothing for embeddings, queries and keys.
TEST(Fire, TurnsNothing) {
  const auto scheme = make_scheme("fire");
  const Call call = probe::square_call(4, true);
  EXPECT_FALSE(scheme->embeds());
  EXPECT_FALSE(lower(*scheme, call, store_of(*scheme, call.sizes).views()).rotation);
}

// 3. What do I add to a score, and before or after the scale?
TEST(Fire, PublishedInputs) {
  const Call call = probe::square_call(101, true);
  const auto four = make_scheme("fire(length=4,hidden=1)"), many = make_scheme("fire(hidden=1)");
  const Terms<double> one = lower(*four, call, with_input_only(*four, call.sizes, 1).views());
  for (const golden::FireCase& c : golden::kFireInputL4) {
    EXPECT_NEAR(at(one, 0, int64_t(c.i), int64_t(c.j)), c.value, golden::kSixDigits) << c.i << " " << c.j;
  }
  const Terms<double> tenth = lower(*many, call, with_input_only(*many, call.sizes, .1).views());
  for (const golden::FireCase& c : golden::kFireInputL512) {
    EXPECT_NEAR(at(tenth, 0, int64_t(c.i), int64_t(c.j)), c.value, golden::kSixDigits) << c.i << " " << c.j;
  }
}

TEST(Fire, PublishedNetwork) {
  const Call call = probe::square_call(9, true);
  const auto scheme = make_scheme("fire(length=4,hidden=2)");
  Store store = with_input_only(*scheme, call.sizes, 1);
  const auto set = [&](const char* name, const double (&numbers)[2]) {
    store.arrays[name] = {numbers[0], numbers[1]};
  };
  set("mlp.0.weight", golden::kFireHiddenWeight), set("mlp.0.bias", golden::kFireHiddenBias);
  set("mlp.2.weight", golden::kFireOutWeight);
  store.arrays["mlp.2.bias"] = {golden::kFireOutBias};
  const Terms<double> terms = lower(*scheme, call, store.views());
  for (const golden::FireCase& c : golden::kFireBias) {
    EXPECT_NEAR(at(terms, 0, int64_t(c.i), int64_t(c.j)), c.value, golden::kSixDigits) << c.i << " " << c.j;
  }
}

// The fast walk over pieces, in float and in double, for tiles near and far, in order or not.
TEST(Fire, EveryTileIsTheFormula) {
  Random random(3);
  for (const bool causal : {true, false}) {
    for (const int64_t start : {0, 300, 100000}) {
      Call call = probe::square_call(400, causal, 2);
      const auto scheme = make_scheme("fire(length=50)");
      const Store store = store_of(*scheme, call.sizes, uint64_t(start) + 7);
      const Terms<double> terms = lower(*scheme, call, store.views());
      oracle::Fire fire;
      fire.c = store.arrays.at("c")[0], fire.length = 50;
      fire.hidden_weight = store.arrays.at("mlp.0.weight");
      fire.hidden_bias = store.arrays.at("mlp.0.bias");
      for (int n = 0; n < 40; ++n) {
        std::vector<int32_t> q, k;
        const bool shuffled = n % 4 == 0;
        const int64_t q0 = start + int64_t(random.below(340)), k0 = start + int64_t(random.below(340));
        for (int64_t t = 0; t < 1 + int64_t(random.below(64)); ++t) q.push_back(int32_t(q0 + t));
        for (int64_t t = 0; t < 1 + int64_t(random.below(64)); ++t) {
          k.push_back(int32_t(shuffled ? start + int64_t(random.below(400)) : k0 + t));
        }
        ScoreTile tile;
        tile.head = n % 2;
        tile.queries = int64_t(q.size()), tile.keys = int64_t(k.size()), tile.row = tile.keys + 3;
        tile.q_positions = q.data(), tile.k_positions = k.data();
        std::vector<double> twice(size_t(tile.queries * tile.row), .25);
        std::vector<float> single(twice.size(), .25f);
        terms.hook->add(tile, twice.data());
        terms.hook->add(tile, single.data());
        const auto& w = store.arrays.at("mlp.2.weight");
        fire.out_weight.assign(w.begin() + tile.head * 32, w.begin() + tile.head * 32 + 32);
        fire.out_bias = store.arrays.at("mlp.2.bias")[size_t(tile.head)];
        for (int64_t i = 0; i < tile.queries; ++i) {
          for (int64_t j = 0; j < tile.row; ++j) {
            const size_t e = size_t(i * tile.row + j);
            const double want =
                .25 + (j < tile.keys ? oracle::fire_bias(fire, q[size_t(i)], k[size_t(j)]) : 0);
            // 32 products of size below 1 over inputs below 2, each rounded.
            ASSERT_NEAR(twice[e], want, 64 * oracle::kEpsDouble * 4) << q[size_t(i)] << " " << j;
            ASSERT_NEAR(single[e], want, 64 * oracle::kEpsFloat * 4);
          }
        }
      }
    }
  }
}

TEST(Fire, FarOutNothingNeedsATable) {
  Call call = probe::square_call(4, true);
  call.first_distance = -(int64_t{1} << 30);
  const auto scheme = make_scheme("fire(length=4,hidden=1)");
  const Terms<double> terms = lower(*scheme, call, with_input_only(*scheme, call.sizes, 1).views());
  EXPECT_NEAR(at(terms, 0, 1000000000, 0), 1, 1e-7);
  EXPECT_NEAR(at(terms, 0, 1000000000, 999999999), std::log(2) / std::log(1e9 + 1), 1e-7);
}

// 4. Nothing for values.
TEST(Fire, AddsNothingElse) {
  const auto scheme = make_scheme("fire");
  const Call call = probe::square_call(4, true);
  const auto terms = lower(*scheme, call, store_of(*scheme, call.sizes).views());
  EXPECT_FALSE(terms.number || terms.query_rows || terms.key_rows || terms.value_rows ||
               terms.content_bias);
  EXPECT_EQ(terms.scale_factor, 1);
}

// 5. A network, and two numbers.
TEST(Fire, LearnsItsNetwork) {
  Sizes sizes;
  sizes.heads = 6;
  sizes.layers = 3;
  EXPECT_EQ(parameter_count(*make_scheme("fire(layers=shared)"), sizes), 2 + 32 + 32 + 6 * 32 + 6);
  EXPECT_EQ(parameter_count(*make_scheme("fire(hidden=8)"), sizes), 3 * (2 + 8 + 8 + 6 * 8 + 6));
  const auto specs = Fire().learn(sizes);
  EXPECT_EQ(specs[0].name, "c");
  EXPECT_EQ(specs[0].low, .1);
  EXPECT_EQ(specs[0].high, .1);
  EXPECT_EQ(specs[1].name, "L_multiplier");
  EXPECT_EQ(specs[2].shape, (std::vector<int64_t>{32, 1}));
  EXPECT_EQ(specs[4].shape, (std::vector<int64_t>{6, 32}));
}

TEST(Fire, FitsTheTrainingLength) {
  Fire scheme;
  scheme.fit({2048, 0});
  EXPECT_EQ(scheme.length, 512) << "as in the paper";
}

TEST(Fire, RefusesWhatItCannotServe) {
  EXPECT_SAYS(message_of([] { make_scheme("fire(hidden=0)"); }), "hidden");
  Call call = probe::square_call(4, true, 2);
  call.first_head = 1, call.heads = 2;
  const auto scheme = make_scheme("fire");
  EXPECT_SAYS(message_of([&] { lower(*scheme, call, store_of(*scheme, call.sizes).views()); }), "[fire]");
}

// The gradient of sum(weight * bias) against differences; kinks of the network are kept away from.
TEST(Fire, Gradients) {
  int tested = 0;
  for (uint64_t seed = 1; seed <= 400 && tested < 6; ++seed) {
    Random random(seed);
    const bool sharded = seed % 2;
    Call call = probe::square_call(90, seed % 3 != 0, 3);
    if (sharded) call.first_head = 1, call.heads = 2;
    const auto scheme = make_scheme(seed % 5 ? "fire(length=6,hidden=3)" : "fire(length=300,hidden=3)");
    Store store = store_of(*scheme, call.sizes, seed);
    store.arrays["c"][0] = (seed % 7 ? 1 : -1) * (.2 + random.uniform());
    store.arrays["L_multiplier"][0] = (seed % 11 ? 1 : -1) * (.7 + .2 * random.uniform());
    const dense::Positions queries{3, 4, 5, 40, 80, 7}, keys{0, 1, 2, 3, 4, 60, 20, 5, 70};
    oracle::Fire fire;
    fire.c = store.arrays["c"][0], fire.length = (seed % 5 ? 6 : 300) * store.arrays["L_multiplier"][0];
    double nearest = 1;
    for (int64_t i : queries) {
      if (std::fabs(double(i) - std::fabs(fire.length)) < .1) nearest = 0;
      for (int64_t j : keys) {
        for (size_t k = 0; k < 3; ++k) {
          const double x = store.arrays["mlp.0.weight"][k] * oracle::fire_input(fire, i, j) +
                           store.arrays["mlp.0.bias"][k];
          nearest = std::min(nearest, std::fabs(x));
        }
      }
    }
    if (nearest < .01) continue;
    ++tested;
    std::vector<double> weights(queries.size() * keys.size() * 3);
    for (double& w : weights) w = 2 * random.uniform() - 1;
    const auto sum = [&] {
      const Terms<double> terms = lower(*scheme, call, store.views());
      double total = 0;
      size_t n = 0;
      for (int64_t h = 0; h < call.heads_here(); ++h) {
        const auto numbers = dense::hook_numbers(*terms.hook, 0, h, queries, keys);
        for (double x : numbers.values) total += weights[n++] * x;
      }
      return total;
    };
    const Terms<double> terms = lower(*scheme, call, store.views());
    Terms<double> gradient = zeros_like(terms);
    const int64_t size = terms.hook->gradient_size();
    const std::vector<int32_t> q(queries.begin(), queries.end()), k(keys.begin(), keys.end());
    for (int64_t h = 0; h < call.heads_here(); ++h) {
      ScoreTile tile;
      tile.head = h;
      tile.queries = int64_t(q.size()), tile.keys = tile.row = int64_t(k.size());
      tile.q_positions = q.data(), tile.k_positions = k.data();
      terms.hook->add_backward(tile, weights.data() + size_t(h) * q.size() * k.size(),
                               gradient.hook_gradient.data() + h * size);
    }
    Store gradients(*scheme, call.sizes, [](const ParameterSpec&) { return .25; });
    auto views = gradients.gradient_views();
    lower_backward(*scheme, call, store.views(), gradient, views);
    for (auto& [name, array] : store.arrays) {
      double largest = 0;
      for (size_t n = 0; n < array.size(); ++n) {
        const double want = oracle::derivative(sum, array[n]);
        EXPECT_NEAR(gradients.arrays[name][n] - .25, want, 1e-8 * (1 + std::fabs(want)))
            << name << "[" << n << "] seed " << seed;
        largest = std::max(largest, std::fabs(want));
      }
      EXPECT_GT(largest, 1e-3) << name << ": nothing was tested";
    }
  }
  EXPECT_EQ(tested, 6);
}

// A key's gradient goes to the piece of the network in which its exact input lies, in float as in double, in tiles of
// neighbours and in others: 1000 breaks, and some of 500000 inputs that rounding would carry over one.
TEST(Fire, PiecesDoNotDependOnRounding) {
  Call call = probe::square_call(1024, true);
  const auto scheme = make_scheme("fire(hidden=1024)");
  const Terms<double> terms = lower(*scheme, call, store_of(*scheme, call.sizes).views());
  const auto size = size_t(terms.hook->gradient_size());
  for (const bool backwards : {false, true}) {
    std::vector<double> of_float(size), of_double(size);
    for (int32_t q0 = 0; q0 < 1024; q0 += 64) {
      for (int32_t k0 = 0; k0 <= q0; k0 += 64) {
        std::vector<int32_t> q, k;
        for (int32_t t = 0; t < 64; ++t) q.push_back(q0 + t), k.push_back(k0 + (backwards ? 63 - t : t));
        ScoreTile tile;
        tile.queries = tile.keys = tile.row = 64;
        tile.q_positions = q.data(), tile.k_positions = k.data();
        terms.hook->add_backward(tile, std::vector<float>(64 * 64, 1).data(), of_float.data());
        terms.hook->add_backward(tile, std::vector<double>(64 * 64, 1).data(), of_double.data());
      }
    }
    double pairs = 0;  // in each piece, counted exactly
    for (size_t s = 1; s + 2 < size; s += 2) {
      EXPECT_EQ(of_float[s], of_double[s]) << "piece " << s / 2;
      pairs += of_double[s];
    }
    EXPECT_EQ(pairs, 64 * 64 * 16 * 17 / 2);
  }
}

}  // namespace
}  // namespace locant
