// Files written by the reference implementation, files written here, and every way to be wrong.
#include "locant/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <bit>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tests/checkpoint/temporary_folder.h"

namespace locant {
namespace {

using Shape = std::vector<int64_t>;

// The file of a header and its data.
std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

SafetensorsHeader parse(const std::string& header, const std::string& data = "") {
  const std::string bytes = file_of(header, data);
  return parse_safetensors(bytes, static_cast<int64_t>(bytes.size()), "some.safetensors");
}

template <class Error = std::invalid_argument>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' not in: " << message;
  }
}

// Expects the header to be refused with these words, file name included.
void expect_refused(const std::string& header, const std::string& data,
                    std::vector<std::string> words) {
  words.push_back("[safetensors] some.safetensors: ");
  expect_words(error_of([&] { parse(header, data); }), words);
}

std::vector<float> counting(size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

// Written by the Python package safetensors 0.8.0 from w = arange(6) as 2 x 3 F32, s = -2.5 as F16,
// e = I64 of shape 0 x 4, and two entries of metadata.
TEST(Safetensors, ReadsTheReferenceImplementation) {
  const std::string header =
      "{\"__metadata__\":{\"note\":\"\xc3\xa9 \\\"x\\\"\",\"format\":\"pt\"},"
      "\"e\":{\"dtype\":\"I64\",\"shape\":[0,4],\"data_offsets\":[0,0]},"
      "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
      "\"s\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[24,26]}} ";
  ASSERT_EQ(header.size(), 0xd8u);
  const std::string data(
      "\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x00\xc1", 26);
  const TemporaryFolder folder;
  put(folder.path("a"), file_of(header, data));
  const SafetensorsReader reader(folder.path("a"));
  EXPECT_EQ(reader.metadata(),
            (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\xc3\xa9 \"x\""}}));
  ASSERT_EQ(reader.header().tensors.size(), 3u);
  EXPECT_EQ(reader.header().tensors[0].name, "e");
  EXPECT_EQ(reader.info("e").shape, (Shape{0, 4}));
  EXPECT_EQ(reader.info("e").type, ElementType::kI64);
  EXPECT_EQ(reader.info("s").shape, Shape{});
  std::vector<float> w(6), s(1);
  reader.read_floats("w", Shape{2, 3}, w);
  EXPECT_EQ(w, (std::vector<float>{0, 1, 2, 3, 4, 5}));
  reader.read_floats("s", Shape{}, s);
  EXPECT_EQ(s[0], -2.5f);
}

TEST(Safetensors, WritesExactlyThis) {
  const TemporaryFolder folder;
  const std::vector<float> a = {1, -2};
  const std::vector<std::byte> b = {std::byte{7}};
  const std::vector<TensorToWrite> tensors = {
      float_tensor("a", {1, 2}, a),
      {.name = "\"b\"", .type = ElementType::kU8, .shape = {1}, .bytes = b}};
  write_safetensors(folder.path("f"), {{"key", "line\nbreak"}}, tensors);
  std::string header =
      "{\"__metadata__\":{\"key\":\"line\\nbreak\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
      "\"\\\"b\\\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(contents(folder.path("f")),
            file_of(header, std::string("\x00\x00\x80?\x00\x00\x00\xc0\x07", 9)));
}

TEST(Safetensors, WhatIsWrittenReadsBack) {
  const TemporaryFolder folder;
  const std::vector<float> values = counting(24);
  const std::vector<double> doubles = {0.1, 1e300, -0.0};
  std::vector<TensorToWrite> tensors = {float_tensor("layers.0.weight", {2, 3, 4}, values),
                                        float_tensor("none", {0, 7}, {}),
                                        float_tensor("scalar", {}, std::span(values).first(1))};
  tensors.push_back({.name = "doubles",
                     .type = ElementType::kF64,
                     .shape = {3},
                     .bytes = std::as_bytes(std::span(doubles))});
  const std::map<std::string, std::string> metadata = {{"scheme", "t5(buckets=32)"},
                                                       {"\xc3\xa9", std::string("a\0b\\\"", 5)}};
  write_safetensors(folder.path("f"), metadata, tensors);
  const SafetensorsReader reader(folder.path("f"));
  EXPECT_EQ(reader.metadata(), metadata);
  EXPECT_EQ(reader.header().data_begin % 8, 0);
  ASSERT_EQ(reader.header().tensors.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& info = reader.header().tensors[i];
    EXPECT_EQ(info.name, tensors[i].name);  // the order given
    EXPECT_EQ(info.shape, tensors[i].shape);
    EXPECT_EQ(info.type, tensors[i].type);
    std::vector<std::byte> bytes(tensors[i].bytes.size());
    reader.read(info, bytes);
    EXPECT_TRUE(std::ranges::equal(bytes, tensors[i].bytes)) << info.name;
  }
  std::vector<float> as_float(3);
  reader.read_floats("doubles", Shape{3}, as_float);
  EXPECT_EQ(as_float, (std::vector<float>{0.1f, std::numeric_limits<float>::infinity(), -0.0f}));
}

