// The public calls: shapes, layouts, positions, empty and extreme things. On every engine.
#include "locant/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Attention);

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Everything of one head, head by head, whatever the memory order: [B][heads][L][width].
std::vector<double> in_order(const Call<double>& call, const std::vector<double>& data, int heads,
                             int n, int width) {
  std::vector<double> to;
  const View<const double, 4> view = call.rows(data.data(), heads, n, width);
  for (int b = 0; b < call.shape.b; ++b) {
    for (int h = 0; h < heads; ++h) {
      for (int t = 0; t < n; ++t) {
        for (int c = 0; c < width; ++c) to.push_back(view(b, h, t, c));
      }
    }
  }
  return to;
}

TEST_P(Attention, ToyWithoutPositions) {
  Call<double> call = toy();
  oracle::expect_printed("out", run(call).out, flat(golden::kToyFullOut), GetParam().printed());
  call.options.causal = true;
  oracle::expect_printed("causal", run(call).out, flat(golden::kToyCausalOut),
                         GetParam().printed());
}

TEST_P(Attention, EmptyBatchesQueriesAndKeys) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    for (int empty = 0; empty < 3; ++empty) {
      const Call<double> full = plain(2, 2, 1, 5, 6, 4, 3, terms);
      Call<double> call =
          plain(empty == 0 ? 0 : 2, 2, 1, empty == 1 ? 0 : 5, empty == 2 ? 0 : 6, 4, 3, kNone);
      call.terms = full.terms;
      call.options.causal = true;
      // Garbage in the gradients must be overwritten with zeros even when there is nothing to do.
      const auto run_dirty = [&]<class T>(T) {
        const Call<T> typed = cast_call<T>(call);
        Results<T> got(typed);
        each_table(
            [](const char*, auto& numbers) { std::fill(numbers.begin(), numbers.end(), T(7)); },
            got.dterms);
        for (auto* numbers : {&got.out, &got.lse, &got.dq, &got.dk, &got.dv})
          std::fill(numbers->begin(), numbers->end(), T(7));
        attention::Workspace workspace;
        ThreadPool pool(2);
        attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed),
                           workspace, pool);
        attention::backward(typed.inputs(), typed.terms, typed.options,
                            read_only(got.outputs(typed)), typed.out_gradient_view(),
                            got.gradients(typed), workspace, pool);
        return widened(call, got);
      };
      const Using set(GetParam().set);
      const Results<double> got = GetParam().single ? run_dirty(float()) : run_dirty(double());
      each_result(
          [&](const std::string& name, const std::vector<double>& numbers) {
            for (double x : numbers)
              ASSERT_EQ(x, name == "lse" ? -kInfinity : 0) << name << " of case " << empty;
          },
          got);
    }
  }
}

TEST_P(Attention, GroupedHeadsAreTheirKeyHeadRepeated) {
  for (int hk : {1, 2, 3}) {
    const Call<double> grouped = plain(2, 6, hk, 9, 11, 8, 5, kAllTerms);
    Call<double> repeated = grouped;
    repeated.shape.hk = 6;
    const auto repeat = [&](const std::vector<double>& from, int size) {
      std::vector<double> to;
      for (int b = 0; b < 2; ++b) {
        for (int h = 0; h < 6; ++h) append(to, from, (b * hk + h * hk / 6) * size, size);
      }
      return to;
    };
    repeated.k = repeat(grouped.k, 11 * 8);
    repeated.v = repeat(grouped.v, 11 * 5);
    const Results<double> got = run(grouped), want = run(repeated);
    EXPECT_EQ(got.out, want.out) << hk;
    EXPECT_EQ(got.lse, want.lse);
    expect_like_twin(grouped, got, GetParam().eps());  // the sums of the gradients over a group too
  }
}

