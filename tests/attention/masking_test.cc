// Who sees whom: causal masks by position, windows, padding, packing, rows that see nothing.
// On every engine; ids are those of tests/bugs.md.
#include "tests/golden/masking.h"

#include <gtest/gtest.h>

#include "tests/attention/engines.h"
#include "tests/attention/toy.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Mask);

// Which keys each query sees: scores are all 0, values unit vectors.
Call<double> who_sees(int queries, int keys) {
  Call<double> call = scores_are(queries, std::vector<double>(size_t(keys), 0));
  return call;
}
template <size_t Q, size_t K>
void expect_sees(const Results<double>& got, const int (&want)[Q][K]) {
  for (size_t i = 0; i < Q; ++i) {
    int seen = 0;
    for (size_t j = 0; j < K; ++j) seen += want[i][j];
    for (size_t j = 0; j < K; ++j) {
      EXPECT_NEAR(got.out[i * K + j], want[i][j] ? 1.0 / seen : 0, want[i][j] ? 1e-6 : 0)
          << i << ", " << j;
    }
  }
}

TEST_P(Mask, D56_CausalIsByPositionWhenLengthsDiffer) {
  Call<double> call = who_sees(2, 5);
  call.options.causal = true;
  expect_sees(run(call), golden::kCausal2x5);
  // More queries than keys: both start at 0.
  Call<double> tall = who_sees(3, 2);
  tall.options.causal = true;
  expect_sees(run(tall), {{1, 0}, {1, 1}, {1, 1}});
}

TEST_P(Mask, D56_CausalByPositionNotByPlace) {
  Call<double> call = who_sees(2, 5);
  call.options.causal = true;
  call.q_positions = {0, 9};
  call.k_positions = {7, 0, 11, 9, 3};
  expect_sees(run(call), {{0, 1, 0, 0, 0}, {1, 1, 0, 1, 1}});
}

TEST_P(Mask, D57_PrefillInChunksIsOnePass) {
  for (unsigned terms : kSingleTerms) {
    Call<double> call = rounded(random_call(5, terms));
    call.shape.b = 1, call.shape.q = call.shape.k = 9;
    call = rounded(random_like(call));
    call.options.causal = true;
    SCOPED_TRACE(terms_text(terms));
    const Results<double> whole = run(call);
    for (int begin = 0; begin < 9; begin += 3) {
      const Call<double> chunk = part(call, begin, 3, begin + 3);
      expect_same_rows(call, whole, chunk, run(chunk), begin);
    }
  }
}

TEST_P(Mask, D58_AWindowOfWKeysHasWKeys) {
  Call<double> call = who_sees(5, 5);
  call.options.causal = true;
  call.options.window = {3 - 1, 0};
  expect_sees(run(call), golden::kWindow3);
  call.options.causal = false;  // right 0 says the same
  expect_sees(run(call), golden::kWindow3);
}

TEST_P(Mask, D58_WindowsOnBothSidesAndOneSide) {
  Call<double> call = who_sees(4, 4);
  call.options.window = {0, 0};
  expect_sees(run(call), {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}});
  call.options.window = {1, 2};
  expect_sees(run(call), {{1, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 1}});
  call.options.window = {-1, 1};
  expect_sees(run(call), {{1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  call.options.window = {1, -1};
  expect_sees(run(call), {{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 1}});
}

TEST_P(Mask, D58_WindowsCountPositionsNotPlaces) {
  Call<double> call = who_sees(2, 4);
  call.options.window = {10, 0};
  call.q_positions = {100, 25};
  call.k_positions = {100, 90, 89, 25};
  expect_sees(run(call), {{1, 1, 0, 0}, {0, 0, 0, 1}});
}

TEST_P(Mask, D59_EveryEngineKeepsTheWindow) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Call<double> call = rounded(random_call(seed, kAllTerms));
    call.options.window = {1, 0};
    SCOPED_TRACE(call.text());
    expect_like_twin(call, run(call), GetParam().eps());
  }
}