TEST(Safetensors, NothingToWriteIsAFileToo) {
  const TemporaryFolder folder;
  write_safetensors(folder.path("f"), {}, {});
  const SafetensorsReader reader(folder.path("f"));
  EXPECT_TRUE(reader.metadata().empty());
  EXPECT_TRUE(reader.header().tensors.empty());
}

// Every half and every bf16 against its definition (-1)^s 2^(e - bias) (1 + f), and e = 0
// subnormal.
TEST(Safetensors, EveryHalfAndBf16ConvertsExactly) {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), uint16_t{0});
  const TemporaryFolder folder;
  const std::span<const std::byte> bytes = std::as_bytes(std::span<const uint16_t>(all));
  const std::vector<TensorToWrite> tensors = {
      {.name = "half", .type = ElementType::kF16, .shape = {65536}, .bytes = bytes},
      {.name = "bf16", .type = ElementType::kBF16, .shape = {65536}, .bytes = bytes}};
  write_safetensors(folder.path("f"), {}, tensors);
  const SafetensorsReader reader(folder.path("f"));
  struct Format {
    const char* name;
    int fraction_bits, exponent_bits;
  };
  for (const Format format : {Format{"half", 10, 5}, Format{"bf16", 7, 8}}) {
    std::vector<float> got(65536);
    reader.read_floats(format.name, Shape{65536}, got);
    const int bias = (1 << (format.exponent_bits - 1)) - 1;
    for (int bits = 0; bits < 65536; ++bits) {
      const int exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
      const int fraction = bits & ((1 << format.fraction_bits) - 1);
      const bool negative = bits >> 15 != 0;
      if (exponent == (1 << format.exponent_bits) - 1 && fraction != 0) {
        EXPECT_TRUE(std::isnan(got[bits])) << format.name << ' ' << bits;
        continue;
      }
      double expected = std::numeric_limits<double>::infinity();
      if (exponent != (1 << format.exponent_bits) - 1) {
        const double lead = exponent == 0 ? 0 : 1;
        expected = std::ldexp(lead + std::ldexp(fraction, -format.fraction_bits),
                              std::max(exponent, 1) - bias);
      }
      EXPECT_EQ(got[bits], static_cast<float>(negative ? -expected : expected))
          << format.name << ' ' << bits;
      EXPECT_EQ(std::signbit(got[bits]), negative);
    }
  }
}

TEST(SafetensorsReader, AsksForTheRightTensor) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  const std::vector<float> values = counting(6);
  const std::vector<std::byte> byte(6);
  write_safetensors(path, {},
                    std::vector<TensorToWrite>{
                        float_tensor("a", {2, 3}, values),
                        {.name = "bytes", .type = ElementType::kU8, .shape = {6}, .bytes = byte}});
  const SafetensorsReader reader(path);
  std::vector<float> room(6), small(5);
  expect_words(error_of([&] { reader.info("c"); }), {path, "no tensor \"c\"", "2: a, bytes"});
  expect_words(error_of([&] {
                 reader.read_floats("a", Shape{3, 2}, room);
               }),
               {path, "\"a\"", "expected shape [3, 2]", "got [2, 3]"});
  expect_words(error_of([&] {
                 reader.read_floats("a", Shape{2, 3}, small);
               }),
               {"6 values", "got 5"});
  expect_words(error_of([&] { reader.read_floats("bytes", Shape{6}, room); }), {"F32", "got U8"});
  std::vector<std::byte> wrong(23);
  expect_words(error_of([&] { reader.read(reader.info("a"), wrong); }), {"24 bytes", "got 23"});
}

TEST(SafetensorsReader, KeepsReadingTheFileItOpened) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  const std::vector<float> old_values = {1, 2}, new_values = {3, 4};
  write_safetensors(path, {}, std::vector{float_tensor("a", {2}, old_values)});
  SafetensorsReader reader(path);
  write_safetensors(path, {}, std::vector{float_tensor("a", {2}, new_values)});
  std::vector<float> got(2);
  reader.read_floats("a", Shape{2}, got);
  EXPECT_EQ(got, old_values);
  reader = SafetensorsReader(path);
  reader.read_floats("a", Shape{2}, got);
  EXPECT_EQ(got, new_values);
}