TEST_P(Attention, BothMemoryOrdersGiveTheSame) {
  for (unsigned terms : kSingleTerms) {
    const Call<double> heads_first = plain(2, 4, 2, 13, 17, 6, 5, terms);
    Call<double> tokens_first = heads_first;
    tokens_first.tokens_first = true;
    const auto reorder = [&](const std::vector<double>& from, int heads, int n, int width) {
      std::vector<double> to(from.size());
      const auto a = heads_first.rows(from.data(), heads, n, width);
      const auto b = tokens_first.rows(to.data(), heads, n, width);
      for (int i = 0; i < 2; ++i) {
        for (int h = 0; h < heads; ++h) {
          for (int t = 0; t < n; ++t) {
            for (int c = 0; c < width; ++c) b(i, h, t, c) = a(i, h, t, c);
          }
        }
      }
      return to;
    };
    tokens_first.q = reorder(heads_first.q, 4, 13, 6);
    tokens_first.k = reorder(heads_first.k, 2, 17, 6);
    tokens_first.v = reorder(heads_first.v, 2, 17, 5);
    tokens_first.out_gradient = reorder(heads_first.out_gradient, 4, 13, 5);
    const Results<double> want = run(heads_first), got = run(tokens_first);
    EXPECT_EQ(in_order(tokens_first, got.out, 4, 13, 5), want.out) << terms_text(terms);
    EXPECT_EQ(in_order(tokens_first, got.dq, 4, 13, 6), want.dq);
    EXPECT_EQ(in_order(tokens_first, got.dk, 2, 17, 6), want.dk);
    EXPECT_EQ(in_order(tokens_first, got.dv, 2, 17, 5), want.dv);
    each_table([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
               got.dterms, want.dterms);
  }
}

// q, k, v as slices of one array [B, L, 3, H, D], and their gradients into another.
TEST_P(Attention, PackedProjectionsAndTheirGradients) {
  const Call<double> apart = plain(2, 3, 3, 21, 21, 8, 8, kNumber);
  const auto run_packed = [&]<class T>(T) {
    const Call<T> typed = cast_call<T>(apart);
    std::vector<T> packed(size_t(2 * 21 * 3 * 3 * 8)), gradient(packed.size(), T(5));
    const auto slice = [](auto* data, int which) {
      return View<std::remove_pointer_t<decltype(data)>, 4>(data + which * 24, {2, 3, 21, 8},
                                                            {21 * 72, 8, 72, 1});
    };
    const View<const T, 4> from[] = {typed.q_view(), typed.k_view(), typed.v_view()};
    for (int which = 0; which < 3; ++which) {
      const auto to = slice(packed.data(), which);
      for (int b = 0; b < 2; ++b) {
        for (int h = 0; h < 3; ++h) {
          for (int t = 0; t < 21; ++t) {
            for (int c = 0; c < 8; ++c) to(b, h, t, c) = from[which](b, h, t, c);
          }
        }
      }
    }
    attention::Inputs<T> inputs;
    inputs.q = slice(packed.data(), 0), inputs.k = slice(packed.data(), 1),
    inputs.v = slice(packed.data(), 2);
    Results<T> got(typed);
    attention::Gradients<T> gradients;
    gradients.q = slice(gradient.data(), 0), gradients.k = slice(gradient.data(), 1),
    gradients.v = slice(gradient.data(), 2);
    gradients.terms = &got.dterms;
    attention::Workspace workspace;
    ThreadPool pool(2);
    attention::forward(inputs, typed.terms, typed.options, got.outputs(typed), workspace, pool);
    attention::backward(inputs, typed.terms, typed.options, read_only(got.outputs(typed)),
                        typed.out_gradient_view(), gradients, workspace, pool);
    attention::Gradients<T> into = got.gradients(typed);
    const View<T, 4> to[] = {into.q, into.k, into.v};
    for (int which = 0; which < 3; ++which) {
      const auto source = slice(gradient.data(), which);
      for (int b = 0; b < 2; ++b) {
        for (int h = 0; h < 3; ++h) {
          for (int t = 0; t < 21; ++t) {
            for (int c = 0; c < 8; ++c) to[which](b, h, t, c) = source(b, h, t, c);
          }
        }
      }
    }
    return widened(apart, got);
  };
  const Using set(GetParam().set);
  const Results<double> got = GetParam().single ? run_packed(float()) : run_packed(double());
  const Results<double> want = run(apart);
  each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, got,
              want);
}

// A view may broadcast an input (stride 0): one key and value sequence for the whole batch.
TEST_P(Attention, InputsMayBroadcast) {
  Call<double> call = plain(3, 2, 2, 6, 7, 4, 4, kNone);
  for (auto* rows : {&call.k, &call.v}) {
    for (int b = 1; b < 3; ++b)
      std::copy_n(rows->begin(), 2 * 7 * 4, rows->begin() + b * 2 * 7 * 4);
  }
  const auto run_broadcast = [&]<class T>(T) {
    const Call<T> typed = cast_call<T>(call);
    attention::Inputs<T> inputs = typed.inputs();
    inputs.k.stride[0] = inputs.v.stride[0] = 0;
    Results<T> got(typed);
    attention::Workspace workspace;
    SerialExecutor serial;
    attention::forward(inputs, typed.terms, typed.options, got.outputs(typed), workspace, serial);
    return widened(call, got);
  };
  const Using set(GetParam().set);
  EXPECT_EQ((GetParam().single ? run_broadcast(float()) : run_broadcast(double())).out,
            run(call).out);
}

TEST_P(Attention, LseIsOptionalInForward) {
  const Call<double> call = plain(1, 2, 2, 5, 6, 4, 4, kNumber);
  const auto run_without = [&]<class T>(T) {
    const Call<T> typed = cast_call<T>(call);
    Results<T> got(typed);
    attention::Outputs<T> outputs = got.outputs(typed);
    outputs.lse = {};
    attention::Workspace workspace;
    SerialExecutor serial;
    attention::forward(typed.inputs(), typed.terms, typed.options, outputs, workspace, serial);
    return widened(call, got);
  };
  const Using set(GetParam().set);
  EXPECT_EQ((GetParam().single ? run_without(float()) : run_without(double())).out, run(call).out);
}