TEST_P(Mask, D43_EveryQuerySeesExactlyItsWindowOfMemory) {
  // Four keys of memory and four of the segment; each query sees itself and the four before it.
  Call<double> call = who_sees(4, 8);
  call.options.causal = true;
  call.options.window = {4, 0};
  expect_sees(run(call), {{1, 1, 1, 1, 1, 0, 0, 0},
                          {0, 1, 1, 1, 1, 1, 0, 0},
                          {0, 0, 1, 1, 1, 1, 1, 0},
                          {0, 0, 0, 1, 1, 1, 1, 1}});
}

TEST_P(Mask, D42_DistancesAreTrueOnBothSides) {
  // Three queries, five keys: the released shift leaves garbage where j > i. Here there is none.
  Call<double> call = scores_are(3, std::vector<double>(5, 0));
  IndexMap index;
  index.first = -4;
  std::vector<double> table;
  for (int d = -4; d <= 2; ++d) {
    index.rows.push_back(d + 4);
    table.push_back(0.25 * d * d + d);
  }
  for (bool causal : {false, true}) {
    call.options.causal = causal;
    call.terms.number = number(true, index, table);
    const Results<double> got = run(call);
    for (int i = 0; i < 3; ++i) {
      double sum = 0;
      for (int j = 0; j < 5; ++j) {
        const int d = j - (i + 2);
        if (!causal || d <= 0) sum += std::exp(table[size_t(d + 4)]);
      }
      EXPECT_NEAR(got.lse[size_t(i)], std::log(sum), 32 * GetParam().eps()) << i;
    }
  }
}

TEST_P(Mask, D47_RowsForMaskedDistancesAreNeverUsed) {
  Call<double> call = rounded(random_call(3, kNone));
  call.shape = {};
  call.shape.q = call.shape.k = 40, call.shape.h = call.shape.hk = 2,
  call.shape.d = call.shape.dv = 8;
  call = rounded(random_like(call));
  call.options = {};
  call.options.causal = true;
  IndexMap index;
  index.first = -39;
  for (int d = -39; d <= 39; ++d) index.rows.push_back(d + 39);
  const auto filled = [&](double poison) {
    oracle::Rng rng(9);
    Call<double> filled = call;
    Terms<double>& t = filled.terms;
    t.number = number(false, index, oracle::random_numbers(rng, 79));
    t.query_rows.emplace();
    t.query_rows->index = index;
    t.query_rows->rows = Table<double>(1, 79, 8);
    t.query_rows->rows.data = oracle::random_numbers(rng, 79 * 8);
    t.value_rows = ValuePerDistance<double>{index, t.query_rows->rows};
    for (int row = 40; row < 79; ++row) {  // right of the diagonal
      *t.number->table.row(0, row) = poison;
      for (int c = 0; c < 8; ++c)
        t.query_rows->rows.row(0, row)[c] = t.value_rows->rows.row(0, row)[c] = poison;
    }
    return rounded(filled);
  };
  const Results<double> clean = run(filled(0)), poisoned = run(filled(1e4));
  EXPECT_EQ(clean.out, poisoned.out);
  EXPECT_EQ(clean.lse, poisoned.lse);
  EXPECT_EQ(clean.dq, poisoned.dq);
  EXPECT_EQ(clean.dk, poisoned.dk);
  each_table([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
             clean.dterms, poisoned.dterms);
}

TEST_P(Mask, D52_AFullyMaskedRowGivesZerosAndZeroGradients) {
  Call<double> call = toy();
  call.out_gradient = {1, 2, 3, 4, 5, 6};
  call.options.causal = true;
  call.q_positions = {2, 0, 3};
  call.k_positions = {1, 2, 3};
  const Results<double> got = run(call);
  EXPECT_EQ(got.out[2], 0);
  EXPECT_EQ(got.out[3], 0);
  EXPECT_EQ(got.lse[1], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(got.dq[2], 0);
  EXPECT_EQ(got.dq[3], 0);
  expect_like_twin(call, got, GetParam().eps());
}

TEST_P(Mask, D52_NoGradientIsNanWhenEverythingIsMasked) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call = rounded(random_call(21, terms));
    call.key_batches = call.key_heads = 1;
    call.key_numbers.assign(size_t(call.shape.k), -std::numeric_limits<double>::infinity());
    const Results<double> got = run(call);
    each_result(
        [](const std::string& name, const std::vector<double>& numbers) {
          const double want = name == "lse" ? -std::numeric_limits<double>::infinity() : 0;
          for (double x : numbers) ASSERT_EQ(x, want) << name;
        },
        got);
  }
}