TEST(SafetensorsReader, FilesThatCannotBeRead) {
  const TemporaryFolder folder;
  expect_words(error_of<FileError>([&] { SafetensorsReader reader(folder.path("none")); }),
               {"cannot read", folder.path("none"), "No such file"});
  expect_words(error_of([&] { SafetensorsReader reader(folder.path().string()); }),
               {folder.path().string(), "expected a file"});
  put(folder.path("empty"), "");
  expect_words(error_of([&] { SafetensorsReader reader(folder.path("empty")); }),
               {folder.path("empty"), "at least 8 bytes", "got 0"});
  put(folder.path("text"), "This is no weights file at all.");
  expect_words(error_of([&] { SafetensorsReader reader(folder.path("text")); }),
               {folder.path("text"), "announce a header of", "at most 100000000"});
}

constexpr char kGood[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
constexpr char kEight[] = "12345678";

TEST(SafetensorsHeader, TheGoodOneIsAccepted) {
  EXPECT_EQ(parse(kGood, kEight).tensors.size(), 1u);
  EXPECT_EQ(parse(std::string(kGood) + "  \n ", kEight).tensors.size(), 1u);  // padding
  // Any order of fields and tensors, and fields of later versions.
  const auto header =
      parse(R"({"b":{"data_offsets":[4,8],"new":[1,{"x":null}],"shape":[4],"dtype":"I8"},)"
            R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},"__metadata__":{}})",
            kEight);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].begin, 4);
}

TEST(SafetensorsHeader, LengthsThatDoNotFit) {
  std::string bytes = file_of(kGood, kEight);
  const auto refused = [&](uint64_t length) {
    std::memcpy(bytes.data(), &length, 8);
    return error_of([&] { parse_safetensors(bytes, static_cast<int64_t>(bytes.size()), "f"); });
  };
  expect_words(refused(bytes.size() - 7), {"announce", "but only 62 follow"});
  expect_words(refused(~uint64_t{0}), {"18446744073709551615", "at most"});
  expect_words(refused(uint64_t{1} << 63), {"9223372036854775808", "at most"});
  expect_words(refused(0), {"begin with '{'", "empty"});
  expect_words(error_of([] { parse_safetensors("1234567", 7, "f"); }), {"at least 8", "got 7"});
  // Less than the header given by the caller.
  const std::string whole = file_of(kGood, kEight);
  expect_words(error_of([&] {
                 parse_safetensors(std::string_view(whole).substr(0, 20),
                                   static_cast<int64_t>(whole.size()), "f");
               }),
               {"its header has 54 bytes, got 12"});
}

TEST(SafetensorsHeader, NotTheRightJson) {
  expect_refused("[]", "", {"begin with '{'", "got \"[\""});
  expect_refused(std::string(" ") + kGood, kEight, {"begin with '{'"});
  expect_refused("{", "", {"not JSON"});
  expect_refused("{} x", "", {"not JSON"});
  expect_refused("{}{}", "", {"not JSON"});
  expect_refused("{\"a\xff\":1}", "", {"not JSON", "UTF-8"});
  expect_refused(R"({"a":7})", "", {"tensor \"a\"", "expected an object"});
  expect_refused(std::string(3000, '[').insert(0, "{\"a\":"), "", {"not JSON"});
}

TEST(SafetensorsHeader, FieldsOfATensor) {
  const auto with = [](const std::string& fields) { return R"({"a":{)" + fields + "}}"; };
  expect_refused(with(R"("shape":[2],"data_offsets":[0,8])"), kEight,
                 {"\"a\"", "dtype is missing"});
  expect_refused(with(R"("dtype":"F32","data_offsets":[0,8])"), kEight, {"shape is missing"});
  expect_refused(with(R"("dtype":"F32","shape":[2])"), kEight, {"data_offsets is missing"});
  expect_refused(with(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), kEight,
                 {"\"a\"", "unknown dtype \"F33\"", "F32"});
  expect_refused(with(R"("dtype":4,"shape":[2],"data_offsets":[0,8])"), kEight, {"be a string"});
  expect_refused(with(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), kEight,
                 {"shape must be a list"});
  for (const std::string bad : {"-2", "2.0", "2.5", "\"2\"", "null", "9223372036854775808"}) {
    expect_refused(with(R"("dtype":"F32","shape":[)" + bad + R"(],"data_offsets":[0,8])"), kEight,
                   {"shape must hold whole numbers"});
    expect_refused(with(R"("dtype":"F32","shape":[2],"data_offsets":[0,)" + bad + "]"), kEight,
                   {"data_offsets must hold whole numbers"});
  }
  expect_refused(with(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"), kEight,
                 {"two numbers, got 3"});
  expect_refused(with(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"shape":[2])"), kEight,
                 {"\"shape\" is there twice"});
}

TEST(SafetensorsHeader, SizesThatDoNotAgree) {
  const auto with = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}}";
  };
  expect_refused(with("3", "0,8"), kEight, {"needs 12 bytes", "hold 8"});
  expect_refused(with("1", "0,8"), kEight, {"needs 4 bytes", "hold 8"});
  expect_refused(with("2", "8,0"), kEight, {"ascend", "got 8 to 0"});
  expect_refused(with("4", "0,16"), kEight, {"within the 8 bytes", "got 0 to 16"});
  expect_refused(with("2", "0,8"), "123456789", {"cover 8 bytes", "file has 9"});
  expect_refused(with("1", "4,8"), kEight, {"begin at 4, expected 0", "hole"});
  // Products past 2^63, also when a zero or the element's size hides it.
  expect_refused(with("4294967296,4294967296", "0,8"), kEight, {"2^63 - 1 elements"});
  expect_refused(with("4294967296,4294967296,0", "0,0"), "", {"2^63 - 1 elements"});
  expect_refused(with("4611686018427387904", "0,0"), "", {"2^63 - 1 bytes"});
  EXPECT_NO_THROW(parse(with("0,4294967296,4294967296", "0,0")));
}

