// What caches and decoding refuse, in which words, and that a refused append stores nothing.
#include <gtest/gtest.h>

#include <functional>

#include "tests/attention/decode_cache.h"

namespace locant::test {
namespace {

// A good append and a good decode over it, ready to be spoiled.
struct Spoiled {
  CacheMemory<float> memory;
  std::vector<float> k = std::vector<float>(2 * 2 * 5 * 6, 1), v = std::vector<float>(2 * 2 * 5 * 3, 1),
                     q = std::vector<float>(2 * 4 * 2 * 6, 1), out = std::vector<float>(2 * 4 * 2 * 3, 7),
                     lse = std::vector<float>(2 * 4 * 2), numbers = std::vector<float>(100);
  std::vector<int64_t> positions = std::vector<int64_t>(40, 3), counts{5, 2};
  std::vector<Rotation> rotations = std::vector<Rotation>(2);
  attention::NewTokens<float> tokens;
  attention::DecodeInputs<float> in;
  attention::Outputs<float> outputs;
  attention::Options options;
  Terms<float> terms;

  explicit Spoiled(int64_t page = 4) : memory({page, false, 3}, 2, 2, 6, 3, 5) {
    tokens.k = {k.data(), {2, 2, 5, 6}};
    tokens.v = {v.data(), {2, 2, 5, 3}};
    tokens.counts = {counts.data(), {2}};
    in.q = {q.data(), {2, 4, 2, 6}};
    in.cache = memory.cache;
    outputs.out = {out.data(), {2, 4, 2, 3}};
    outputs.lse = {lse.data(), {2, 4, 2}};
  }
  std::string append() { return message([&] { attention::append(memory.cache, tokens, terms); }); }
  std::string decode() {
    return message([&] {
      attention::Workspace workspace;
      SerialExecutor serial;
      attention::decode(in, terms, options, outputs, workspace, serial);
    });
  }
  static std::string message(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "(nothing was refused)";
  }
};

void expect_says(const std::string& message, const std::string& operation, const std::string& part) {
  EXPECT_EQ(message.rfind("[" + operation + "] ", 0), 0u) << message;
  EXPECT_NE(message.find(part), std::string::npos) << "expected: " << part << "\ngot: " << message;
}

TEST(CacheErrors, AGoodAppendIsAccepted) {
  for (int64_t page : {0, 4}) {
    Spoiled setup(page);
    EXPECT_EQ(setup.append(), "(nothing was refused)");
    EXPECT_EQ(setup.memory.lengths, (std::vector<int64_t>{5, 2}));
    EXPECT_EQ(setup.decode(), "(nothing was refused)");
  }
}

TEST(CacheErrors, AppendNamesWhatIsWrongAndStoresNothing) {
  const std::pair<const char*, std::function<void(Spoiled&)>> wrongs[] = {
      {"heads and the head size of the cache", [](Spoiled& s) { s.tokens.k = {s.k.data(), {2, 2, 5, 5}}; }},
      {"the new v must be [2, 2, 5, 3], got [2, 2, 4, 3]",
       [](Spoiled& s) { s.tokens.v = {s.v.data(), {2, 2, 4, 3}}; }},
      {"the cache must have the batch of q or of the new tokens, 1",
       [](Spoiled& s) { s.tokens.k.shape[0] = s.tokens.v.shape[0] = 1, s.tokens.counts = {}; }},
      {"counts[1] must be from 0 to 5, got 6", [](Spoiled& s) { s.counts[1] = 6; }},
      {"counts must be [2], got [1]", [](Spoiled& s) { s.tokens.counts = {s.counts.data(), {1}}; }},
      {"sequence 0 holds 4 and gets 5 tokens, more than the capacity 8",
       [](Spoiled& s) { s.memory.lengths[0] = 4; }},
      {"lengths[0] must be from 0 to the capacity 8, got 9", [](Spoiled& s) { s.memory.lengths[0] = 9; }},
      {"block_table[0, 1] must be a page of the pool's 7, got 7", [](Spoiled& s) { s.memory.table[1] = 7; }},
      {"block_table[1, 0] must be a page of the pool's 7, got -1", [](Spoiled& s) { s.memory.table[2] = -1; }},
      {"would be written twice, by sequence 1", [](Spoiled& s) { s.memory.table[2] = s.memory.table[0]; }},
      {"block_table must be [2, blocks], got [1, 2]",
       [](Spoiled& s) { s.memory.cache.block_table.shape[0] = 1; }},
      {"positions must be [2 or 1, 5], got [2, 4]",
       [](Spoiled& s) { s.tokens.positions = {s.positions.data(), {2, 4}}; }},
      {"positions[1, 1] must be from 0 to 2^31 - 1, got -2",
       [](Spoiled& s) {
         s.positions[6] = -2;
         s.tokens.positions = {s.positions.data(), {2, 5}};
       }},
      {"the last stride of the new k must be 1, got 2", [](Spoiled& s) { s.tokens.k.stride[3] = 2; }},
      {"must agree but for their last dimension", [](Spoiled& s) { s.memory.cache.v.shape[1] = 1; }},
      {"the rotation's width must be at most the head size 6, got 8",
       [](Spoiled& s) {
         s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 8, {1, 1, 1, 1}, 1, {}, 0};
       }},
      {"the rotation's scales leave single precision beyond 28 of their center, position 2, got 31 in positions",
       [](Spoiled& s) {
         s.positions[1] = 31;
         s.tokens.positions = {s.positions.data(), {2, 5}};
         s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {-3}, 2};
       }},
      {"would be stale", [](Spoiled& s) {
         s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {}, 0, true};
       }},
  };
  for (const auto& [words, spoil] : wrongs) {
    SCOPED_TRACE(words);
    Spoiled setup;
    spoil(setup);
    const std::vector<int64_t> lengths = setup.memory.lengths;
    expect_says(setup.append(), "cache append", words);
    EXPECT_EQ(setup.memory.lengths, lengths);
    for (float x : setup.memory.k) EXPECT_TRUE(std::isnan(x)) << "something was stored";
  }
}