TEST_P(Mask, D53_MaskedRowsAreZeroBesideRowsThatAreNot) {
  // Rows masked by each kind of mask, between rows that are not, over several tiles.
  for (int kind = 0; kind < 3; ++kind) {
    Call<double> call;
    call.shape.q = 70, call.shape.k = 130, call.shape.d = call.shape.dv = 16;
    call = rounded(random_like(call));
    for (int i = 0; i < 70; ++i)
      call.q_positions.push_back(i % 7 == 3 ? (kind == 0 ? 0 : 1000) : 100 + i);
    for (int j = 0; j < 130; ++j) call.k_positions.push_back(50 + j);
    if (kind == 0) call.options.causal = true;
    if (kind > 0) call.options.window = {40, 30};
    if (kind == 2) call.options.causal = true;
    const Results<double> got = run(call);
    for (int i = 3; i < 70; i += 7) {
      for (int c = 0; c < 16; ++c) {
        ASSERT_EQ(got.out[size_t(i * 16 + c)], 0) << i;
        ASSERT_EQ(got.dq[size_t(i * 16 + c)], 0) << i;
      }
      ASSERT_EQ(got.lse[size_t(i)], -std::numeric_limits<double>::infinity()) << i;
    }
    expect_like_twin(call, got, GetParam().eps());
  }
}

TEST_P(Mask, NanInPaddedKeysDoesNotSpread) {
  for (unsigned terms : {unsigned(kNone), unsigned(kAllTerms)}) {
    Call<double> call;
    call.shape.b = 2, call.shape.h = 4, call.shape.hk = 2, call.shape.q = 33, call.shape.k = 75;
    call.shape.d = call.shape.dv = 16;
    call.term_bits = terms;
    call = rounded(random_like(call));
    call.key_batches = 2, call.key_heads = 1;
    for (int b = 0; b < 2; ++b) {
      for (int j = 0; j < 75; ++j) {
        const bool padded = b == 0 ? j < 20 : j % 3 == 1;
        call.key_numbers.push_back(padded ? -std::numeric_limits<double>::infinity() : 0);
      }
    }
    const Results<double> clean = run(call);
    Call<double> dirty = call;
    const double poisons[] = {std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(), 1e30};
    for (int b = 0; b < 2; ++b) {
      for (int j = 0; j < 75; ++j) {
        if (call.key_numbers[size_t(b * 75 + j)] == 0) continue;
        for (int h = 0; h < 2; ++h) {
          for (int c = 0; c < 16; ++c) {
            dirty.rows(dirty.k.data(), 2, 75, 16)(b, h, j, c) = poisons[(j + c) % 3];
            dirty.rows(dirty.v.data(), 2, 75, 16)(b, h, j, c) = poisons[(j + c + 1) % 3];
          }
        }
      }
    }
    const Results<double> got = run(dirty);
    each_result([](const char* name, const auto& a, const auto& b) { EXPECT_EQ(a, b) << name; },
                clean, got);
  }
}

