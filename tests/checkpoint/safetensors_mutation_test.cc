// A good file, damaged in every small way: the reader refuses it with std::invalid_argument or what
// it accepts is sound. It never crashes and never throws anything else.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "locant/base/random.h"
#include "locant/checkpoint/safetensors.h"
#include "tests/checkpoint/safetensors_invariants.h"
#include "tests/checkpoint/temporary_folder.h"

namespace locant {
namespace {

std::string good_file() {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::byte> bytes(3);
  const std::vector<TensorToWrite> tensors = {
      float_tensor("layers.0.w", {2, 3}, values),
      {.name = "ids", .type = ElementType::kU8, .shape = {3}, .bytes = bytes},
      float_tensor("none", {0, 4}, {}),
      float_tensor("s", {}, std::span(values).first(1))};
  write_safetensors(folder.path("f"), {{"scheme", "alibi"}, {"seed", "1"}}, tensors);
  return contents(folder.path("f"));
}

// Whether the file was accepted; fails the test if it was and is not sound.
bool accepted(const std::string& bytes, const std::string& how) {
  bool accepted = false;
  EXPECT_EQ(parse_and_examine(bytes, &accepted), "") << how;
  return accepted;
}

TEST(SafetensorsMutation, CutOrLengthenedAnywhereIsRefused) {
  const std::string good = good_file();
  ASSERT_TRUE(accepted(good, "good"));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(accepted(good.substr(0, size), "cut")) << size;
  }
  for (size_t more = 1; more < 20; ++more) {
    EXPECT_FALSE(accepted(good + std::string(more, '\0'), "longer")) << more;
  }
}

TEST(SafetensorsMutation, EveryByteReplacedByEveryOther) {
  const std::string good = good_file();
  uint64_t header = 0;
  std::memcpy(&header, good.data(), 8);
  size_t accepted_headers = 0;
  for (size_t place = 0; place < good.size(); ++place) {
    std::string bytes = good;
    for (int value = 0; value < 256; ++value) {
      bytes[place] = static_cast<char>(value);
      const bool good_still = accepted(bytes, "replaced");
      if (place < 8) {
        EXPECT_EQ(good_still, bytes == good) << place << ' ' << value;  // another length never fits
      } else if (place < 8 + header) {
        accepted_headers += good_still;
      } else {
        EXPECT_TRUE(good_still);  // data may be anything
      }
    }
  }
  // Letters of names and of metadata may change; brackets, numbers and dtypes may not.
  EXPECT_GT(accepted_headers, header);
  EXPECT_LT(accepted_headers, header * 256 / 4);
}

TEST(SafetensorsMutation, BytesLeftOutOrRepeated) {
  const std::string good = good_file();
  for (size_t place = 0; place < good.size(); ++place) {
    accepted(std::string(good).erase(place, 1), "left out");
    accepted(std::string(good).insert(place, 1, good[place]), "repeated");
  }
}

// Several changes at once, the header's length kept true so that the changes reach the parser.
TEST(SafetensorsMutation, RandomEdits) {
  const std::string good = good_file();
  uint64_t length = 0;
  std::memcpy(&length, good.data(), 8);
  const std::string header = good.substr(8, length), data = good.substr(8 + length);
  const std::vector<std::string> pieces = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           ",",
                                           ":",
                                           "\"",
                                           "\\",
                                           "0",
                                           "-1",
                                           "18446744073709551615",
                                           "9223372036854775807",
                                           "1e9",
                                           "\"F16\"",
                                           "\"dtype\"",
                                           "null",
                                           "\"__metadata__\"",
                                           "\"shape\":",
                                           "\"data_offsets\":[0,0]",
                                           "\\u0000",
                                           "\xff"};
  Random random(20);
  for (int round = 0; round < 20000; ++round) {
    std::string text = header;
    for (uint64_t edit = random.below(4) + 1; edit-- > 0;) {
      const size_t place = random.below(text.size() + 1);
      switch (random.below(4)) {
        case 0:
          text.insert(place, pieces[random.below(pieces.size())]);
          break;
        case 1:
          text.erase(place, random.below(12));
          break;
        case 2:
          text.replace(place, random.below(6), pieces[random.below(pieces.size())]);
          break;
        default: {
          const size_t from = random.below(text.size() + 1);
          text.insert(place, text.substr(from, random.below(60)));
        }
      }
    }
    const uint64_t size = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &size, 8);
    accepted(bytes + text + data, "edited");
  }
}

}  // namespace
}  // namespace locant