TEST_P(Attention, DefaultPositionsAreTheStatedOnes) {
  for (const auto& [q, k] : {std::pair(6, 6), {3, 8}, {8, 3}, {1, 5}}) {
    for (unsigned terms : kSingleTerms) {
      Call<double> call = plain(2, 2, 2, q, k, 4, 4, terms);
      call.options.causal = true;
      const Results<double> want = run(call);
      Call<double> stated = call;
      for (int b = 0; b < 2; ++b) {
        for (int i = 0; i < q; ++i) stated.q_positions.push_back(std::max(0, k - q) + i);
        for (int j = 0; j < k; ++j) stated.k_positions.push_back(j);
      }
      const Results<double> got = run(stated);
      each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                  got, want);
    }
  }
}

TEST_P(Attention, ScoresDependOnDistancesOnly) {
  for (unsigned terms : kSingleTerms) {
    Call<double> call = plain(1, 2, 2, 9, 9, 6, 6, terms);
    call.options.causal = true;
    call.options.window = {5, 0};
    if (call.terms.rotation) call.terms.rotation->log_growth.clear();
    const Results<double> want = run(call);
    for (int t = 0; t < 9; ++t) call.q_positions.push_back(1000 + t);
    call.k_positions = call.q_positions;
    expect_same_rows(call, want, call, run(call), 0);
  }
}

TEST_P(Attention, OnePositionListServesTheBatch) {
  Call<double> call = plain(2, 2, 1, 5, 7, 4, 4, kAllTerms);
  call.q_positions = {3, 9, 0, 4, 4, 3, 9, 0, 4, 4};
  call.k_positions = {1, 2, 3, 9, 8, 0, 4, 1, 2, 3, 9, 8, 0, 4};
  const Results<double> want = run(call);
  const auto run_shared = [&]<class T>(T) {
    const Call<T> typed = cast_call<T>(call);
    attention::Inputs<T> inputs = typed.inputs();
    inputs.q_positions.shape[0] = inputs.k_positions.shape[0] = 1;
    Results<T> got(typed);
    attention::Workspace workspace;
    ThreadPool pool(2);
    attention::forward(inputs, typed.terms, typed.options, got.outputs(typed), workspace, pool);
    attention::backward(inputs, typed.terms, typed.options, read_only(got.outputs(typed)),
                        typed.out_gradient_view(), got.gradients(typed), workspace, pool);
    return widened(call, got);
  };
  const Using set(GetParam().set);
  const Results<double> got = GetParam().single ? run_shared(float()) : run_shared(double());
  each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; }, got,
              want);
}

TEST_P(Attention, HeadSlicesAreTheHeads) {
  // D05 on the attention side: a shard of heads with its slice of the tables is those heads.
  Call<double> call = plain(1, 4, 4, 7, 7, 4, 4, kNone);
  call.terms.number = number(false, {-6, {0, 1, 2, 3, 4, 5, 6}, kNoRow, kNoRow}, {});
  call.terms.number->table = Table<double>(4, 7, 1);
  oracle::Rng rng(3);
  call.terms.number->table.data = oracle::random_numbers(rng, 28);
  call = rounded(call);
  const Results<double> whole = run(call);
  Call<double> shard = call;
  shard.shape.h = shard.shape.hk = 2;
  for (auto* rows : {&shard.q, &shard.k, &shard.v, &shard.out_gradient})
    rows->erase(rows->begin(), rows->begin() + 2 * 7 * 4);
  shard.terms.number->table = Table<double>(2, 7, 1);
  shard.terms.number->table.data.assign(call.terms.number->table.data.begin() + 14,
                                        call.terms.number->table.data.end());
  const Results<double> got = run(shard);
  EXPECT_TRUE(std::equal(got.out.begin(), got.out.end(), whole.out.begin() + 2 * 7 * 4));
  EXPECT_TRUE(std::equal(got.dterms.number->table.data.begin(), got.dterms.number->table.data.end(),
                         whole.dterms.number->table.data.begin() + 14));
}

// --- extreme values -----------------------------------------------------------------------------

TEST_P(Attention, LargeEqualAndTinyScores) {
  for (double size : {1e4, 30.0, 0.0, 1e-40}) {
    Call<double> call = plain(1, 1, 1, 70, 140, 8, 8, kNone);
    for (double& x : call.q) x *= std::sqrt(size);
    for (double& x : call.k) x *= std::sqrt(size);
    call = rounded(call);
    SCOPED_TRACE(size);
    expect_like_twin(call, run(call), GetParam().eps());
  }
}

TEST_P(Attention, ScoresThatRiseWithEveryKey) {
  std::vector<double> scores;
  for (int j = 0; j < 300; ++j) scores.push_back(4.0 * j);
  Call<double> call = scores_are(3, scores);
  const Results<double> got = run(call);
  // 1 + e^-4 + e^-8 + ... = 1 / (1 - e^-4).
  EXPECT_NEAR(got.lse[0], 4.0 * 299 - std::log1p(-std::exp(-4.0)),
              4.0 * 299 * 4 * GetParam().eps());
  EXPECT_NEAR(got.out[299], 1 - std::exp(-4.0), 4.0 * 299 * 4 * GetParam().eps());
}

}  // namespace
}  // namespace locant::test