TEST(SafetensorsHeader, HolesOverlapsAndDoubles) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + a +
           R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + b + "]}}";
  };
  EXPECT_NO_THROW(parse(two("0,4", "4,8"), kEight));
  EXPECT_NO_THROW(parse(two("4,8", "0,4"), kEight));
  expect_refused(two("0,4", "3,7"), kEight, {"\"b\"", "begin at 3, expected 4", "overlap"});
  expect_refused(two("0,4", "0,4"), kEight, {"\"b\"", "begin at 0, expected 4", "overlap"});
  expect_refused(two("0,4", "5,9"), "123456789", {"\"b\"", "begin at 5, expected 4", "hole"});
  expect_refused(two("0,4", "4,8"), "123456789", {"cover 8 bytes", "file has 9"});
  const std::string a = R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused("{" + a + "," + a + "}", "", {"\"a\"", "there twice"});
  // The same name, spelt with an escape.
  expect_refused("{" + a + R"(,"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", "",
                 {"there twice"});
}

TEST(SafetensorsHeader, Metadata) {
  expect_refused(R"({"__metadata__":[]})", "", {"__metadata__", "object of strings"});
  expect_refused(R"({"__metadata__":{"k":1}})", "", {"\"k\"", "must be a string"});
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", "", {"\"k\"", "there twice"});
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "", {"there twice"});
}

TEST(SafetensorsHeader, HostileNamesStayReadable) {
  const std::string name(5000, 'n');
  const std::string message = error_of([&] { parse("{\"" + name + "\":7}"); });
  EXPECT_LT(message.size(), 400u);
  expect_refused("{\"a\\nb\\u0000\\\"\":7}", "", {R"(tensor "a\nb\u0000\"")"});
}

TEST(SafetensorsWriter, RefusesWhatNobodyCouldRead) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  put(path, "old");
  const std::vector<float> values = counting(6);
  const auto refused = [&](const std::vector<TensorToWrite>& tensors,
                           const std::map<std::string, std::string>& metadata = {}) {
    const std::string message = error_of([&] { write_safetensors(path, metadata, tensors); });
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(folder.files(), 1u);
    return message;
  };
  const TensorToWrite good = float_tensor("a", {6}, values);
  expect_words(refused({good, good}), {path, "\"a\" is there twice"});
  expect_words(refused({float_tensor("", {6}, values)}), {"not empty"});
  expect_words(refused({float_tensor("__metadata__", {6}, values)}), {"not __metadata__"});
  expect_words(refused({float_tensor("a\xff", {6}, values)}), {"UTF-8"});
  expect_words(refused({float_tensor("a", {7}, values)}), {"shape [7]", "needs 28 bytes, got 24"});
  expect_words(refused({float_tensor("a", {-1, -6}, values)}), {"[-1, -6]", "impossible"});
  expect_words(refused({float_tensor("a", {int64_t{1} << 62, 4}, values)}), {"impossible"});
  expect_words(refused({good}, {{"k", "\xff"}}), {"metadata \"k\"", "UTF-8"});
  // All reasons at once.
  expect_words(refused({float_tensor("x", {1}, values), float_tensor("y", {2}, values)}),
               {"\"x\"", "\"y\""});
}

TEST(SafetensorsWriter, NoRoomLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path("f");
  const std::vector<float> few = counting(2), many = counting(5000);
  write_safetensors(path, {}, std::vector{float_tensor("a", {2}, few)});
  const std::string before = contents(path);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {1000, old.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of<FileError>(
      [&] { write_safetensors(path, {}, std::vector{float_tensor("a", {5000}, many)}); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  expect_words(message, {"cannot write", path, "too large"});
  EXPECT_EQ(contents(path), before);
  EXPECT_EQ(folder.files(), 1u);
}

}  // namespace
}  // namespace locant