TEST_P(Mask, D09_LeftPaddingWithItsOwnPositionsIsTheUnpaddedSequence) {
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> alone;
    alone.shape.h = alone.shape.hk = 2, alone.shape.q = alone.shape.k = 6,
    alone.shape.d = alone.shape.dv = 4;
    alone.term_bits = terms;
    alone = rounded(random_like(alone));
    alone.options.causal = true;
    Call<double> padded = alone;
    const int pads = 3, L = 6 + pads;
    padded.shape.q = padded.shape.k = L;
    const auto pad = [&](const std::vector<double>& from) {
      std::vector<double> to;
      for (int h = 0; h < 2; ++h) {
        to.insert(to.end(), size_t(pads * 4), 7.0);
        to.insert(to.end(), from.begin() + h * 24, from.begin() + (h + 1) * 24);
      }
      return to;
    };
    padded.q = pad(alone.q), padded.k = pad(alone.k), padded.v = pad(alone.v);
    padded.out_gradient = pad(alone.out_gradient);
    padded.key_batches = padded.key_heads = 1;
    for (int t = 0; t < L; ++t) {
      padded.q_positions.push_back(std::max(0, t - pads));
      padded.key_numbers.push_back(t < pads ? -std::numeric_limits<double>::infinity() : 0);
    }
    padded.k_positions = padded.q_positions;
    const Results<double> want = run(alone), got = run(padded);
    for (int h = 0; h < 2; ++h) {
      for (int t = 0; t < 6; ++t) {
        for (int c = 0; c < 4; ++c) {
          const size_t a = size_t((h * 6 + t) * 4 + c), b = size_t((h * L + t + pads) * 4 + c);
          EXPECT_NEAR(got.out[b], want.out[a], 64 * GetParam().eps()) << h << t << c;
        }
      }
    }
  }
}

TEST_P(Mask, D60_PackedDocumentsAreTheDocumentsAlone) {
  // Two documents in one row, positions that start again. Keeping them apart takes a mask: here one
  // call for each document's queries, with the other document's keys masked by numbers per key.
  for (unsigned terms : kSingleTerms) {
    SCOPED_TRACE(terms_text(terms));
    Call<double> alone;
    alone.shape.q = alone.shape.k = 7, alone.shape.d = alone.shape.dv = 4;
    alone.term_bits = terms;
    alone = rounded(random_like(alone));
    alone.options.causal = true;
    const Results<double> want = run(alone);
    Call<double> packed = alone;  // the same document twice
    packed.shape.k = 14;
    packed.k.insert(packed.k.end(), alone.k.begin(), alone.k.end());
    packed.v.insert(packed.v.end(), alone.v.begin(), alone.v.end());
    for (int t = 0; t < 7; ++t) packed.q_positions.push_back(t);
    for (int t = 0; t < 14; ++t) packed.k_positions.push_back(t % 7);
    packed.key_batches = packed.key_heads = 1;
    const Results<double> leaking = [&] {
      Call<double> open = packed;
      open.key_numbers.assign(14, 0);
      return run(open);
    }();
    for (int document = 0; document < 2; ++document) {
      packed.key_numbers.clear();
      for (int t = 0; t < 14; ++t) {
        packed.key_numbers.push_back(t / 7 == document ? 0
                                                       : -std::numeric_limits<double>::infinity());
      }
      const Results<double> got = run(packed);
      for (size_t n = 0; n < want.out.size(); ++n) {
        EXPECT_NEAR(got.out[n], want.out[n], 64 * GetParam().eps()) << document << " " << n;
      }
      for (size_t n = 0; n < want.dk.size(); ++n) {
        EXPECT_EQ(got.dk[size_t(1 - document) * want.dk.size() + n], 0) << "the other document";
      }
    }
    // Resetting positions alone is not enough: the log-sum-exp sees both documents.
    EXPECT_NEAR(leaking.lse[3], want.lse[3] + std::log(2.0), 64 * GetParam().eps());
  }
}

}  // namespace
}  // namespace locant::test
