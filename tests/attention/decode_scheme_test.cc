// Schemes over a cache: a prompt appended in chunks and then token by token gives the rows of the whole
// pass, for every scheme there is; and the public bugs of caches. Ids are those of tests/bugs.md.
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "locant/position/registry.h"
#include "tests/attention/decode_cache.h"
#include "tests/attention/toy.h"
#include "tests/golden/alibi.h"

namespace locant::test {
namespace {

LOCANT_EACH_ENGINE(Decode);

// A scheme with numbers for what it learns, asked again and again.
class Asked {
 public:
  Asked(const std::string& specification, int heads, int head_size)
      : scheme(make_scheme(specification)), sizes_{1, heads, head_size, heads * head_size, head_size} {
    oracle::Rng rng(17);
    for (const ParameterSpec& spec : scheme->learn(sizes_)) {
      auto& numbers = arrays_[spec.name];
      for (int64_t n = 0; n < spec.size(); ++n) numbers.push_back(0.4 * rng.normal());
      parameters_.add(spec.name, numbers.data());
    }
  }
  // Its terms for causal attention in a sequence of so many tokens.
  Terms<double> terms(int64_t length) const {
    locant::Call call;
    call.sizes = sizes_;
    call.causal = true;
    call.first_distance = 1 - length;
    call.length = length;
    return lower(*scheme, call, parameters_);
  }
  // Adds question 1's answer to q and k of tokens that stand at 0, 1, ...
  void embed(Call<double>& call) const {
    if (!scheme->embeds()) return;
    const std::vector<int64_t> positions = oracle::consecutive(call.shape.k);
    std::vector<double> rows(size_t(call.shape.k * sizes_.width), 0);
    scheme->embed(positions.data(), call.shape.k, sizes_, parameters_, rows.data());
    const auto add = [&](std::vector<double>& to, int heads) {
      for (int b = 0; b < call.shape.b; ++b) {
        for (int h = 0; h < heads; ++h) {
          for (int t = 0; t < call.shape.k; ++t) {
            for (int c = 0; c < call.shape.d; ++c) {
              to[size_t(((b * heads + h) * call.shape.k + t) * call.shape.d + c)] +=
                  rows[size_t(t * sizes_.width + h * call.shape.d + c)];
            }
          }
        }
      }
    };
    add(call.q, call.shape.h);
    add(call.k, call.shape.hk);
  }

  std::unique_ptr<Scheme> scheme;