TEST(CacheErrors, PagesOfEmptyCountsAreNotLookedAt) {
  Spoiled setup;
  setup.counts = {3, 0};
  setup.memory.table[1] = setup.memory.table[2] = setup.memory.table[3] = -7;
  EXPECT_EQ(setup.append(), "(nothing was refused)");
  EXPECT_EQ(setup.decode(), "(nothing was refused)") << "blocks beyond the lengths may hold anything";
}

TEST(CacheErrors, DecodeNamesWhatIsWrong) {
  const std::pair<const char*, std::function<void(Spoiled&)>> wrongs[] = {
      {"the heads of the cache must divide those of q, got 2 and 3",
       [](Spoiled& s) { s.in.q = {s.q.data(), {2, 3, 2, 6}}; }},
      {"the cache's keys must have the head size of q", [](Spoiled& s) { s.in.q = {s.q.data(), {2, 4, 2, 4}}; }},
      {"the cache must have the batch of q or of the new tokens, 1",
       [](Spoiled& s) { s.in.q = {s.q.data(), {1, 4, 2, 6}}; }},
      {"out must be [2, 4, 2, 3], got [2, 4, 2, 2]", [](Spoiled& s) { s.outputs.out.shape[3] = 2; }},
      {"lse must be [2, 4, 2], got [2, 4, 1]", [](Spoiled& s) { s.outputs.lse.shape[2] = 1; }},
      {"lengths[1] must be from 0 to the capacity 8, got 9", [](Spoiled& s) { s.memory.lengths[1] = 9; }},
      {"lengths[0] must be from 0 to the capacity 8, got -1", [](Spoiled& s) { s.memory.lengths[0] = -1; }},
      {"block_table[0, 1] must be a page of the pool's 7, got 7", [](Spoiled& s) { s.memory.table[1] = 7; }},
      {"number_per_key must be [2 or 1, 4 or 1, 8], got [2, 1, 5]",
       [](Spoiled& s) { s.in.number_per_key = {s.numbers.data(), {2, 1, 5}}; }},
      {"q_positions must be [2 or 1, 2], got [2, 3]",
       [](Spoiled& s) { s.in.q_positions = {s.positions.data(), {2, 3}}; }},
      {"q_positions[0, 1] must be from 0 to 2^31 - 1, got 2147483648",
       [](Spoiled& s) {
         s.positions[1] = int64_t{1} << 31;
         s.in.q_positions = {s.positions.data(), {2, 2}};
       }},
      {"k_positions must be [2 or 1, 8], got [1, 5]",
       [](Spoiled& s) { s.in.k_positions = {s.positions.data(), {1, 5}}; }},
      {"k_positions[1, 1] must be from 0 to 2^31 - 1, got -1",
       [](Spoiled& s) {
         s.positions[9] = -1;
         s.in.k_positions = {s.positions.data(), {2, 8}};
       }},
      {"softcap must be 0", [](Spoiled& s) { s.options.softcap = -1; }},
      {"decoding has no dropout", [](Spoiled& s) { s.options.dropout.rate = 0.1; }},
      {"terms.query_rows must be a table", [](Spoiled& s) {
         auto& rows = s.terms.query_rows.emplace();
         rows.index.rows.push_back(0);
         rows.rows = Table<float>(1, 1, 5);
       }},
      {"rotations must be [2], got [1]",
       [](Spoiled& s) { s.in.rotations = {s.rotations.data(), {1}}; }},
      {"rotations are given and terms.rotation too",
       [](Spoiled& s) {
         s.in.rotations = {s.rotations.data(), {2}};
         s.terms.rotation = Rotation();
       }},
      {"would be stale",
       [](Spoiled& s) { s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {}, 0, true}; }},
      {"beyond 28 of their center, position 100, got 3 in q_positions",
       [](Spoiled& s) { s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {-3}, 100}; }},
      {"beyond 28 of their center, position 30, got 0 in k_positions",
       [](Spoiled& s) {
         s.in.cache.keys_turned = false;
         s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {-3}, 30};
       }},
      {"follow the length of the sequence and lengths differ, 5 and 2",
       [](Spoiled& s) {
         s.in.cache.keys_turned = false;
         s.terms.rotation = Rotation{Rotation::Layout::kHalfSplit, 2, {1}, 1, {}, 0, true};
       }},
      {"out overlaps q", [](Spoiled& s) { s.outputs.out = {s.q.data(), {2, 4, 2, 3}}; }},
      {"out overlaps the cache's v", [](Spoiled& s) { s.outputs.out = {s.memory.v.data(), {2, 4, 2, 3}}; }},
  };
  for (const auto& [words, spoil] : wrongs) {
    SCOPED_TRACE(words);
    Spoiled setup;
    ASSERT_EQ(setup.append(), "(nothing was refused)");
    spoil(setup);
    expect_says(setup.decode(), "attention decode", words);
    EXPECT_EQ(setup.out, std::vector<float>(48, 7)) << "a refused call writes nothing";
  }
}

TEST(CacheErrors, AllReasonsAtOnce) {
  Spoiled setup;
  setup.outputs.out.shape[3] = 2;
  setup.options.softcap = -1;
  const std::string message = setup.decode();
  EXPECT_NE(message.find("out must be"), std::string::npos) << message;
  EXPECT_NE(message.find("softcap"), std::string::npos) << message;
}

}  // namespace
}  // namespace locant::test
