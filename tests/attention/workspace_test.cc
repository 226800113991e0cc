// Scratch memory: slots, reuse, growth; and the distances that a call's terms must cover.
#include <gtest/gtest.h>

#include "locant/attention/attention.h"
#include "tests/attention/engines.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Scratch);

TEST_P(Scratch, AWorkspaceIsReused) {
  std::vector<Call<double>> calls;
  for (uint64_t seed = 1; seed <= 12; ++seed)
    calls.push_back(rounded(random_call(seed, kAllTerms)));
  const auto run_all = [&]<class T>(T) {
    attention::Workspace workspace;
    ThreadPool pool(2);
    size_t bytes = 0;
    for (int repeat = 0; repeat < 2; ++repeat) {
      for (const Call<double>& call : calls) {
        const Call<T> typed = cast_call<T>(call);
        Results<T> got(typed);
        attention::forward(typed.inputs(), typed.terms, typed.options, got.outputs(typed),
                           workspace, pool);
        attention::backward(typed.inputs(), typed.terms, typed.options,
                            read_only(got.outputs(typed)), typed.out_gradient_view(),
                            got.gradients(typed), workspace, pool);
        const Results<double> wide = widened(call, got), fresh = run(call);
        each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                    wide, fresh);
      }
      if (repeat == 1) {
        EXPECT_EQ(workspace.bytes(), bytes) << "the second round needs nothing new";
      }
      bytes = workspace.bytes();
    }
  };
  const Using set(GetParam().set);
  if (GetParam().single) {
    run_all(float());
  } else {
    run_all(double());
  }
}

// Twice the length, twice the scratch memory, forward and backward with every term: nothing is n x
// n.
TEST_P(Scratch, ScratchMemoryGrowsWithTheLength) {
  if (!GetParam().single) return;  // the twin has one row of scores and no workspace
  const auto bytes = [&](int n) {
    const Call<float> call = cast_call<float>(plain(1, 1, 1, n, n, 8, 8, kAllTerms));
    Results<float> got(call);
    attention::Workspace workspace;
    ThreadPool pool(2);
    const Using set(GetParam().set);
    attention::forward(call.inputs(), call.terms, call.options, got.outputs(call), workspace, pool);
    attention::backward(call.inputs(), call.terms, call.options, read_only(got.outputs(call)),
                        call.out_gradient_view(), got.gradients(call), workspace, pool);
    return static_cast<double>(workspace.bytes());
  };
  const double small = bytes(600), twice = bytes(1200);
  EXPECT_LE(twice, 2 * small);
}

TEST(WorkspaceTest, SlotsAreAlignedGrowAndKeep) {
  attention::Workspace workspace;
  EXPECT_EQ(workspace.bytes(), 0u);
  auto* a = static_cast<char*>(workspace.reserve(3, 100));
  auto* b = static_cast<char*>(workspace.reserve(0, 1));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  a[99] = 42;
  EXPECT_EQ(workspace.reserve(3, 50), a);
  EXPECT_EQ(a[99], 42);
  const size_t bytes = workspace.bytes();
  EXPECT_GE(bytes, 101u);
  workspace.reserve(3, 100000);
  EXPECT_GE(workspace.bytes(), 100001u);
  EXPECT_NE(workspace.reserve(5, 0), nullptr);
  attention::Workspace moved = std::move(workspace);
  EXPECT_GE(moved.bytes(), 100001u);
}

TEST(SpanTest, CoversWhatTheMaskLeaves) {
  const auto span = [](const Call<double>& call) {
    return attention::span_of(call.inputs(), call.options);
  };
  const auto expect_span = [](const attention::Span& got, int64_t first, int64_t last,
                              int64_t length) {
    EXPECT_EQ(got.first_distance, first);
    EXPECT_EQ(got.last_distance, last);
    EXPECT_EQ(got.length, length);
  };
  Call<double> call = plain(2, 1, 1, 3, 8, 4, 4, kNone);  // queries at 5, 6, 7
  expect_span(span(call), -7, 2, 8);
  call.options.causal = true;
  expect_span(span(call), -7, 0, 8);
  call.options.window = {4, 1};
  expect_span(span(call), -4, 0, 8);
  call.options.causal = false;
  expect_span(span(call), -4, 1, 8);
  call.options.window = {};
  expect_span(span(plain(1, 1, 1, 8, 3, 4, 4, kNone)), -7, 2, 8);
  call.q_positions = {9, 2, 4, 100, 101, 102};  // two sequences, each with its own
  call.k_positions = {0, 1, 2, 3, 4, 5, 6, 7, 200, 101, 102, 103, 104, 105, 106, 107};
  expect_span(span(call), -9, 100, 201);
  call.options.causal = true;
  expect_span(span(call), -9, 0, 201);
  call.k_positions.assign(16, 300);  // causal: nobody sees anything; any distance will do
  const attention::Span nothing = span(call);
  EXPECT_LE(nothing.first_distance, nothing.last_distance);
  EXPECT_EQ(nothing.length, 301);
  expect_span(span(plain(1, 1, 1, 0, 5, 4, 4, kNone)), 0, 0, 5);
  expect_span(span(plain(0, 1, 1, 3, 5, 4, 4, kNone)), 0, 0, 0);
}

}  // namespace
}  // namespace locant::test