 private:
  Sizes sizes_;
  std::map<std::string, std::vector<double>> arrays_;
  Parameters parameters_;
};

Call<double> tokens_of(int B, int n) {
  Call<double> call;
  call.shape.b = B, call.shape.h = 4, call.shape.hk = 2, call.shape.q = call.shape.k = n;
  call.shape.d = call.shape.dv = 8;
  call = random_like(call, 23);
  call.options.causal = true;
  return call;
}

// The outputs [B, H, n, Dv] of appending and decoding chunk after chunk, with terms of each length.
template <class T>
std::vector<double> step_by_step(const Call<double>& call, const std::vector<int>& chunks, bool keys_turned,
                                 const CacheLayout& layout,
                                 const std::function<Terms<double>(int64_t length)>& terms_at) {
  const oracle::Shape& s = call.shape;
  const Call<T> typed = cast_call<T>(call);
  CacheMemory<T> memory(layout, s.b, s.hk, s.d, s.dv, s.k);
  memory.cache.keys_turned = keys_turned;
  std::vector<T> out(typed.out_gradient.size(), not_a_number<T>());
  const auto part = [](auto view, int64_t from, int64_t n) {
    view.data += from * view.stride[2];
    view.shape[2] = n;
    return view;
  };
  ThreadPool pool(2);
  attention::Workspace workspace;
  int64_t from = 0;
  for (int n : chunks) {
    const Terms<T> terms = cast<T>(terms_at(from + n));
    attention::NewTokens<T> tokens;
    tokens.k = part(typed.k_view(), from, n);
    tokens.v = part(typed.v_view(), from, n);
    attention::append(memory.cache, tokens, terms);
    attention::DecodeInputs<T> in;
    in.q = part(typed.q_view(), from, n);
    in.cache = memory.cache;
    attention::Outputs<T> outputs;
    outputs.out = part(typed.rows(out.data(), s.h, s.q, s.dv), from, n);
    attention::decode(in, terms, call.options, outputs, workspace, pool);
    from += n;
  }
  return {out.begin(), out.end()};
}
std::vector<double> step_by_step(const Engine& engine, const Call<double>& call, const std::vector<int>& chunks,
                                 bool keys_turned, const CacheLayout& layout,
                                 const std::function<Terms<double>(int64_t)>& terms_at) {
  if (!engine.single) return step_by_step<double>(call, chunks, keys_turned, layout, terms_at);
  const Using set(engine.set);
  return step_by_step<float>(call, chunks, keys_turned, layout, terms_at);
}

// Chunks of a prompt, then token by token.
std::vector<int> chunks_of(int n) {
  std::vector<int> chunks{13, 16, 2};
  for (int t = 31; t < n; ++t) chunks.push_back(1);
  return chunks;
}

void expect_rows(const Call<double>& call, const std::vector<double>& got, double eps) {
  std::vector<double> size;
  for (const Sized& x : run_twin(cast_call<Sized>(call), false).out) size.push_back(x.size);
  oracle::expect_close("out", got, run_twin(call, false).out, size, sum_length(call.shape), eps,
                       {call.shape.b, call.shape.h, call.shape.q, call.shape.dv});
}

TEST_P(Decode, D34_D45_D46_D51_D57_EverySchemeStepByStepIsTheWholePass) {
  std::vector<std::string> specifications = scheme_names();
  for (const char* more :
       {"rope(layout=interleaved,share=0.5)", "rope(scaling=yarn,factor=4,original=16)",
        "rope(scaling=linear,factor=2)", "rope(scaling=llama3,factor=8,original=16)", "xpos(center=0)",
        "shaw(k=3)", "t5(buckets=8,max_distance=20)", "deberta(buckets=8,max_positions=16)",
        "deberta(version=v1,max_positions=9)"}) {
    specifications.push_back(more);
  }
  const int n = 45;
  size_t turn = 0;
  for (const std::string& specification : specifications) {
    SCOPED_TRACE(specification);
    const Asked asked(specification, 4, 8);
    Call<double> call = tokens_of(2, n);
    asked.embed(call);
    call.terms = asked.terms(n);
    call = rounded(call);
    const CacheLayout& layout = cache_layouts()[turn++ % cache_layouts().size()];
    expect_rows(call,
                step_by_step(GetParam(), call, chunks_of(n), true, layout, [&](int64_t) { return call.terms; }),
                GetParam().eps());
  }
}

const char* const kFollowLength[] = {
    "rope(scaling=dynamic,factor=2,original=8)",
    "rope(scaling=longrope,original=8,factor=4,short_factor=1/1.5/2/3,long_factor=1/4/16/32)"};

// Every step is the last rows of the whole pass over so many tokens, whose frequencies it takes.
TEST_P(Decode, D16_D23_D24_UnturnedKeysFollowTheLength) {
  for (const char* specification : kFollowLength) {
    SCOPED_TRACE(specification);
    const Asked asked(specification, 4, 8);
    // A first prompt of O + 1 tokens, and one that crosses O later.
    for (const std::vector<int>& chunks : {std::vector<int>{9, 1, 1, 5}, {5, 1, 1, 1, 1, 1, 6}}) {
      const Call<double> call = rounded(tokens_of(2, 16));
      const std::vector<double> got = step_by_step(GetParam(), call, chunks, false, cache_layouts()[2],
                                                   [&](int64_t length) { return asked.terms(length); });
      int from = 0;
      for (int n : chunks) {
        Call<double> whole = part(call, 0, from + n, from + n);
        whole.terms = cast<double>(cast<float>(asked.terms(from + n)));
        const Results<double> want = run_twin(whole, false);
        const Results<Sized> sized = run_twin(cast_call<Sized>(whole), false);
        const double allowed = oracle::kSafety * double(1 + sum_length(whole.shape)) * GetParam().eps();
        for (int bh = 0; bh < 8; ++bh) {
          for (int i = from; i < from + n; ++i) {
            for (int c = 0; c < 8; ++c) {
              const size_t at = size_t((bh * (from + n) + i) * 8 + c);
              EXPECT_NEAR(got[size_t((bh * 16 + i) * 8 + c)], want.out[at], allowed * sized.out[at].size);
            }
          }
        }
        from += n;
      }
    }
  }
}

TEST_P(Decode, D16_D23_TurnedKeysThatWouldGoStaleAreRefused) {
  for (const char* specification : kFollowLength) {
    const Asked asked(specification, 4, 8);
    try {
      step_by_step(GetParam(), tokens_of(1, 4), {4}, true, cache_layouts()[0],
                   [&](int64_t length) { return asked.terms(length); });
      ADD_FAILURE() << specification << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("would be stale"), std::string::npos) << error.what();
    }
  }
}

// Sequences of 7 and 9 tokens with an original length of 8: each has its own list of factors.
template <class T>
Decoded decode_two_lengths(const Call<double>& call, const std::vector<Rotation>& rotations) {
  const oracle::Shape& s = call.shape;
  const Call<T> typed = cast_call<T>(call);
  CacheMemory<T> memory(cache_layouts()[2], 2, s.hk, s.d, s.dv, s.k);
  memory.cache.keys_turned = false;
  const std::vector<int64_t> counts{7, 9};
  attention::NewTokens<T> tokens;
  tokens.k = typed.k_view(), tokens.v = typed.v_view(), tokens.counts = {counts.data(), {2}};
  attention::append(memory.cache, tokens, Terms<T>());
  attention::DecodeInputs<T> in;
  in.q = typed.q_view();
  in.cache = memory.cache;
  in.rotations = {rotations.data(), {2}};
  std::vector<T> out(typed.out_gradient.size());
  attention::Outputs<T> outputs;
  outputs.out = typed.rows(out.data(), s.h, s.q, s.dv);
  attention::Workspace workspace;
  ThreadPool pool(2);
  attention::decode(in, Terms<T>(), call.options, outputs, workspace, pool);
  return {{out.begin(), out.end()}, {}};
}

TEST_P(Decode, D25_EverySequenceOfABatchHasTheFrequenciesOfItsLength) {
  for (const char* specification : kFollowLength) {
    SCOPED_TRACE(specification);
    const Asked asked(specification, 4, 8);
    Call<double> call = tokens_of(2, 9);
    call.shape.q = 1;
    call.q.resize(2 * 4 * 8), call.out_gradient.resize(2 * 4 * 8);
    call = rounded(call);
    const std::vector<Rotation> rotations{*asked.terms(7).rotation, *asked.terms(9).rotation};
    EXPECT_NE(rotations[0].frequency, rotations[1].frequency);
    const Using set(GetParam().set);
    const Decoded got = GetParam().single ? decode_two_lengths<float>(call, rotations)
                                          : decode_two_lengths<double>(call, rotations);
    for (int b = 0; b < 2; ++b) {
      const int length = b == 0 ? 7 : 9;
      Call<double> one = call;
      one.shape.b = 1, one.shape.k = length;
      one.q.assign(call.q.begin() + b * 32, call.q.begin() + (b + 1) * 32);
      one.out_gradient.resize(32);
      one.k.clear(), one.v.clear();
      for (int h = 0; h < 2; ++h) {
        append(one.k, call.k, (b * 2 + h) * 72, length * 8);
        append(one.v, call.v, (b * 2 + h) * 72, length * 8);
      }
      one.terms.rotation = rotations[size_t(b)];
      expect_rows(one, {got.out.begin() + b * 32, got.out.begin() + (b + 1) * 32}, GetParam().eps());
    }
  }
}

TEST_P(Decode, D09_LeftPaddedSequencesAreTheUnpaddedOnes) {
  // Sequence 1 has three pads: positions 0 0 0 0 1 2 ..., and numbers per key that hide them.
  const int n = 24, pads = 3;
  Call<double> call = tokens_of(2, n);
  call.term_bits = kNumber | kRotation;
  call.terms = random_like(call, 4).terms;
  call.shape.q = 2;
  call.q.resize(2 * 4 * 2 * 8), call.out_gradient.resize(2 * 4 * 2 * 8);
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < n; ++t) {
      call.k_positions.push_back(b == 0 ? t : std::max(0, t - pads));
      call.key_numbers.push_back(b == 1 && t < pads ? -std::numeric_limits<double>::infinity() : 0);
    }
    for (int i = 0; i < 2; ++i) call.q_positions.push_back(n - 2 + i - (b == 1 ? pads : 0));
  }
  call.key_batches = 2, call.key_heads = 1;
  call = rounded(call);
  for (int h = 0; h < 2; ++h) {
    for (int c = 0; c < 8 * pads; ++c) {
      call.k[size_t((2 + h) * n * 8 + c)] = call.v[size_t((2 + h) * n * 8 + c)] = not_a_number<double>();
    }
  }
  const Decoded got = decode_call(GetParam(), call, cache_layouts()[1]);
  Call<double> alone = call;
  alone.shape.b = 1, alone.shape.k = n - pads;
  alone.k_positions.clear(), alone.q_positions.clear(), alone.key_batches = 0;
  alone.q.assign(call.q.begin() + 64, call.q.end());
  alone.out_gradient.resize(64);
  alone.k.clear(), alone.v.clear();
  for (int h = 0; h < 2; ++h) {
    append(alone.k, call.k, ((2 + h) * n + pads) * 8, (n - pads) * 8);
    append(alone.v, call.v, ((2 + h) * n + pads) * 8, (n - pads) * 8);
  }
  expect_rows(alone, {got.out.begin() + 64, got.out.end()}, GetParam().eps());
}

TEST_P(Decode, D03_TheOwnPositionHasBiasZero) {
  // The golden row of ALiBi, one key at a time, as the last of five tokens and far along.
  for (int64_t offset : {0, 1000000}) {
    for (int j = 0; j < 5; ++j) {
      Call<double> call = scores_are(1, {0});
      call.terms.number = number(false, {0, {0}, kNoRow, kNoRow}, {0}, {-.5});
      call.q_positions = {offset + 4};
      call.k_positions = {offset + j};
      const double want = golden::kAlibiDecodeRow5[j];
      EXPECT_NEAR(decode_call(GetParam(), call, cache_layouts()[0]).lse[0], want,
                  4 * GetParam().eps() * std::fabs(want));
    }
  }
}

}  // namespace
}  // namespace locant::test
